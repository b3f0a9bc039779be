// SPDX-License-Identifier: BSD-3-Clause
// Copies between requests and client memory, in pieces on the stack. Adapter's lock held; never
// allocates.
#include "vhca/uverbs/client_buffer.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "vhca/core/refusal.hh"
#include "vhca/memory/dma.hh"

namespace kilim::vhca::uverbs {

InBuffer InBuffer::embedded(uint64_t data, uint32_t bytes) noexcept {
  InBuffer b{Va{0}, std::min<uint32_t>(bytes, sizeof data)};
  b.embedded_ = true;
  b.data_ = data;
  return b;
}

int InBuffer::read(void* to, std::size_t bytes, std::size_t offset) const noexcept {
  std::size_t there = offset < bytes_ ? std::min<std::size_t>(bytes, bytes_ - offset) : 0;
  std::memset(static_cast<std::byte*>(to) + there, 0, bytes - there);
  if (there == 0) return 0;
  if (embedded_) {
    std::memcpy(to, reinterpret_cast<const std::byte*>(&data_) + offset, there);
    return 0;
  }
  return memory::dma::copy_in(to, Va{at_.value() + offset}, there)
             ? 0
             : refusal::fault(at_.value() + offset);
}

int InBuffer::zero_from(std::size_t offset) const noexcept {
  std::byte piece[256];
  while (offset < bytes_) {
    std::size_t n = std::min<std::size_t>(sizeof piece, bytes_ - offset);
    if (int err = read(piece, n, offset); err != 0) return err;
    if (std::any_of(piece, piece + n, [](std::byte b) { return b != std::byte{0}; }))
      return refusal::bytes("a part of the command that is not known here and not zero", bytes_,
                            offset, EOPNOTSUPP);
    offset += n;
  }
  return 0;
}

int OutBuffer::write(const void* from, std::size_t bytes) const noexcept {
  std::size_t n = std::min<std::size_t>(bytes, bytes_);
  if (n > 0 && !memory::dma::copy_out(at_, from, n)) return refusal::fault(at_.value());
  static constexpr std::byte zeroes[256]{};
  for (std::size_t at = n; at < bytes_; at += sizeof zeroes) {
    std::size_t piece = std::min<std::size_t>(sizeof zeroes, bytes_ - at);
    if (!memory::dma::copy_out(Va{at_.value() + at}, zeroes, piece))
      return refusal::fault(at_.value() + at);
  }
  return 0;
}

int OutBuffer::write_at(std::size_t offset, const void* from, std::size_t bytes) const noexcept {
  if (offset >= bytes_) return 0;
  std::size_t n = std::min<std::size_t>(bytes, bytes_ - offset);
  return memory::dma::copy_out(Va{at_.value() + offset}, from, n)
             ? 0
             : refusal::fault(at_.value() + offset);
}

}  // namespace kilim::vhca::uverbs
