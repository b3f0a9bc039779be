// SPDX-License-Identifier: BSD-3-Clause
// What the linter says of lengths: 0 and 2 GiB, bit 31, messages and READs that are too long.
#include "lint_fixture.hh"
#include "ut.hh"

namespace kilim::vhca::test {
namespace lint_lengths_ut {
namespace {

using prm::lint::Rule;

constexpr uint32_t bit_31 = prm::inline_flag, two_gib = prm::max_segment_bytes;

// A key of 2 GiB over 32 KiB: one block, often.
uint32_t wide_key(Bench& b) {
  const uint32_t key = b.make_key(4);
  const prm::Klm list[2] = {repeat_head(32768, 65536, 1),
                            repeat_entry(0, 32768, b.lkey(), b.memory.at(0))};
  UmrShape shape;
  shape.len = two_gib;
  EQUAL_FATAL(b.run_one(b.a, umr_wqe(key, shape, list)).syndrome, Syndrome::none);
  return key;
}

Wqe of(Opcode op, Bench& b) {
  Wqe w(op);
  if (op != Opcode::send) w.raddr(b.memory.at(32768), b.rkey());
  return w;
}

// Posts a request and says which of the rules it breaks; none: an impossible one.
std::pair<Rule, uint64_t> judged(Bench& b, const Wqe& w) {
  b.a.put(w);
  b.go(b.a);
  std::pair<Rule, uint64_t> one{Rule::recv_link, b.findings()};
  for (std::size_t r = 0; r < prm::lint::rules; r++)
    if (b.count(static_cast<Rule>(r)) != 0) one.first = static_cast<Rule>(r);
  return one;
}
bool breaks(Bench& b, const Wqe& w, Rule rule) {
  return judged(b, w) == std::pair<Rule, uint64_t>{rule, 1};
}
bool is_fine(Bench& b, const Wqe& w) {
  return judged(b, w).second == 0;
}

void zero_is_meant_where_two_gib_lie() {
  for (Opcode op : {Opcode::rdma_write, Opcode::send}) {
    Bench near(lint::LintMode::warn), far(lint::LintMode::warn);
    const uint32_t wide = wide_key(near);
    CU_ASSERT(is_fine(near, of(op, near).data(0, 0, wide)));
    CU_ASSERT(breaks(far, of(op, far).data(far.memory.at(0), 0, far.lkey()), Rule::zero_length));
  }
  Bench b(lint::LintMode::warn);
  const uint32_t wide = wide_key(b);
  b.b.recv(0, 0, wide);
  b.run();
  EQUAL(b.findings(), 0);
  b.b.recv(1, 0, wide);  // a byte less
  b.run();
  EQUAL(b.count(Rule::zero_length), 1);
}

void two_gib_said_as_they_are_become_inline_data() {
  Bench alone(lint::LintMode::warn), among(lint::LintMode::warn), stale(lint::LintMode::warn),
      none(lint::LintMode::warn);
  const uint32_t wide = wide_key(alone);
  CU_ASSERT(breaks(alone, of(Opcode::rdma_write, alone).data(0, bit_31, wide), Rule::empty_inline));
  CU_ASSERT(breaks(among, among.plain().data(among.memory.at(0), bit_31, among.lkey()),
                   Rule::empty_inline));
  // Alone, with something behind it that is no 2 GiB: an empty message over what lay there before.
  CU_ASSERT(
      is_fine(stale, of(Opcode::rdma_write, stale).data(stale.memory.at(0), bit_31, stale.lkey())));
  CU_ASSERT(is_fine(none, of(Opcode::send, none).data(0, bit_31, 0)));
}

void messages_and_reads_have_limits() {
  Bench b(lint::LintMode::warn), sum(lint::LintMode::warn), read(lint::LintMode::warn),
      write(lint::LintMode::warn);
  const uint64_t at = sum.memory.at(0);
  Wqe long_one = of(Opcode::rdma_write, sum).data(at, two_gib - 1, sum.lkey());
  CU_ASSERT(breaks(sum, long_one.data(at, 2, sum.lkey()), Rule::long_message));
  auto many = [](Bench& x, Opcode op, int pieces) {
    Wqe w = of(op, x);
    for (int i = 0; i < pieces; i++) w.data(x.memory.at(64 * i), 1, x.lkey());
    return w;
  };
  CU_ASSERT(is_fine(b, many(b, Opcode::rdma_read, 30)));
  CU_ASSERT(breaks(read, many(read, Opcode::rdma_read, 31), Rule::long_read));
  CU_ASSERT(is_fine(write, many(write, Opcode::rdma_write, 31)));
  // In error mode the linter says it before the engine does.
  Bench strict(lint::LintMode::error);
  EQUAL(strict.run_one(strict.a, many(strict, Opcode::rdma_read, 31)).syndrome,
        Syndrome::local_qp_op);
}

const kilim::test::Case cases[] = {
    {"a length of 0 is meant where 2 GiB lie", zero_is_meant_where_two_gib_lie},
    {"2 GiB said as they are become inline data", two_gib_said_as_they_are_become_inline_data},
    {"messages and READs have limits", messages_and_reads_have_limits},
};

}  // namespace
}  // namespace lint_lengths_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(lint_lengths, kilim::vhca::test::lint_lengths_ut::cases)
