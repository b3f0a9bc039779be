// SPDX-License-Identifier: BSD-3-Clause
// Binding: holds one mkey of a binder for as long as the value lives. Its destructor only queues
// the invalidation; the binder posts it with the next doorbell. Move-only. Owner: the binder's
// worker; the handles (lkey, rkey) may be given to any thread or peer. Never allocates, blocks or
// logs.
#pragma once

#include <cstdint>
#include <utility>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/detail/mkey/mkey.hh"
#include "kilim/detail/queue/wqe_cursor.hh"

namespace kilim::inline v1::mkey {

class MkeyBinder;

// Returned by MkeyBinder::claim(). A default-constructed Binding holds no key.
class [[nodiscard]] Binding {
 public:
  Binding() = default;
  Binding(Binding&& o) noexcept
      : binder_(std::exchange(o.binder_, nullptr)), key_(std::exchange(o.key_, nullptr)) {}
  Binding& operator=(Binding&& o) noexcept {
    if (this != &o) {
      end();
      binder_ = std::exchange(o.binder_, nullptr);
      key_ = std::exchange(o.key_, nullptr);
    }
    return *this;
  }
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;
  ~Binding() { end(); }

  // True: it holds a key. The functions below require that.
  explicit operator bool() const noexcept { return key_ != nullptr; }
  [[nodiscard]] MkeyState state() const noexcept { return key_->state; }
  // True when the UMR has completed: any queue and any peer may use the key.
  [[nodiscard]] bool valid() const noexcept { return key_->state == MkeyState::valid; }
  // The handle for any queue and any peer; only while valid(). The binder does not see what is done
  // with it: the caller awaits the completions of its users before it binds or releases the key.
  [[nodiscard]] Lkey lkey() const noexcept {
    KILIM_ASSERT(valid());
    key_->uses++;
    return key_->lkey;
  }
  [[nodiscard]] Rkey rkey() const noexcept { return Rkey{lkey().value()}; }
  // The handle for the WQE that is appended next at `c`, a cursor of the binder's own queue; the
  // UMR need not have completed. The binder puts a fence before the next change of the key. Not
  // while a swap of the key is under way.
  [[nodiscard]] Lkey lkey_behind(const queue::WqeCursor& c) noexcept;

  // The key's record, for diagnosis and for builders of UMRs.
  [[nodiscard]] const Mkey& key() const noexcept { return *key_; }
  // Takes over what `o` holds; this binding is empty.
  void start(Binding&& o) noexcept {
    KILIM_ASSERT(key_ == nullptr);
    binder_ = o.binder_;
    key_ = std::exchange(o.key_, nullptr);
  }
  // Ends the binding: its key is queued for invalidation, and the value is empty.
  void end() noexcept;

 private:
  friend class MkeyBinder;
  Binding(MkeyBinder& binder, Mkey& key) noexcept : binder_(&binder), key_(&key) {}
  MkeyBinder* binder_ = nullptr;
  Mkey* key_ = nullptr;
};
static_assert(sizeof(Binding) == 2 * sizeof(void*));

}  // namespace kilim::inline v1::mkey
