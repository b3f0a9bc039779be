// SPDX-License-Identifier: BSD-3-Clause
// The memory of one key as a stream, decrypted or encrypted on the way where the key says so.
// Adapter's lock held. Never allocates; touches client memory only through the guarded copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vhca/tpt/crypto_stage.hh"
#include "vhca/tpt/transfer.hh"

namespace kilim::vhca::tpt {

class KeyMemory {
 public:
  // A range of the memory, all of it checked; what fails later is in `result`.
  struct Use {
    const Access& need;
    bool reading;  // the transfer reads, so that its source is meant
    Transfer& result;
  };
  void open(const Translator&, Mkey&, Signature::Range, const Use&) noexcept;
  // The next bytes, from memory or to it; those that go there are worked on in their place. Of one
  // direction only, or first the bytes before those that are written.
  bool copy(std::byte* adapter, uint64_t bytes, bool in) noexcept;

 private:
  bool copy_raw(std::byte* adapter, uint64_t bytes, bool in) noexcept;
  bool copy_crypto(std::byte* adapter, uint64_t bytes, bool in) noexcept;
  // The bytes before those to come are not in memory yet.
  bool read_held(std::byte* to, uint64_t bytes) noexcept;
  bool fail(const Verdict&) noexcept;

  Transfer* result_ = nullptr;
  Mkey* key_ = nullptr;
  bool reading_ = true;
  Walk walk_;
  Piece piece_{0, 0, nullptr};
  // The state of decrypting or encrypting, if the key is encrypted on this side:
  const XtsKey* crypto_keys_ = nullptr;  // null: it is not
  enum class Stage : uint8_t { closed, reads, writes } open_ = Stage::closed;
  CryptoStage stage_;
  uint64_t place_ = 0;
};

}  // namespace kilim::vhca::tpt
