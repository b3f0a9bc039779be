// SPDX-License-Identifier: BSD-3-Clause
// Areas are mapped whole at the first allocation and come into being page by page. Adapter's lock
// held.
#include "vhca/ethernet/icm.hh"

#include <algorithm>
#include <bit>
#include <cerrno>

#include <sys/mman.h>

namespace kilim::vhca::ethernet {

IcmArea::~IcmArea() {
  if (memory_ != nullptr) ::munmap(memory_, std::size_t{1} << log_bytes_);
}

Result<IcmBlock> IcmArea::alloc(uint64_t wanted) {
  const uint64_t all = uint64_t{1} << log_bytes_;
  if (wanted == 0 || wanted > all)
    return Error{EINVAL, "a length that steering memory cannot have"};
  const uint64_t bytes = std::bit_ceil(std::max(wanted, uint64_t{1} << log_unit));
  uint64_t at = 0;
  for (const auto& [begin, length] : taken_) {
    if (begin - at >= bytes && begin >= at) break;
    at = (begin + length + bytes - 1) & ~(bytes - 1);
  }
  if (at > all || bytes > all - at) return Error{ENOMEM, "steering memory is used up"};
  if (memory_ == nullptr) {
    void* map = ::mmap(nullptr, all, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return Error{ENOMEM, "no memory for steering"};
    memory_ = static_cast<std::byte*>(map);
  }
  taken_.emplace(at, bytes);
  return IcmBlock{start_ + at, reinterpret_cast<uintptr_t>(memory_) + at, bytes};
}

void IcmArea::dealloc(const IcmBlock& block) noexcept {
  const uint64_t at = block.address - start_;
  if (taken_.erase(at) != 0) ::madvise(memory_ + at, block.bytes, MADV_DONTNEED);
}

std::span<const std::byte> IcmArea::at(uint64_t address, std::size_t bytes) const noexcept {
  const uint64_t offset = address - start_;
  auto behind = taken_.upper_bound(offset);
  if (!has(address) || behind == taken_.begin()) return {};
  const auto& [begin, length] = *std::prev(behind);
  if (offset - begin >= length || bytes > length - (offset - begin)) return {};
  return {memory_ + offset, bytes};
}

}  // namespace kilim::vhca::ethernet
