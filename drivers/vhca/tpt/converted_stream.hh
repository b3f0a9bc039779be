// SPDX-License-Identifier: BSD-3-Clause
// One key of which the wire has something else than its memory: its bytes are encrypted, signed, or
// both. mlx5dv_wr_set_mkey_crypto(3) has the orders. Adapter's lock held. Never allocates; touches
// client memory only through the guarded copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vhca/tpt/key_memory.hh"
#include "vhca/tpt/signature_stream.hh"

namespace kilim::vhca::tpt {

class ConvertedStream {
 public:
  // The segment is of the wire; all of it has been checked. False: `result` says what is wrong; so
  // with the others.
  bool open(const Translator&, const Segment&, const Access& need, bool reading,
            Transfer& result) noexcept;
  // From memory to the wire.
  bool read(std::byte* to, uint64_t bytes) noexcept;
  // From the wire to memory. What comes may be changed in its place.
  bool write(std::byte* from, uint64_t bytes) noexcept;

 private:
  bool read_below(std::byte* to, uint64_t bytes) noexcept;
  bool write_below(std::byte* from, uint64_t bytes) noexcept;

  bool signs_ = false;
  Crypto* crypto_ = nullptr;  // on the wire's side; null: not encrypted there
  CryptoStage stage_;
  SignedStream signed_;
  KeyMemory memory_;
};

}  // namespace kilim::vhca::tpt
