// SPDX-License-Identifier: BSD-3-Clause
// One signed key while bytes go through it: the sums of the blocks under way in both domains, its
// memory as a stream. It begins anywhere: the sums then begin with what memory holds of the block.
// Adapter's lock held. Never allocates; touches client memory only through the guarded copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vhca/tpt/key_memory.hh"
#include "vhca/tpt/signature_value.hh"
#include "vhca/tpt/transfer.hh"

namespace kilim::vhca::tpt {

class SignedStream {
 public:
  // `place` is of the wire, from the key's start; all of it has been checked. False: `result` says
  // what is wrong; so with the others.
  bool open(const Translator&, const Segment&, const Access& need, bool reading,
            Transfer& result) noexcept;
  // From memory to the wire.
  bool read(std::byte* to, uint64_t bytes) noexcept;
  // From the wire to memory.
  bool write(std::byte* from, uint64_t bytes) noexcept;

 private:
  // A domain's block under way.
  struct Side {
    const SignDomain* domain = nullptr;
    const Psv* psv = nullptr;
    uint64_t index = 0;
    uint32_t done = 0;  // bytes of its data
    RunningSum sum;

    void begin(uint64_t block) noexcept;
    void begin_at(uint64_t data) noexcept;
    // Bytes to the end of the block, at most `n`.
    [[nodiscard]] uint64_t straight(uint64_t n) const noexcept;
    // True: the block is whole now.
    bool add(const std::byte*, uint64_t n) noexcept;
    [[nodiscard]] uint64_t made() const noexcept {
      return make_signature(*domain, *psv, index, sum.value());
    }
  };
  bool catch_up(uint64_t from, uint64_t to) noexcept;
  bool resume_signature() noexcept;
  bool end_mem_block_read() noexcept;
  bool end_mem_block_write() noexcept;
  void end_signature() noexcept;
  bool write_signature(const std::byte* from, uint64_t n) noexcept;
  void check(const Side&, uint64_t value, uint8_t domain) noexcept;
  // The input's bytes where the copy mask says so.
  [[nodiscard]] uint64_t merged(uint64_t made) const noexcept;
  [[nodiscard]] bool waits_for_wire() const noexcept {
    return key_->signature->same_blocks && key_->signature->copy_mask != 0;
  }

  const Translator* t_ = nullptr;
  Mkey* key_ = nullptr;
  bool reading_ = true;
  Side wire_, mem_;
  uint64_t place_ = 0;         // on the wire
  bool in_signature_ = false;  // of the wire
  bool known_ = true;          // all of its bytes so far have been seen
  uint32_t signature_done_ = 0;
  std::byte signature_[8]{};
  uint64_t input_ = 0;  // the signature that came with the block, of the other domain
  bool has_input_ = false;
  KeyMemory memory_;
};

}  // namespace kilim::vhca::tpt
