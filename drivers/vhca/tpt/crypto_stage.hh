// SPDX-License-Identifier: BSD-3-Clause
// IEEE 1619. Bytes of an encrypted key on their way in one direction: they are worked on block by
// block, begin and end anywhere. Towards the wire the blocks at both ends are read as a whole; of
// what comes from the wire the part of a block waits in the key for the rest. Owner: the transfer;
// adapter's lock held. Never allocates, touches no client memory itself.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vhca/tpt/crypto.hh"

namespace kilim::vhca::tpt {

class CryptoStage {
 public:
  // The bytes below, one after the other, from where the block of the first place begins.
  struct Below {
    void* self;
    bool (*copy)(void* self, std::byte* at, uint64_t bytes) noexcept;
  };

  // Towards the wire, from this place on.
  void open_read(const Crypto&, const XtsKey&, uint64_t place) noexcept;
  // From the wire. False: the block's first bytes are not known, so the others are of no use.
  bool open_write(Crypto&, const XtsKey&, uint64_t place) noexcept;
  bool read(std::byte* to, uint64_t bytes, Below) noexcept;
  // Works on the bytes in their place.
  bool write(Crypto&, std::byte* from, uint64_t bytes, Below) noexcept;

 private:
  void open(const Crypto&, const XtsKey&, uint64_t place, bool encrypt) noexcept;
  // Whole blocks from place_ on.
  void work(std::byte* data, uint64_t bytes) noexcept;
  bool read_block(Below) noexcept;

  const Crypto* crypto_ = nullptr;
  const XtsKey* keys_ = nullptr;
  bool encrypt_ = false;
  bool begun_ = false;  // unit_ stands at place_
  XtsUnit unit_;
  uint64_t place_ = 0;  // where the next block begins
  uint32_t skip_ = 0;   // of the first block
  // A block of which some bytes have been asked for.
  std::byte block_[2 * aes_block];
  uint32_t ready_at_ = 0, ready_end_ = 0;
};

}  // namespace kilim::vhca::tpt
