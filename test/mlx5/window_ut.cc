// SPDX-License-Identifier: BSD-3-Clause
// Memory windows that Kilim binds, on virtual devices of several profiles: what a window opens ends
// to the byte, grants what it was bound for, to whom and until when.
#include <algorithm>
#include <string>

#include "case_tables.hh"
#include "window_fixture.hh"

namespace window_ut {
namespace {

using namespace kilim;
using namespace kilim::test;
using mr::Access;
constexpr uint64_t first = test::window_at, bytes = test::window_bytes;
using prm::Syndrome;
using umr::WindowType;
constexpr WindowType type1 = WindowType::type1, type2 = WindowType::type2;

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
  EQUAL(umr::create_window<type1>(b.v.device->windows()).error().code, EOPNOTSUPP);
  EQUAL(umr::create_window<type2>(b.v.device->windows()).error().code, EOPNOTSUPP);
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
  CU_ASSERT_TRUE_FATAL(b.ok());
  CU_ASSERT_TRUE_FATAL(closed.ok());
  CU_ASSERT_TRUE_FATAL(read_only.ok());
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
    EQUAL(o.why, row.why);
    EQUAL(o.asked, row.asked);
    EQUAL(o.limit, row.limit);
    CU_ASSERT_TRUE(static_cast<bool>(w));
    CU_ASSERT_TRUE(!none);
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
  CU_ASSERT_TRUE_FATAL(static_cast<bool>(twice));
  CU_ASSERT_TRUE_FATAL(twice.rkey() != old);
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
    CU_ASSERT_TRUE_FATAL(static_cast<bool>(w));
    CU_ASSERT_TRUE_FATAL(w.rkey() != key);
    key = w.rkey();
  }
}

void is_shut_and_bound_again() {
  WindowBench b{"shut0"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  check_shut<type1>(b);
  check_shut<type2>(b);
}

const kilim::test::Case cases[] = {
    {"a window ends to the byte, of each type, under eight profiles", ends_to_the_byte},
    {"a virtual function has no windows", a_virtual_function_has_none},
    {"a window grants what it was bound for and nothing else", grants_what_it_was_bound_for},
    {"a bind that cannot be is refused with the numbers", refusals},
    {"type 1 is bound anew and the old key is stale", type_1_is_bound_anew},
    {"a window is shut and bound again, 300 times", is_shut_and_bound_again},
};

}  // namespace
}  // namespace window_ut

KILIM_TEST_MAIN(window) {
  return kilim::test::run_tables("mlx5/window",
                                 {window_ut::cases, kilim::test::window_life_cases()}, argc, argv);
}
