// SPDX-License-Identifier: BSD-3-Clause
// The steps of a random walk that bind, shut, renew and use memory windows, and those that fork.
// One thread; knows of the walk what its header shows.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "forked_child_fixture.hh"
#include "random_walk_fixture.hh"

namespace kilim::test {

using mr::Access;
using umr::WindowType;

namespace {
constexpr umr::UmrWr signalled{.id = 2, .flags = queue::WrFlags::signalled};
}

queue::Completion Walk::finish(Peer& peer, queue::WqeCursor& c) {
  c.commit();
  auto seen = peer.loop.wait(*peer.loop.send_cq);
  for (int turn = 0; turn < 2000 && !seen; turn++) seen = peer.loop.wait(*peer.loop.send_cq);
  if (seen && seen->ok()) (void)peer.loop.sq->retire(seen->wqe_counter);
  if (seen && !seen->ok()) (void)peer.loop.recover();
  return seen.value_or(queue::Completion{.opcode = prm::CqeOpcode::req_err,
                                         .syndrome = prm::Syndrome::transport_retry_exc});
}

const ModelRegion* Walk::below_window(const ModelWindow& w) const {
  for (const LiveRegion& l : live_)
    if (l.model.number == w.region) return &l.model;
  return nullptr;
}

// Any, but seldom one that no window can show.
const LiveRegion& Walk::to_be_shown() {
  std::size_t i = below(live_.size());
  for (int more = 0; more < 3; more++)
    if (live_[i].model.foreign || !live_[i].model.has(Access::mw_bind)) i = below(live_.size());
  return live_[i];
}

// It goes in whatever state it is in; another takes its place.
template <WindowType T>
bool Walk::renew(LiveWindow<T>& w) {
  const Rkey old = w.bound ? w.bound.rkey() : Rkey{};
  if (w.bound) bury({.lkey = {}, .rkey = old});
  w = {};
  w.model.of_queue = T == WindowType::type2;
  auto made = umr::create_window<T>(device_.windows());
  if (made) w.free = *std::move(made);
  return judge(static_cast<bool>(w.free), "a window is made");
}

template <WindowType T>
bool Walk::shut_one(LiveWindow<T>& w) {
  if (!w.bound) return true;
  const Rkey old = w.bound.rkey();
  umr::InvalidatingWindow<T> closing;
  queue::WqeCursor c{*peer_.loop.sq};
  if (!umr::invalidate(c, std::move(w.bound), signalled, closing).ok())
    return judge(false, "an end refused");
  const queue::Completion seen = finish(c);
  if (!seen.ok()) return judge(false, "an end failed");
  w.free = umr::confirm(std::move(closing), seen);
  w.model.bound = false;
  bury({.lkey = {}, .rkey = old});
  tally_.shut++;
  return true;
}

// By SEND with invalidation: one of type 2, over the connection that it is of; nobody shuts others,
// and they stay open.
template <WindowType T>
bool Walk::peer_shuts(LiveWindow<T>& w) {
  if (!w.bound) return true;
  Peer& peer = below(4) == 0 ? stranger_ : peer_;
  const Rkey key = w.bound.rkey();
  const queue::Sge mine{peer.region.iova + 3 * page, 64, peer.region.lkey};
  if (!peer.loop.rq->post(mine, 1)) return judge(false, "a receive is not taken");
  peer.loop.rq->ring();
  queue::WqeCursor c{*peer.loop.sq};
  (void)queue::send_invalidate(c, mine, key, {.flags = queue::WrFlags::signalled});
  const bool done = finish(peer, c).ok();
  if (done != (T == WindowType::type2 && &peer == &peer_))
    return judge(false, done ? "a stranger shuts a window" : "its peer cannot shut a window");
  if (!done) {
    tally_.not_by_peer++;
    return true;
  }
  const auto told = peer.loop.wait(*peer.loop.recv_cq);
  if (!told) return judge(false, "nobody is told what was shut");
  (void)peer.loop.rq->retire(told->wqe_counter);
  if constexpr (T == WindowType::type2) {
    if (!umr::shut_by_peer(w.bound, *told, w.free)) return judge(false, "another key was shut");
  }
  w.model.bound = false;
  bury({.lkey = {}, .rkey = key});
  tally_.by_peer++;
  return true;
}

// False: it completes in error.
template <WindowType T>
bool Walk::bind_to(LiveWindow<T>& w, const umr::WindowBind& b, Outcome& outcome) {
  umr::BindingWindow<T> binding;
  queue::WqeCursor c{*peer_.loop.sq};
  if constexpr (T == WindowType::type1) {
    outcome = w.bound ? umr::bind(c, std::move(w.bound), b, signalled, binding)
                      : umr::bind(c, std::move(w.free), b, signalled, binding);
  } else {
    outcome = umr::bind(c, std::move(w.free), b, signalled, binding);
  }
  if (!outcome.ok()) return true;
  const queue::Completion seen = finish(c);
  if (seen.ok()) w.bound = umr::confirm(std::move(binding), seen);
  return seen.ok();
}

// Who writes the WQE past the types is refused by the device, and the window is as it was.
bool Walk::rebind_unshut(Window2& w, const umr::WindowBind& b) {
  queue::WqeCursor c{*peer_.loop.sq};
  umr::detail::append_bind(c,
                           {.key = w.bound.rkey(),
                            .tag = static_cast<uint8_t>(random_()),
                            .qpn = c.qpn().value(),
                            .checks = prm::umr::check_not_free,
                            .changes = prm::umr::mask_qpn},
                           b, signalled);
  tally_.unbindable++;
  return judge(finish(c).syndrome == prm::Syndrome::mw_bind, "type 2 is bound while it is bound");
}

// One of type 2 is shut before, or the device refuses it.
template <WindowType T>
bool Walk::bind_one(LiveWindow<T>& w) {
  if (live_.empty()) return true;
  const LiveRegion& l = to_be_shown();
  ModelWindow next = w.model;
  next.bound = true;
  next.region = l.model.number;
  next.from = l.model.from + below(l.model.bytes);
  next.bytes = 1 + below(below(2) == 0 ? 200 : l.model.bytes);
  const uint64_t left = l.model.from + l.model.bytes - next.from;
  next.bytes = std::min(next.bytes, left + (below(8) == 0 ? 1 : 0));
  next.access = Access::remote_write | Access::remote_read;
  if (below(2) == 0) next.access = static_cast<uint32_t>(below(8) * Access::remote_write);
  if (!device_.caps().umr_atomic) next.access &= ~Access::remote_atomic;
  const bool zero = T == WindowType::type2 && below(2) == 0;
  const umr::WindowBind b{.region = &l.region,
                          .address = reinterpret_cast<uintptr_t>(at(next.from)),
                          .length = next.bytes,
                          .access = next.access,
                          .zero_based = zero,
                          .keep_atomic = !device_.caps().umr_atomic};
  if constexpr (T == WindowType::type2) {
    if (w.bound && below(4) == 0) return rebind_unshut(w, b);
    if (!shut_one(w)) return false;
  }
  const bool was_bound = static_cast<bool>(w.bound);
  const Rkey old = was_bound ? w.bound.rkey() : Rkey{};
  Outcome outcome;
  if (!bind_to(w, b, outcome)) return judge(false, "a bind failed");
  (outcome.ok() ? tally_.bound : tally_.unbindable)++;
  if (outcome.ok() != may_bind(l.model, next))
    return judge(false, outcome.ok() ? "forbidden bind" : "allowed bind refused");
  if (!outcome.ok()) return true;
  if (was_bound) bury({.lkey = {}, .rkey = old});
  w.model = next;
  w.base = zero ? 0 : b.address;
  return true;
}

// At its edges, mostly; by the queue that bound it or by another one of its domain.
template <WindowType T>
bool Walk::access_window(LiveWindow<T>& w) {
  if (!w.bound) return true;
  const uint64_t bytes = std::min<uint64_t>(w.model.bytes, 2 * page);
  const uint64_t lengths[] = {1, 2, 1 + below(64), bytes};
  constexpr Act acts[] = {Act::remote_write, Act::remote_read, Act::remote_atomic};
  const Act act = acts[below(3)];
  const bool atomic = act == Act::remote_atomic;
  const auto n = atomic ? 8 : static_cast<uint32_t>(lengths[below(4)]);
  const uint64_t before_end = w.model.from + w.model.bytes - n;  // may wrap: n is 2, it ends at 1
  const uint64_t starts[] = {w.model.from - 1, w.model.from, w.model.from + below(w.model.bytes),
                             before_end, before_end + 1};
  const uint64_t from = starts[below(5)] & ~uint64_t{atomic ? 7u : 0u};
  if (from >= arena_bytes || n > arena_bytes - from) return true;
  const uint64_t address = w.base + (from - w.model.from);
  if (atomic && address % 8 != 0) return true;  // zero-based, over odd bytes
  const bool stranger = below(8) == 0;
  Expect expected = expect_through(arena_, w.model, below_window(w.model), act, from, n);
  if (stranger && w.model.of_queue) expected = Expect::refused;
  (expected == Expect::refused ? tally_.shown_nothing : tally_.through)++;
  return access(stranger ? stranger_ : peer_,
                {act, from, n, address, Lkey{}, w.bound.rkey(), expected});
}

template <WindowType T>
bool Walk::on_window(LiveWindow<T>& w) {
  const uint64_t dice = below(100);
  if (dice < 2) return renew(w);
  if (dice < 10) return shut_one(w);
  if (dice < 16) return peer_shuts(w);
  if (dice >= 40) return access_window(w);
  if (!bind_one(w)) return false;
  for (int i = 0; i < 3; i++)
    if (!access_window(w)) return false;
  return true;
}

bool Walk::window_step() {
  return below(2) == 0 ? on_window(windows1_[below(windows1_.size())])
                       : on_window(windows2_[below(windows2_.size())]);
}

// What a child writes nobody here sees; what comes by RDMA afterwards is the parent's, and the
// child's copy is what it was.
bool Walk::fork_child() {
  const auto there = [this](std::size_t p) { return arena_.map[p] != Mapped::no; };
  std::vector<std::byte> then(arena_bytes);
  for (std::size_t p = 0; p < ModelArena::pages; p++)
    if (there(p)) std::memcpy(&then[p * page], at(p * page), page);
  const auto same = [&](std::size_t p) {
    return !there(p) || std::memcmp(&then[p * page], at(p * page), page) == 0;
  };
  const uint64_t chosen = random_();
  const auto touch = [&] {
    for (std::size_t p = 0; p < ModelArena::pages; p++) {
      if (arena_.map[p] != Mapped::write || (chosen >> p & 1) == 0) continue;
      std::memset(at(p * page), 0xcc, page);
      std::memset(&then[p * page], 0xcc, page);
    }
  };
  const auto all_same = [&] {
    bool good = true;
    for (std::size_t p = 0; p < ModelArena::pages; p++) good = same(p) && good;
    return good;
  };
  tally_.forks++;
  ForkedChild child(touch, all_same);
  if (!judge(child.touched() && all_same(), "a child's write is seen")) return false;
  for (int i = 0; i < 16; i++)
    if (!(i % 2 == 0 ? access_one() : window_step())) return false;
  return judge(child.good(), "a child sees what came to its parent");
}

template bool Walk::renew(Window1&);
template bool Walk::renew(Window2&);

}  // namespace kilim::test
