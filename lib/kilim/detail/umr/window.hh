// SPDX-License-Identifier: BSD-3-Clause
// PRM: "UMR Work Request Operation". A memory window gives peers access to a part of a region, with
// byte granularity and under a key of its own, from one WQE (bind) to another (invalidate). The
// functions below append those WQEs and move a window to its next state (umr/window_state.hh).
// Owner: the queue's worker. Windows are made and destroyed on the control path; nothing else
// allocates, blocks or logs.
#pragma once

#include <cstdint>
#include <utility>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/cold.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/outcome.hh"
#include "kilim/detail/mr/region.hh"
#include "kilim/detail/mr/window_source.hh"
#include "kilim/detail/queue/completion.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/detail/umr/request.hh"
#include "kilim/detail/umr/umr_head.hh"
#include "kilim/detail/umr/window_state.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::inline v1::umr {

// The memory that a window is bound to: a part of a region with mr::Access::mw_bind.
struct WindowBind {
  const mr::Region* region = nullptr;
  uint64_t address = 0;      // as the region's own keys count (Region::iova)
  uint64_t length = 0;       // 1 to 2 GiB
  uint32_t access = 0;       // of mr::Access: remote_write, remote_read, remote_atomic
  bool zero_based = false;   // the window's first byte has address 0; type 2 only
  bool keep_atomic = false;  // the device cannot change the atomic right: Caps::umr_atomic

  static constexpr uint64_t longest = prm::umr::max_piece_bytes;
  static constexpr uint32_t grantable =
      mr::Access::remote_write | mr::Access::remote_read | mr::Access::remote_atomic;
};

// The key after the next bind: the same index with the next tag, which wraps at 8 bits.
constexpr Rkey next_window_key(Rkey key) noexcept {
  return Rkey{(key.value() & ~0xffu) | ((key.value() + 1) & 0xff)};
}

// Makes a window, in state free, by a command to the device. Control thread. EOPNOTSUPP: the device
// has no windows of this type; or the source's error. `source` outlives the window.
template <WindowType T>
Result<FreeWindow<T>> create_window(mr::WindowSource& source);

// Whether a window of this type may be bound so. Any thread.
KILIM_COLD Outcome check_window(const WindowBind& b, WindowType type) noexcept;

namespace detail {
inline constexpr uint32_t bind_wqebbs = 3, unbind_wqebbs = 2;
// The flags and fields that libmlx5's ibv_bind_mw() sets too (test/golden compares the bytes).
inline constexpr uint8_t window_flags = prm::umr::inline_list | prm::umr::has_translation_offset;
inline constexpr uint64_t window_mask = prm::umr::mask_free | prm::umr::mask_mkey;

// The fields in which the WQEs of the two types differ.
struct WindowWords {
  Rkey key;          // with the present tag
  uint8_t tag;       // afterwards
  uint32_t qpn;      // the only queue pair that may use it, or any_qpn
  uint8_t checks;    // prm::umr::check_*
  uint64_t changes;  // further bits of the mask
};

inline void append_bind(queue::WqeCursor& c, const WindowWords& w, const WindowBind& b,
                        const UmrWr& wr) noexcept {
  constexpr uint32_t octowords = prm::umr::granule_bytes / octoword_bytes;
  const uint64_t access =
      prm::umr::mask_access & ~(b.keep_atomic ? prm::umr::mask_atomic : uint64_t{0});
  c.control(prm::Opcode::umr, Octowords{umr_head_octowords + octowords}, wr.flags, w.key.value());
  store_umr_ctrl(c.line(), {.flags = static_cast<uint8_t>(window_flags | w.checks),
                            .octowords = octowords,
                            .mask = window_mask | w.changes | access | prm::umr::mask_len |
                                    prm::umr::mask_start_addr});
  store_mkey(c.line(1), {.free = 0,
                         .access = mkey_access(b.access),
                         .qpn_mkey = w.qpn << 8 | w.tag,
                         .start = b.zero_based ? 0 : b.address,
                         .length = b.length});
  std::byte* const list = c.line(2);
  queue::store_pointer(list, b.address, static_cast<uint32_t>(b.length), b.region->lkey);
  for (uint32_t i = 1; i < octowords; i++) queue::store_zero(list + i * octoword_bytes);
  c.fence_next_user();
  c.advance(bind_wqebbs, wr.id);
}

inline void append_unbind(queue::WqeCursor& c, const WindowWords& w, const UmrWr& wr) noexcept {
  c.control(prm::Opcode::umr, Octowords{umr_head_octowords}, wr.flags, w.key.value());
  store_umr_ctrl(c.line(), {.flags = static_cast<uint8_t>(window_flags | w.checks),
                            .octowords = 0,
                            .mask = window_mask | w.changes});
  store_mkey(c.line(1), {.free = prm::mkey::free,
                         .access = 0,
                         .qpn_mkey = prm::mkey::any_qpn << 8 | w.tag,
                         .start = 0,
                         .length = 0});
  c.fence_next_user();
  c.advance(unbind_wqebbs, wr.id);
}

template <WindowType T, WindowState S>
concept bindable = S == WindowState::free || (T == WindowType::type1 && S == WindowState::bound);
}  // namespace detail

// Appends a bind: `from` becomes `to` with the next key; if it is refused, both stay. A small fence
// stays pending, as behind any UMR. Refused: the reasons of a window in base/outcome.hh, no_room.
template <WindowType T, WindowState S>
requires detail::bindable<T, S>
inline Outcome bind(queue::WqeCursor& c, Window<T, S>&& from, const WindowBind& b, const UmrWr& wr,
                    BindingWindow<T>& to) noexcept {
  constexpr bool own = T == WindowType::type2;
  if (const Outcome o = check_window(b, T); !o.ok()) return o;
  if (!c.fits(detail::bind_wqebbs))
    return {Refusal::no_room, detail::bind_wqebbs, c.room().value()};
  const Rkey key = next_window_key(detail::WindowStep::key(from));
  detail::append_bind(c,
                      {.key = detail::WindowStep::key(from),
                       .tag = tag_of(key),
                       .qpn = own ? c.qpn().value() : prm::mkey::any_qpn,
                       .checks = own ? prm::umr::check_not_free : uint8_t{0},
                       .changes = own ? prm::umr::mask_qpn : 0},
                      b, detail::WindowStep::behind_users(from, c, wr));
  to = detail::WindowStep::become<WindowState::binding>(std::move(from), key, c.qpn());
  return {};
}

// Appends an invalidation. A window of type 2 can be invalidated only by the queue that bound it;
// the device checks that too. Refused: other_queue, no_room.
template <WindowType T>
inline Outcome invalidate(queue::WqeCursor& c, BoundWindow<T>&& from, const UmrWr& wr,
                          InvalidatingWindow<T>& to) noexcept {
  constexpr bool own = T == WindowType::type2;
  if (own && detail::WindowStep::queue(from) != c.qpn())
    return {Refusal::other_queue, c.qpn().value(), detail::WindowStep::queue(from).value()};
  if (!c.fits(detail::unbind_wqebbs))
    return {Refusal::no_room, detail::unbind_wqebbs, c.room().value()};
  const Rkey key =
      own ? detail::WindowStep::key(from) : next_window_key(detail::WindowStep::key(from));
  detail::append_unbind(c,
                        {.key = detail::WindowStep::key(from),
                         .tag = own ? uint8_t{0} : tag_of(key),
                         .qpn = prm::mkey::any_qpn,
                         .checks = own ? prm::umr::check_qpn : uint8_t{0},
                         .changes = own ? prm::umr::mask_qpn : 0},
                        detail::WindowStep::behind_users(from, c, wr));
  to = detail::WindowStep::become<WindowState::invalidating>(std::move(from), key);
  return {};
}

// Called when the window's bind or invalidation has completed without an error.
template <WindowType T>
inline BoundWindow<T> confirm(BindingWindow<T>&& w, const queue::Completion& c) noexcept {
  KILIM_ASSERT(c.ok());
  const Rkey key = detail::WindowStep::key(w);
  const Qpn qpn = detail::WindowStep::queue(w);
  return detail::WindowStep::become<WindowState::bound>(std::move(w), key, qpn);
}
template <WindowType T>
inline FreeWindow<T> confirm(InvalidatingWindow<T>&& w, const queue::Completion& c) noexcept {
  KILIM_ASSERT(c.ok());
  const Rkey key = detail::WindowStep::key(w);
  return detail::WindowStep::become<WindowState::free>(std::move(w), key);
}
// Called when the WQE failed or was flushed: the window's state on the device is unknown.
template <WindowType T, WindowState S>
requires(S == WindowState::binding ||
         S == WindowState::invalidating) inline BrokenWindow<T> abandon(Window<T, S>&& w) noexcept {
  const Rkey key = detail::WindowStep::key(w);
  return detail::WindowStep::become<WindowState::broken>(std::move(w), key);
}
// True: this receive (SEND with invalidate) says that the peer invalidated the window, which is
// `to` now. A peer cannot invalidate a window of type 1.
inline bool shut_by_peer(BoundWindow<WindowType::type2>& from, const queue::Completion& c,
                         FreeWindow<WindowType::type2>& to) noexcept {
  if (c.opcode != prm::CqeOpcode::resp_send_inv || c.imm != from.rkey().value()) return false;
  const Rkey key = detail::WindowStep::key(from);
  to = detail::WindowStep::become<WindowState::free>(std::move(from), key);
  return true;
}

}  // namespace kilim::inline v1::umr
