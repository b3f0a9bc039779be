// SPDX-License-Identifier: BSD-3-Clause
// Part of window_ut. To whom a window of type 2 belongs, who may shut it, and what becomes of work
// that is in flight when it goes.
#include <cerrno>

#include "window_fixture.hh"

namespace window_life_ut {
namespace {

using namespace kilim;
using namespace kilim::test;
using mr::Access;
constexpr uint64_t first = test::window_at, bytes = test::window_bytes;
using prm::Syndrome;
using umr::WindowType;
constexpr WindowType type1 = WindowType::type1, type2 = WindowType::type2;

// The types let nobody bind a window of type 2 that is bound. The device refuses it too.
void type_2_is_free_when_it_is_bound() {
  static_assert(!umr::detail::bindable<type2, umr::WindowState::bound>);
  WindowBench b{"free0"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  const auto w = b.bind(b.make<type2>(), b.part(0, 64));
  CU_ASSERT_TRUE_FATAL(static_cast<bool>(w));
  queue::WqeCursor c{*b.loop->sq};
  umr::detail::append_bind(c,
                           {.key = w.rkey(),
                            .tag = 7,
                            .qpn = c.qpn().value(),
                            .checks = prm::umr::check_not_free,
                            .changes = prm::umr::mask_qpn},
                           b.part(64, 64), WindowBench::umr_signalled);
  EQUAL(b.done(c).syndrome, Syndrome::mw_bind);
  CU_ASSERT_TRUE(b.recover());
  EQUAL(b.write(b.at(0), 64, w.rkey()), Syndrome::none);
}

// By the library, and by the device where the WQE is written all the same.
void refuse_to_invalidate(WindowBench& b, umr::BoundWindow<type2>& w, Qpn own) {
  const Rkey key = w.rkey();
  umr::InvalidatingWindow<type2> closing;
  queue::WqeCursor c{*b.loop->sq};
  const Outcome o = umr::invalidate(c, std::move(w), WindowBench::umr_signalled, closing);
  EQUAL(o.why, Refusal::other_queue);
  EQUAL(o.asked, c.qpn().value());
  EQUAL(o.limit, own.value());
  CU_ASSERT_TRUE(static_cast<bool>(w));
  // Who writes the WQE all the same is refused by the device.
  umr::detail::append_unbind(c,
                             {.key = key,
                              .tag = 0,
                              .qpn = prm::mkey::any_qpn,
                              .checks = prm::umr::check_qpn,
                              .changes = prm::umr::mask_qpn},
                             WindowBench::umr_signalled);
  EQUAL(b.done(c).syndrome, Syndrome::mw_bind);
}

void type_2_belongs_to_its_queue() {
  WindowBench b{"own0"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  auto w = b.bind(b.make<type2>(), b.part(0, 64));
  const auto everybody = b.bind(b.make<type1>(), b.part(0, 64));
  CU_ASSERT_TRUE_FATAL(static_cast<bool>(w));
  CU_ASSERT_TRUE_FATAL(static_cast<bool>(everybody));
  const Rkey key = w.rkey();
  // From here on by another connection of the same domain.
  std::unique_ptr<test::Loop> own = std::move(b.loop);
  b.loop = std::make_unique<test::Loop>(*b.v.device, Access::all);
  CU_ASSERT_TRUE_FATAL(b.ok());
  EQUAL(b.write(b.at(0), 64, everybody.rkey()), Syndrome::none);
  EQUAL(b.write(b.at(0), 64, key), Syndrome::remote_access);
  CU_ASSERT_TRUE(b.recover());
  refuse_to_invalidate(b, w, own->qp->sq.qpn);
  std::swap(b.loop, own);
  EQUAL(b.write(b.at(0), 64, key), Syndrome::none);
  own->qp.destroy();
}

// A SEND with invalidation: how it completes, and what the receiver sees.
std::pair<Syndrome, queue::Completion> send_invalidating(WindowBench& b, Rkey key) {
  CU_ASSERT_TRUE(b.loop->rq->post({b.at(2048), 64, b.region->region().lkey}, 1));
  b.loop->rq->ring();
  queue::WqeCursor c{*b.loop->sq};
  CU_ASSERT_TRUE(queue::send_invalidate(c, b.source(8), key, WindowBench::signalled));
  const Syndrome sent = b.done(c).syndrome;
  const auto seen = b.loop->wait(*b.loop->recv_cq);
  if (seen) b.loop->rq->retire(seen->wqe_counter);
  return {sent, seen.value_or(queue::Completion{})};
}

void a_peer_shuts_it() {
  WindowBench b{"peer0"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  auto w = b.bind(b.make<type2>(), b.part(0, 64));
  CU_ASSERT_TRUE_FATAL(static_cast<bool>(w));
  const Rkey key = w.rkey();
  const auto [sent, seen] = send_invalidating(b, key);
  EQUAL(sent, Syndrome::none);
  CU_ASSERT_TRUE(seen.ok());
  EQUAL(seen.opcode, prm::CqeOpcode::resp_send_inv);
  EQUAL(seen.imm, key.value());
  umr::FreeWindow<type2> free;
  queue::Completion other = seen;
  other.imm++;
  CU_ASSERT_FALSE(umr::shut_by_peer(w, other, free));
  CU_ASSERT_TRUE(umr::shut_by_peer(w, seen, free));
  CU_ASSERT_TRUE(!w);
  CU_ASSERT_TRUE(static_cast<bool>(free));
  EQUAL(b.write(b.at(0), 64, key), Syndrome::remote_access);
  CU_ASSERT_TRUE(b.recover());
  const auto again = b.bind(std::move(free), b.part(0, 64));
  CU_ASSERT_TRUE_FATAL(static_cast<bool>(again));
  EQUAL(b.write(b.at(0), 64, again.rkey()), Syndrome::none);
}

void a_peer_cannot_shut_type_1() {
  WindowBench b{"peer1"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  const auto w = b.bind(b.make<type1>(), b.part(0, 64));
  CU_ASSERT_TRUE_FATAL(static_cast<bool>(w));
  EQUAL(send_invalidating(b, w.rkey()).first, Syndrome::remote_access);
  CU_ASSERT_TRUE(b.recover());
  EQUAL(b.write(b.at(0), 64, w.rkey()), Syndrome::none);
}

// Requests behind a bind on the same queue use the key at once.
void is_used_behind_its_bind() {
  for (const char* profile : {"cx6dx", "strong-fence", "no-fence", "no-devx"}) {
    WindowBench b{std::string("burst-") + profile, profile};
    CU_ASSERT_TRUE_FATAL(b.ok());
    umr::BindingWindow<type2> binding;
    queue::WqeCursor c{*b.loop->sq};
    CU_ASSERT_TRUE_FATAL(umr::bind(c, b.make<type2>(), b.part(0, 64), {}, binding).ok());
    CU_ASSERT_TRUE(queue::rdma_write(c, {b.at(0), binding.rkey_behind(c)}, b.source(64),
                                     WindowBench::signalled));
    EQUAL(b.done(c).syndrome, Syndrome::none);
    CU_ASSERT_FALSE(untouched(b.memory.data() + page, b.memory.data() + page + 64));
  }
}

template <WindowType T>
void bind_in_flight(WindowBench& b) {
  umr::BindingWindow<T> binding;
  queue::WqeCursor c{*b.loop->sq};
  CU_ASSERT_TRUE(
      umr::bind(c, b.make<T>(), b.part(0, 64), WindowBench::umr_signalled, binding).ok());
  c.commit();
  binding = {};
  EQUAL(b.done().syndrome, Syndrome::mw_bind);
  CU_ASSERT_TRUE_FATAL(b.recover());
}

template <WindowType T>
void write_in_flight(WindowBench& b) {
  auto w = b.bind(b.make<T>(), b.part(0, 64));
  CU_ASSERT_TRUE_FATAL(static_cast<bool>(w));
  std::fill_n(b.memory.begin() + page, page, std::byte{0});
  queue::WqeCursor c{*b.loop->sq};
  CU_ASSERT_TRUE(queue::rdma_write(c, {b.at(0), w.rkey()}, b.source(64), WindowBench::signalled));
  c.commit();
  w = {};
  EQUAL(b.done().syndrome, Syndrome::remote_access);
  CU_ASSERT_TRUE(untouched(b.memory.data() + page, b.memory.data() + 2 * page));
  CU_ASSERT_TRUE_FATAL(b.recover());
}

template <WindowType T>
void invalidation_in_flight(WindowBench& b) {
  auto w = b.bind(b.make<T>(), b.part(0, 64));
  umr::InvalidatingWindow<T> closing;
  queue::WqeCursor c{*b.loop->sq};
  CU_ASSERT_TRUE(umr::invalidate(c, std::move(w), WindowBench::umr_signalled, closing).ok());
  c.commit();
  closing = {};
  EQUAL(b.done().syndrome, Syndrome::mw_bind);
  CU_ASSERT_TRUE_FATAL(b.recover());
}

template <WindowType T>
void check_destroyed_in_flight(WindowBench& b) {
  bind_in_flight<T>(b);
  write_in_flight<T>(b);
  invalidation_in_flight<T>(b);
}

void is_destroyed_with_work_in_flight() {
  WindowBench b{"gone0"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  check_destroyed_in_flight<type1>(b);
  check_destroyed_in_flight<type2>(b);
}

// A flushed bind has not happened; the window is given up.
void a_flushed_bind_breaks_it() {
  WindowBench b{"flush0"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  umr::BindingWindow<type2> binding;
  queue::WqeCursor c{*b.loop->sq};
  CU_ASSERT_TRUE(
      queue::rdma_write(c, {b.at(0), Rkey{0x7777700}}, b.source(8), WindowBench::signalled));
  CU_ASSERT_TRUE(
      umr::bind(c, b.make<type2>(), b.part(0, 64), WindowBench::umr_signalled, binding).ok());
  const Rkey key = binding.rkey();
  EQUAL(b.done(c).syndrome, Syndrome::remote_access);
  EQUAL(b.done().syndrome, Syndrome::wr_flush);
  CU_ASSERT_TRUE(static_cast<bool>(umr::abandon(std::move(binding))));
  CU_ASSERT_TRUE(b.recover());
  EQUAL(b.write(b.at(0), 8, key), Syndrome::remote_access);
}

constexpr kilim::test::Case of_lives[] = {
    {"type 2 is free when it is bound, says the device too", type_2_is_free_when_it_is_bound},
    {"type 2 belongs to its queue, says the device too", type_2_belongs_to_its_queue},
    {"a peer shuts a window of type 2", a_peer_shuts_it},
    {"a peer cannot shut one of type 1", a_peer_cannot_shut_type_1},
    {"a window is used behind its bind on the same queue", is_used_behind_its_bind},
    {"a window is destroyed with work in flight", is_destroyed_with_work_in_flight},
    {"a flushed bind has not happened", a_flushed_bind_breaks_it},
};

}  // namespace
}  // namespace window_life_ut

std::span<const kilim::test::Case> kilim::test::window_life_cases() {
  return window_life_ut::of_lives;
}
