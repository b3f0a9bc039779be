// SPDX-License-Identifier: BSD-3-Clause
// Blocks of data units on their way. Adapter's lock held. Never allocates.
#include "vhca/tpt/crypto_stage.hh"

#include <algorithm>
#include <cstring>

namespace kilim::vhca::tpt {

void CryptoStage::open(const Crypto& c, const XtsKey& keys, uint64_t place, bool encrypt) noexcept {
  crypto_ = &c;
  keys_ = &keys;
  encrypt_ = encrypt;
  begun_ = false;
  place_ = c.floor(place);
  skip_ = static_cast<uint32_t>(place - place_);
  ready_at_ = ready_end_ = 0;
}

void CryptoStage::open_read(const Crypto& c, const XtsKey& keys, uint64_t place) noexcept {
  open(c, keys, place, c.encrypts_tx);
}

bool CryptoStage::open_write(Crypto& c, const XtsKey& keys, uint64_t place) noexcept {
  open(c, keys, place, !c.encrypts_tx);
  if (skip_ == 0) c.held_bytes = 0;
  return skip_ == 0 || (c.held_end == place && c.held_bytes == skip_);
}

void CryptoStage::work(std::byte* data, uint64_t bytes) noexcept {
  const uint64_t unit = crypto_->unit, rest = unit % aes_block;
  while (bytes > 0) {
    const uint64_t in_unit = place_ % unit;
    if (in_unit == 0 || !begun_)
      unit_.begin(*keys_, crypto_->number(place_ / unit), in_unit / aes_block);
    begun_ = true;
    const uint64_t n = std::min(bytes, unit - in_unit);
    const bool ends = rest != 0 && n == unit - in_unit;
    const uint64_t whole = ends ? crypto_->last_start() - in_unit : n;
    unit_.run(data, whole / aes_block, encrypt_);
    if (ends) unit_.run_last(data + whole, rest, encrypt_);
    data += n;
    place_ += n;
    bytes -= n;
  }
}

bool CryptoStage::read_block(Below below) noexcept {
  const uint64_t n = crypto_->block_at(place_);
  if (!below.copy(below.self, block_, n)) return false;
  work(block_, n);
  ready_at_ = skip_;
  ready_end_ = static_cast<uint32_t>(n);
  skip_ = 0;
  return true;
}

bool CryptoStage::read(std::byte* to, uint64_t bytes, Below below) noexcept {
  while (bytes > 0) {
    uint64_t n = std::min<uint64_t>(bytes, ready_end_ - ready_at_);
    if (n > 0) {
      std::memcpy(to, block_ + ready_at_, n);
      ready_at_ += static_cast<uint32_t>(n);
    } else {
      n = skip_ == 0 ? crypto_->floor(place_ + bytes) - place_ : 0;
      if (n == 0) {
        if (!read_block(below)) return false;
        continue;
      }
      if (!below.copy(below.self, to, n)) return false;
      work(to, n);
    }
    to += n;
    bytes -= n;
  }
  return true;
}

bool CryptoStage::write(Crypto& c, std::byte* from, uint64_t bytes, Below below) noexcept {
  while (bytes > 0) {
    uint64_t n = c.held_bytes == 0 ? c.floor(place_ + bytes) - place_ : 0;
    if (n > 0) {
      work(from, n);
      if (!below.copy(below.self, from, n)) return false;
    } else {
      const uint64_t block = c.block_at(place_);
      n = std::min(bytes, block - c.held_bytes);
      std::memcpy(c.held + c.held_bytes, from, n);
      c.held_bytes += static_cast<uint32_t>(n);
      c.held_end = place_ + c.held_bytes;
      if (c.held_bytes == block) {
        c.held_bytes = 0;
        work(c.held, block);
        if (!below.copy(below.self, c.held, block)) return false;
      }
    }
    from += n;
    bytes -= n;
  }
  return true;
}

}  // namespace kilim::vhca::tpt
