// SPDX-License-Identifier: BSD-3-Clause
// Memory windows that Kilim binds, on virtual devices of several profiles: what a window opens ends
// to the byte, grants what it was bound for, to whom and until when.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "ut.hh"
#include "window_fixture.hh"

namespace {

using namespace kilim;
using mr::Access;
using test::page;
using test::WindowBench;
constexpr uint64_t first = test::window_at, bytes = test::window_bytes;
using prm::Syndrome;
using umr::WindowType;
constexpr WindowType type1 = WindowType::type1, type2 = WindowType::type2;

bool untouched(const std::byte* from, const std::byte* to) {
  return std::all_of(from, to, [](std::byte b) { return b == std::byte{0}; });
}

constexpr const char* profiles[] = {"cx6dx",       "strong-fence", "no-fence", "no-odp",
                                    "plain-lists", "no-umr-lists", "no-devx",  "infiniband"};

// An access at `offset` of the window, each way.
struct Edge {
  int64_t offset;
  uint32_t length;
  bool inside;
};
constexpr Edge edges[] = {{-1, 1, false},    {-1, 2, false},       {0, 1, true},
                          {0, bytes, true},  {bytes - 1, 1, true}, {bytes - 1, 2, false},
                          {bytes, 1, false}, {1, bytes, false},    {bytes + 1, 1, false}};

template <WindowType T>
void check_edges(WindowBench& b, bool zero_based) {
  umr::WindowBind part = b.part(first, bytes, Access::remote_write | Access::remote_read);
  part.zero_based = zero_based;
  const auto w = b.bind(b.make<T>(), part);
  CU_ASSERT_TRUE_FATAL(static_cast<bool>(w));
  const uint64_t base = zero_based ? 0 : part.address;
  const std::byte* const window = b.memory.data() + page + first;
  for (const Edge& e : edges) {
    std::fill_n(b.memory.begin() + page, page, std::byte{0});
    const uint64_t at = base + static_cast<uint64_t>(e.offset);
    const Syndrome expected = e.inside ? Syndrome::none : Syndrome::remote_access;
    EQUAL(b.write(at, e.length, w.rkey()), expected);
    CU_ASSERT_TRUE(untouched(window - first, window));
    CU_ASSERT_TRUE(untouched(window + bytes, window - first + page));
    EQUAL(untouched(window, window + bytes), !e.inside);
    if (!e.inside) CU_ASSERT_TRUE_FATAL(b.recover());
    EQUAL(b.read(at, e.length, w.rkey()), expected);
    if (!e.inside) CU_ASSERT_TRUE_FATAL(b.recover());
  }
}

void ends_to_the_byte() {
  int n = 0;
  for (const char* profile : profiles) {
    WindowBench b{"edge" + std::to_string(n++), profile};
    CU_ASSERT_TRUE_FATAL(b.ok());
    CU_ASSERT_TRUE(b.v.device->caps().memory_window_type1);
    CU_ASSERT_TRUE(b.v.device->caps().memory_window_type2b);
    check_edges<type1>(b, false);
    check_edges<type2>(b, false);
    check_edges<type2>(b, true);
  }
}

void a_virtual_function_has_none() {
  WindowBench b{"vf0", "vf"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  CU_ASSERT_FALSE(b.v.device->caps().memory_window_type1);
  CU_ASSERT_FALSE(b.v.device->caps().memory_window_type2b);
  EQUAL(umr::make_window<type1>(b.v.device->windows()).error().code, EOPNOTSUPP);
  EQUAL(umr::make_window<type2>(b.v.device->windows()).error().code, EOPNOTSUPP);
  EQUAL(b.v.device->windows().destroy_window(Rkey{0x123400}).error().code, EINVAL);
}

template <WindowType T>
void check_rights(WindowBench& b) {
  for (uint32_t access = 0; access < 16; access += 2) {
    const auto w = b.bind(b.make<T>(), b.part(64, 64, access));
    CU_ASSERT_TRUE_FATAL(static_cast<bool>(w));
    const auto judge = [&](Syndrome got, uint32_t right) {
      const bool granted = (access & right) != 0;
      EQUAL(got, granted ? Syndrome::none : Syndrome::remote_access);
      if (!granted) CU_ASSERT_TRUE_FATAL(b.recover());
    };
    judge(b.write(b.at(64), 8, w.rkey()), Access::remote_write);
    judge(b.read(b.at(64), 8, w.rkey()), Access::remote_read);
    judge(b.add(b.at(64), w.rkey()), Access::remote_atomic);
  }
}

void grants_what_it_was_bound_for() {
  WindowBench b{"grant0"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  check_rights<type1>(b);
  check_rights<type2>(b);
}

void refusals() {
  WindowBench b{"refuse0"}, closed{"refuse1", "cx6dx", Access::all},
      read_only{"refuse2", "cx6dx", Access::remote_read | Access::mw_bind};
  CU_ASSERT_TRUE_FATAL(b.ok() && closed.ok() && read_only.ok());
  mr::Region large = b.region->region();
  large.length = uint64_t{1} << 40;
  umr::WindowBind too_long = b.part(0, (uint64_t{3} << 30) + 1);
  too_long.region = &large;
  umr::WindowBind zero = b.part(0, 64), no_atomic = b.part(0, 64, Access::remote_atomic);
  zero.zero_based = no_atomic.keep_atomic = true;
  struct Row {
    umr::WindowBind bind;
    Refusal why;
    uint32_t asked, limit;
  };
  const Row rows[] = {{b.part(0, 0), Refusal::empty, 0, 0},
                      {{}, Refusal::empty, 0, 0},
                      {too_long, Refusal::long_window, 3073, 2048},
                      {b.part(0, page + 1), Refusal::beyond_region, page + 1, page},
                      {b.part(page, 1), Refusal::beyond_region, 1, 0},
                      {b.part(page + 1, 1), Refusal::beyond_region, 1, 0},
                      {b.part(0 - page - 1, 8), Refusal::beyond_region, 8, 0},
                      {closed.part(0, 64), Refusal::not_bindable, 0, 0},
                      {b.part(0, 64, Access::local_write), Refusal::window_rights, 1, 14},
                      {no_atomic, Refusal::window_rights, 8, 6},
                      {read_only.part(0, 64), Refusal::read_only, 0, 0},
                      {zero, Refusal::zero_based, 0, 0}};
  auto w = b.make<type1>();
  umr::BindingWindow<type1> none;
  for (const Row& row : rows) {
    queue::WqeCursor c{*b.loop->sq};
    const Outcome o = umr::bind(c, std::move(w), row.bind, WindowBench::umr_signalled, none);
    CU_ASSERT_TRUE(o.why == row.why && o.asked == row.asked && o.limit == row.limit);
    CU_ASSERT_TRUE(static_cast<bool>(w) && !none);
  }
  char said[160];
  CU_ASSERT_TRUE(describe({Refusal::long_window, 3073, 2048}, said) > 0);
  EQUAL(said, "a memory window spans at most 2 GiB: 3073 MiB, the limit is 2048");
  // The queue is as it was.
  CU_ASSERT_TRUE(static_cast<bool>(b.bind(std::move(w), b.part(0, page))));
}

void type_1_is_bound_anew() {
  WindowBench b{"anew0"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  auto once = b.bind(b.make<type1>(), b.part(0, 64));
  CU_ASSERT_TRUE_FATAL(static_cast<bool>(once));
  const Rkey old = once.rkey();
  const auto twice = b.bind(std::move(once), b.part(128, 64));
  CU_ASSERT_TRUE_FATAL(static_cast<bool>(twice) && twice.rkey() != old);
  EQUAL(b.write(b.at(128), 64, twice.rkey()), Syndrome::none);
  EQUAL(b.write(b.at(0), 64, old), Syndrome::remote_access);
  CU_ASSERT_TRUE(b.recover());
  EQUAL(b.write(b.at(0), 64, twice.rkey()), Syndrome::remote_access);
}

template <WindowType T>
void check_shut(WindowBench& b) {
  auto w = b.bind(b.make<T>(), b.part(0, 64));
  CU_ASSERT_TRUE_FATAL(static_cast<bool>(w));
  Rkey key = w.rkey();
  for (int i = 0; i < 300; i++) {  // tags wrap
    EQUAL(b.write(b.at(0), 64, key), Syndrome::none);
    auto free = b.shut(std::move(w));
    CU_ASSERT_TRUE_FATAL(static_cast<bool>(free));
    if (i % 100 == 0) {
      EQUAL(b.write(b.at(0), 1, key), Syndrome::remote_access);
      CU_ASSERT_TRUE_FATAL(b.recover());
    }
    w = b.bind(std::move(free), b.part(0, 64));
    CU_ASSERT_TRUE_FATAL(static_cast<bool>(w) && w.rkey() != key);
    key = w.rkey();
  }
}

void is_shut_and_bound_again() {
  WindowBench b{"shut0"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  check_shut<type1>(b);
  check_shut<type2>(b);
}

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

void type_2_belongs_to_its_queue() {
  WindowBench b{"own0"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  auto w = b.bind(b.make<type2>(), b.part(0, 64));
  const auto everybody = b.bind(b.make<type1>(), b.part(0, 64));
  CU_ASSERT_TRUE_FATAL(static_cast<bool>(w) && static_cast<bool>(everybody));
  const Rkey key = w.rkey();
  // From here on by another connection of the same domain.
  std::unique_ptr<test::Loop> own = std::move(b.loop);
  b.loop = std::make_unique<test::Loop>(*b.v.device, Access::all);
  CU_ASSERT_TRUE_FATAL(b.ok());
  EQUAL(b.write(b.at(0), 64, everybody.rkey()), Syndrome::none);
  EQUAL(b.write(b.at(0), 64, key), Syndrome::remote_access);
  CU_ASSERT_TRUE(b.recover());
  umr::InvalidatingWindow<type2> closing;
  queue::WqeCursor c{*b.loop->sq};
  const Outcome o = umr::invalidate(c, std::move(w), WindowBench::umr_signalled, closing);
  CU_ASSERT_TRUE(o.why == Refusal::other_queue && o.asked == c.qpn().value() &&
                 o.limit == own->qp->sq.qpn.value() && static_cast<bool>(w));
  // Who writes the WQE all the same is refused by the device.
  umr::detail::append_unbind(c,
                             {.key = key,
                              .tag = 0,
                              .qpn = prm::mkey::any_qpn,
                              .checks = prm::umr::check_qpn,
                              .changes = prm::umr::mask_qpn},
                             WindowBench::umr_signalled);
  EQUAL(b.done(c).syndrome, Syndrome::mw_bind);
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
  CU_ASSERT_TRUE(sent == Syndrome::none && seen.ok());
  CU_ASSERT_TRUE(seen.opcode == prm::CqeOpcode::resp_send_inv && seen.imm == key.value());
  umr::FreeWindow<type2> free;
  queue::Completion other = seen;
  other.imm++;
  CU_ASSERT_FALSE(umr::shut_by_peer(w, other, free));
  CU_ASSERT_TRUE(umr::shut_by_peer(w, seen, free));
  CU_ASSERT_TRUE(!w && static_cast<bool>(free));
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
void check_destroyed_in_flight(WindowBench& b) {
  {  // a bind is under way
    umr::BindingWindow<T> binding;
    queue::WqeCursor c{*b.loop->sq};
    CU_ASSERT_TRUE(
        umr::bind(c, b.make<T>(), b.part(0, 64), WindowBench::umr_signalled, binding).ok());
    c.commit();
    binding = {};
    EQUAL(b.done().syndrome, Syndrome::mw_bind);
    CU_ASSERT_TRUE_FATAL(b.recover());
  }
  {  // a peer's WRITE is
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
  {  // the end of it is
    auto w = b.bind(b.make<T>(), b.part(0, 64));
    umr::InvalidatingWindow<T> closing;
    queue::WqeCursor c{*b.loop->sq};
    CU_ASSERT_TRUE(umr::invalidate(c, std::move(w), WindowBench::umr_signalled, closing).ok());
    c.commit();
    closing = {};
    EQUAL(b.done().syndrome, Syndrome::mw_bind);
    CU_ASSERT_TRUE_FATAL(b.recover());
  }
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

const kilim::test::Case cases[] = {
    {"a window ends to the byte, of each type, under eight profiles", ends_to_the_byte},
    {"a virtual function has no windows", a_virtual_function_has_none},
    {"a window grants what it was bound for and nothing else", grants_what_it_was_bound_for},
    {"a bind that cannot be is refused with the numbers", refusals},
    {"type 1 is bound anew and the old key is stale", type_1_is_bound_anew},
    {"a window is shut and bound again, 300 times", is_shut_and_bound_again},
    {"type 2 is free when it is bound, says the device too", type_2_is_free_when_it_is_bound},
    {"type 2 belongs to its queue, says the device too", type_2_belongs_to_its_queue},
    {"a peer shuts a window of type 2", a_peer_shuts_it},
    {"a peer cannot shut one of type 1", a_peer_cannot_shut_type_1},
    {"a window is used behind its bind on the same queue", is_used_behind_its_bind},
    {"a window is destroyed with work in flight", is_destroyed_with_work_in_flight},
    {"a flushed bind has not happened", a_flushed_bind_breaks_it},
};

}  // namespace

KILIM_UT_MAIN("mlx5/window", cases)
