// SPDX-License-Identifier: BSD-3-Clause
// The weak order: each pair of requests that a fence has to keep in order, under each mode of the
// fence, in loopback and on the wire. Which mode holds what: wq/weak_order.hh names the sources.
#include <array>
#include <string>

#include "order_fixture.hh"
#include "ut.hh"

namespace kilim::vhca::test {
namespace order_ut {
namespace {

using prm::CqeOpcode;

constexpr std::array ways = {Way::loopback, Way::wire};
constexpr uint8_t modes = 5;
// Modes as bits.
constexpr unsigned none = 0, with_small = 1u << 1 | 1u << 3 | 1u << 4,
                   with_answers = 1u << 2 | 1u << 3 | 1u << 4, strong_only = 1u << 3,
                   all_modes = (1u << modes) - 1;

bool holds(unsigned set, uint8_t mode) {
  return (set >> mode & 1) != 0;
}

bool all_good(const std::vector<Completion>& done, std::size_t n) {
  bool good = done.size() == n;
  for (const Completion& c : done) good = good && c.op == CqeOpcode::req;
  for (std::size_t i = 1; i < done.size(); i++)
    good = good && static_cast<int16_t>(done[i].index - done[i - 1].index) > 0;
  return good;
}

// Runs `pair` for each mode on each way: what it returns has to be whether the mode is in `set`.
template <typename Pair>
void check(const char* order, unsigned set, Pair pair) {
  for (const Way way : ways) {
    for (uint8_t mode = 0; mode < modes; mode++) {
      OrderRig r(order_of(order), way);
      if (pair(r, mode) == holds(set, mode)) continue;
      CU_FAIL("order");
      std::printf("\n  %s, way %u, mode %u\n", order, static_cast<unsigned>(way), mode);
    }
  }
}

// --- a change of a key, and a request that uses it ---

bool write_sees_the_bind(OrderRig& r, uint8_t mode) {
  r.put(r.bind('b'));
  r.put(r.write(), mode);
  CU_ASSERT(all_good(r.run(), 2));
  return r.sent() == 'b';
}

bool send_sees_the_bind(OrderRig& r, uint8_t mode) {
  const uint32_t theirs = r.peer().reg(r.far(), rw_access).lkey.value();
  r.peer_qp().recv(r.far().at(half_bytes), 64, theirs);
  r.put(r.bind('b'));
  r.put(Wqe(Opcode::send).data(0, 64, r.key), mode);
  CU_ASSERT(all_good(r.run(), 2));
  return r.sent() == 'b';
}

// On the wire an answer comes behind all that was posted with its request.
bool read_lands_by_the_bind(OrderRig& r, uint8_t mode) {
  if (&r.rig() != &r.peer()) return holds(with_small, mode);
  r.put(r.bind('b'));
  r.put(r.read(), mode);
  CU_ASSERT(all_good(r.run(), 2));
  CU_ASSERT(r.mine(0) != r.mine(half_bytes));
  return r.mine(half_bytes) == 'f';
}

// A key that was invalidated may still work for who does not wait.
bool write_sees_the_invalidation(OrderRig& r, uint8_t mode) {
  r.put(Wqe(Opcode::local_inval, r.key));
  r.put(r.write(), mode);
  const std::vector<Completion> done = r.run();
  EQUAL_FATAL(done.size(), 2);
  EQUAL(done[0].op, CqeOpcode::req);
  CU_ASSERT(r.sent() == 'a' || r.sent() == '-');
  EQUAL(done[1].op == CqeOpcode::req, r.sent() == 'a');
  return done[1].syndrome == Syndrome::local_prot;
}

// A patch of one granule of a longer list.
bool write_sees_the_patch(OrderRig& r, uint8_t mode) {
  const uint32_t wide = r.rig().make_key(8);
  std::array<prm::Klm, 5> list;
  list.fill(klm(r.memory().at(0), 16, r.lkey));
  r.put(umr_wqe(wide, {.len = 80}, list));
  (void)r.run();
  const prm::Klm other = klm(r.memory().at(half_bytes), 16, r.lkey);
  r.put(umr_wqe(wide,
                {.flags = prm::umr::inline_list | prm::umr::has_translation_offset,
                 .mask = prm::umr::mask_mkey,
                 .offset = 4},
                {&other, 1}));
  r.put(Wqe(Opcode::rdma_write).raddr(r.far().at(half_bytes), r.rkey).data(64, 16, wide), mode);
  CU_ASSERT(all_good(r.run(), 2));
  return r.sent() == 'b';
}

void small_holds_a_change_before_its_use() {
  check("late-umr", with_small, write_sees_the_bind);
  check("late-umr", with_small, send_sees_the_bind);
  check("late-umr", with_small, read_lands_by_the_bind);
  check("late-umr", with_small, write_sees_the_invalidation);
  check("late-umr", with_small, write_sees_the_patch);
}

// Between the change and its user stand others.
void a_fence_holds_for_all_behind_it() {
  const auto pair = [](OrderRig& r, uint8_t mode) {
    r.put(r.bind('b'));
    r.put(Wqe(Opcode::nop), mode);
    r.put(r.write());
    CU_ASSERT(all_good(r.run(), 3));
    return r.sent() == 'b';
  };
  check("late-umr", with_small, [&](OrderRig& r, uint8_t mode) {
    if (&r.rig() == &r.peer()) return pair(r, mode);
    return holds(with_small, mode);  // on the wire a NOP stays in its place
  });
}

// --- a READ or an atomic, and what follows it ---

template <uint32_t bytes>
bool read_lands_before_the_bind(OrderRig& r, uint8_t mode) {
  r.put(r.read(bytes));
  r.put(r.bind('b'), mode);
  const std::vector<Completion> done = r.run();
  CU_ASSERT(all_good(done, 2) && done[0].bytes == bytes && done[1].bytes == 0);
  CU_ASSERT((r.mine(0) == 'f') != (r.mine(half_bytes) == 'f'));
  return r.mine(0) == 'f';
}

bool atomic_lands_before_the_bind(OrderRig& r, uint8_t mode) {
  r.put(r.add(1));
  r.put(r.bind('b'), mode);
  const uint64_t before = r.far_word();
  CU_ASSERT(all_good(r.run(), 2));
  CU_ASSERT(r.far_word() != before);
  CU_ASSERT((r.mine(0) == 'f') != (r.mine(half_bytes) == 'f'));
  return r.mine(0) == 'f';
}

template <uint32_t bytes>
bool read_lands_before_the_invalidation(OrderRig& r, uint8_t mode) {
  r.put(r.read(bytes));
  r.put(Wqe(Opcode::local_inval, r.key), mode);
  const std::vector<Completion> done = r.run();
  EQUAL_FATAL(done.size(), 2);
  if (done[0].op == CqeOpcode::req) return done[1].op == CqeOpcode::req && r.mine(0) == 'f';
  EQUAL(done[0].syndrome, Syndrome::local_prot);
  EQUAL(done[1].syndrome, Syndrome::wr_flush);
  EQUAL(r.mine(0), 'a');
  EQUAL(r.rig().state(r.rig().a), QpState::err);
  return false;
}

template <uint32_t bytes>
bool write_sends_what_was_read(OrderRig& r, uint8_t mode) {
  r.put(r.read(bytes));
  r.put(r.write(bytes), mode);
  CU_ASSERT(all_good(r.run(), 2));
  EQUAL(r.mine(0), 'f');
  return r.sent() == 'f';
}

bool write_sends_what_was_fetched_and_added(OrderRig& r, uint8_t mode) {
  r.put(r.add(1));
  r.put(r.write(8), mode);
  CU_ASSERT(all_good(r.run(), 2));
  EQUAL(r.mine(0), 'f');
  return r.sent() == 'f';
}

void small_does_not_hold_an_answer_before_a_bind() {
  check("late-read", with_answers, read_lands_before_the_bind<64>);
  check("late-read", with_answers, read_lands_before_the_bind<65>);
  check("late-read", with_answers, read_lands_before_the_bind<3000>);
  check("late-read", with_answers, atomic_lands_before_the_bind);
  check("late-read", with_answers, read_lands_before_the_invalidation<64>);
  check("late-read", with_answers, read_lands_before_the_invalidation<3000>);
}

void a_request_needs_a_fence_behind_an_answer() {
  check("late-read", with_answers, write_sends_what_was_read<32>);
  check("late-read", with_answers, write_sends_what_was_read<1000>);
  check("late-read", with_answers, write_sends_what_was_fetched_and_added);
}

// --- a message that is sent again, and a change behind it ---

template <uint32_t bytes>
bool write_goes_out_before_the_bind(OrderRig& r, uint8_t mode) {
  r.put(r.write(bytes));
  r.put(r.bind('b'), mode);
  CU_ASSERT(all_good(r.run(), 2));
  return r.sent() == 'a';
}

bool send_goes_out_before_the_invalidation(OrderRig& r, uint8_t mode) {
  const uint32_t theirs = r.peer().reg(r.far(), rw_access).lkey.value();
  r.peer_qp().recv(r.far().at(half_bytes), 64, theirs);
  r.put(Wqe(Opcode::send).data(0, 64, r.key));
  r.put(Wqe(Opcode::local_inval, r.key), mode);
  const std::vector<Completion> done = r.run();
  EQUAL_FATAL(done.size(), 2);
  if (done[0].op == CqeOpcode::req) return done[1].op == CqeOpcode::req && r.sent() == 'a';
  EQUAL(done[0].syndrome, Syndrome::local_prot);
  EQUAL(r.sent(), '-');
  return false;
}

void only_strong_holds_a_message_before_a_bind() {
  check("resend", strong_only, write_goes_out_before_the_bind<64>);
  check("resend", strong_only, write_goes_out_before_the_bind<3000>);
  check("resend", strong_only, send_goes_out_before_the_invalidation);
}

// --- each kind is late in its own order only ---

void nothing_is_late_without_being_asked() {
  for (const char* order : {"strict", "late-read", "resend"})
    check(order, all_modes, write_sees_the_bind);
  check("strict", all_modes, read_lands_before_the_bind<64>);
  for (const char* order : {"strict", "late-umr", "resend"})
    check(order, all_modes, [](OrderRig& r, uint8_t mode) {
      return &r.rig() != &r.peer() || write_sends_what_was_read<32>(r, mode);
    });
  for (const char* order : {"strict", "late-umr", "late-read"})
    check(order, all_modes, [](OrderRig& r, uint8_t mode) {
      return &r.rig() != &r.peer() || write_goes_out_before_the_bind<64>(r, mode);
    });
}

// --- by chance ---

// A letter for each of many pairs, as each came out.
std::string fates(const char* order, Way way) {
  OrderRig r(order_of(order), way);
  std::string all;
  for (int i = 0; i < 32; i++) {
    r.put(r.bind('a'), 3);
    r.put(Wqe(Opcode::nop), 3);
    r.put(r.bind('b'));
    r.put(r.write());
    CU_ASSERT(all_good(r.run(), 4));
    all += r.sent();
  }
  return all;
}

void weak_is_sometimes_late_as_the_seed_says() {
  for (const Way way : ways) {
    const std::string one = fates("weak:1", way), other = fates("weak:2", way);
    EQUAL(one, fates("weak:1", way));
    CU_ASSERT(one != other);
    CU_ASSERT(one.find('a') != std::string::npos);
    CU_ASSERT(one.find('b') != std::string::npos);
    EQUAL(fates("strict", way), std::string(32, 'b'));
  }
}

void orders_have_names() {
  CU_ASSERT(order_of("strict").strict());
  CU_ASSERT(!order_of("weak").strict());
  EQUAL(order_of("weak:7").seed, 7);
  EQUAL(order_of("resend:18446744073709551615").seed, ~0ull);
  EQUAL(order_of("late-umr").changes, Order::always);
  EQUAL(order_of("late-umr").answers, 0);
  for (const char* bad : {"", "weakly", "weak:", "weak:x", "weak:7x", "weak:-1", "strict:1",
                          "weak:18446744073709551616", ":7", "weak 7"})
    CU_ASSERT(!find_order(bad).ok());
}

constexpr kilim::test::Case cases[] = {
    {"a small fence, and no other, holds a change of a key before its use",
     small_holds_a_change_before_its_use},
    {"a fence holds for all that stand behind it", a_fence_holds_for_all_behind_it},
    {"a small fence does not hold an answer before a bind",
     small_does_not_hold_an_answer_before_a_bind},
    {"what reads an answer's memory needs a fence behind it",
     a_request_needs_a_fence_behind_an_answer},
    {"only a strong fence holds a message before a bind",
     only_strong_holds_a_message_before_a_bind},
    {"in its own order each kind is late, and in no other", nothing_is_late_without_being_asked},
    {"the weak order is late by chance, the same for the same seed",
     weak_is_sometimes_late_as_the_seed_says},
    {"orders have names, and some a seed", orders_have_names},
};

}  // namespace
}  // namespace order_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(order, kilim::vhca::test::order_ut::cases)
