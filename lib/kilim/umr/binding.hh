// SPDX-License-Identifier: BSD-3-Clause
// A key that shows something, for as long as this value lives. Its end queues the invalidation,
// which the loom posts with its next doorbell; nothing is posted behind the owner's back.
// Move-only. Owner: the loom's worker; its handles (lkey, rkey) may go anywhere. Never allocates,
// blocks or logs.
#pragma once

#include <cstdint>
#include <utility>

#include "kilim/base/assert.hh"
#include "kilim/base/ident.hh"
#include "kilim/queue/wqe_cursor.hh"
#include "kilim/umr/key.hh"

namespace kilim::umr {

class Loom;

class [[nodiscard]] Binding {
 public:
  Binding() = default;
  Binding(Binding&& o) noexcept
      : loom_(std::exchange(o.loom_, nullptr)), key_(std::exchange(o.key_, nullptr)) {}
  Binding& operator=(Binding&& o) noexcept {
    if (this != &o) {
      end();
      loom_ = std::exchange(o.loom_, nullptr);
      key_ = std::exchange(o.key_, nullptr);
    }
    return *this;
  }
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;
  ~Binding() { end(); }

  explicit operator bool() const noexcept { return key_ != nullptr; }
  [[nodiscard]] KeyState state() const noexcept { return key_->state; }
  // The UMR has completed: the key may be used anywhere.
  [[nodiscard]] bool valid() const noexcept { return key_->state == KeyState::valid; }
  // The handles for any queue and any peer. Only once the key is valid. The loom does not hear of
  // what is done with them: binding or dropping the key waits for the completions of that.
  [[nodiscard]] Lkey lkey() const noexcept {
    KILIM_ASSERT(valid());
    key_->uses++;
    return key_->lkey;
  }
  [[nodiscard]] Rkey rkey() const noexcept { return Rkey{lkey().value()}; }
  // The handle for the WQE that is appended next to the loom's own queue, the completion of the UMR
  // awaited or not. What changes the key later waits for that WQE by a fence. Not for keys of a
  // swap that has not completed.
  [[nodiscard]] Lkey lkey_behind(const queue::WqeCursor& c) noexcept;

  [[nodiscard]] const IndirectKey& key() const noexcept { return *key_; }
  // Of an empty binding: goes on with what `o` holds.
  void start(Binding&& o) noexcept {
    KILIM_ASSERT(key_ == nullptr);
    loom_ = o.loom_;
    key_ = std::exchange(o.key_, nullptr);
  }
  // No more use of the key through this value.
  void end() noexcept;

 private:
  friend class Loom;
  Binding(Loom& loom, IndirectKey& key) noexcept : loom_(&loom), key_(&key) {}
  Loom* loom_ = nullptr;
  IndirectKey* key_ = nullptr;
};
static_assert(sizeof(Binding) == 2 * sizeof(void*));

}  // namespace kilim::umr
