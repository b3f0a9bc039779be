// SPDX-License-Identifier: BSD-3-Clause
// A memory window of the device and the state that it is in. The C++ type of a window contains its
// state, so a call that the state does not allow does not compile: a bound window of type 2 cannot
// be bound, a free one has no key. umr/window.hh moves windows between states.
// Owner: the queue's worker. Never allocates, blocks or logs, but for the destructor of a window
// that still exists: it destroys the window on the device, on the control thread.
#pragma once

#include <cstdint>
#include <utility>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/cold.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/detail/mr/window_source.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/detail/umr/fence.hh"
#include "kilim/detail/umr/request.hh"
#include "kilim/prm/ctrl_seg.hh"

namespace kilim::inline v1::umr {

using mr::WindowType;

// In the order of a window's life; from invalidating it returns to free. Type 1 may also be bound
// again while bound, and a peer may take a bound window of type 2 to free.
enum class WindowState : uint8_t {
  free,          // gives no access
  binding,       // a bind is posted; a later WQE of the same queue may send the key to a peer
  bound,         // the bind has completed: peers may use the key
  invalidating,  // an invalidation is posted; until it completes peers may still use the key
  broken,        // a WQE that changes it failed: it can only be destroyed
};

template <WindowType T, WindowState S>
class Window;
namespace detail {
struct WindowStep;
}
template <WindowType T>
using FreeWindow = Window<T, WindowState::free>;
template <WindowType T>
using BindingWindow = Window<T, WindowState::binding>;
template <WindowType T>
using BoundWindow = Window<T, WindowState::bound>;
template <WindowType T>
using InvalidatingWindow = Window<T, WindowState::invalidating>;
template <WindowType T>
using BrokenWindow = Window<T, WindowState::broken>;

// Owns the device's window; made by create_window(). The destructor destroys the window in any
// state: work under way that names its key fails.
class WindowOwner {
 public:
  WindowOwner() noexcept = default;
  WindowOwner(mr::WindowSource& source, Rkey key) noexcept : source_(&source), key_(key) {}
  WindowOwner(WindowOwner&& o) noexcept
      : source_(std::exchange(o.source_, nullptr)),
        key_(o.key_),
        qpn_(o.qpn_),
        used_(o.used_),
        used_here_(o.used_here_) {}
  WindowOwner& operator=(WindowOwner&& o) noexcept {
    if (this != &o) {
      if (source_ != nullptr) drop();
      source_ = std::exchange(o.source_, nullptr);
      key_ = o.key_;
      qpn_ = o.qpn_;
      used_ = o.used_;
      used_here_ = o.used_here_;
    }
    return *this;
  }
  WindowOwner(const WindowOwner&) = delete;
  WindowOwner& operator=(const WindowOwner&) = delete;
  ~WindowOwner() {
    if (source_ != nullptr) drop();
  }

 private:
  template <WindowType T, WindowState S>
  friend class Window;
  friend struct detail::WindowStep;
  KILIM_COLD void drop() noexcept;

  mr::WindowSource* source_ = nullptr;
  Rkey key_;
  Qpn qpn_;            // of the queue pair that bound it
  uint32_t used_ = 0;  // where used_here_: position of that queue's last WQE that names the key
  bool used_here_ = false;  // such a WQE was appended since the bind
};

template <WindowType T, WindowState S>
class [[nodiscard]] Window {
 public:
  static constexpr WindowType type = T;
  static constexpr WindowState state = S;

  Window() noexcept = default;  // holds no window
  explicit Window(WindowOwner owner) noexcept requires(S == WindowState::free)
      : owner_(std::move(owner)) {}
  explicit operator bool() const noexcept { return owner_.source_ != nullptr; }

  // The key to send to a peer.
  [[nodiscard]] Rkey rkey() const noexcept
      requires(S == WindowState::binding || S == WindowState::bound) {
    return owner_.key_;
  }
  // The key for the WQE that is appended next at `c`, a cursor of the queue that bound the window
  // and that is connected to this device. The next change of the window waits for that WQE by a
  // fence.
  [[nodiscard]] Rkey rkey_behind(const queue::WqeCursor& c) noexcept
      requires(S == WindowState::binding || S == WindowState::bound) {
    KILIM_ASSERT(c.qpn() == owner_.qpn_);
    owner_.used_ = c.position();
    owner_.used_here_ = true;
    return owner_.key_;
  }

 private:
  friend struct detail::WindowStep;
  WindowOwner owner_;
};

// Moves windows between states; for umr/window.hh only.
struct detail::WindowStep {
  template <typename W>
  static Rkey key(const W& w) noexcept {
    return w.owner_.key_;
  }
  template <typename W>
  static Qpn queue(const W& w) noexcept {
    return w.owner_.qpn_;
  }
  // `wr` with a strong fence where WQEs of the cursor's queue may still use the window.
  template <typename W>
  static UmrWr behind_users(const W& w, const queue::WqeCursor& c, UmrWr wr) noexcept {
    const WindowOwner& o = w.owner_;
    if (o.used_here_ && o.qpn_ == c.qpn() && distance(o.used_, c.retired()) >= 0)
      wr.flags = prm::ctrl::with_fence(wr.flags, FencePlanner{}.before_umr(MkeyUse::in_flight));
    return wr;
  }
  // The window in state To, with this key, bound by this queue pair.
  template <WindowState To, WindowType T, WindowState S>
  static Window<T, To> become(Window<T, S>&& w, Rkey key, Qpn qpn = Qpn{0}) noexcept {
    Window<T, To> next;
    next.owner_ = std::move(w.owner_);
    next.owner_.key_ = key;
    next.owner_.qpn_ = qpn;
    if (S != WindowState::binding) next.owner_.used_here_ = false;
    return next;
  }
};

}  // namespace kilim::inline v1::umr
