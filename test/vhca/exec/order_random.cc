// SPDX-License-Identifier: BSD-3-Clause
// Part of order_failures_ut. Random requests that carry just the fences they need: the same outcome
// in every order.
#include <random>

#include "order_fixture.hh"

namespace kilim::vhca::test {
namespace order_random_ut {
namespace {

// What the fences of a careful client are: as the kernel's, and strong where a key that requests
// use is changed.
class Fences {
 public:
  uint8_t of(Opcode op) {
    const bool change = op == Opcode::umr || op == Opcode::local_inval;
    const bool answer = op == Opcode::rdma_read || op == Opcode::atomic_fa;
    uint8_t mode = 0;
    if (change && (answers_ || messages_)) mode = 3;
    if (!change && answers_) mode = changes_ ? 4 : 2;
    if (!change && !answers_ && changes_) mode = 1;
    if (mode == 1 || mode >= 3) changes_ = false;
    if (mode >= 2) answers_ = false;
    if (mode == 3) messages_ = false;
    changes_ = changes_ || change;
    answers_ = answers_ || answer;
    messages_ = messages_ || (!change && !answer);
    return mode;
  }

 private:
  bool changes_ = false, answers_ = false, messages_ = false;
};

struct Outcomes {
  std::vector<std::array<uint32_t, 4>> completions;  // index, opcode, bytes, syndrome
  std::vector<std::byte> mine, theirs;
  bool operator==(const Outcomes&) const = default;
};

Wqe random_request(OrderRig& r, std::minstd_rand& random, Opcode op) {
  const uint32_t bytes = 8 + static_cast<uint32_t>(random() % (random() % 4 == 0 ? 3000 : 64));
  const auto offset = static_cast<uint32_t>(random() % (half_bytes - bytes));
  const auto there = static_cast<uint32_t>(random() % (half_bytes - bytes));
  const char which = random() % 2 == 0 ? 'a' : 'b';
  Wqe w = op == Opcode::umr ? r.bind(which) : Wqe(op);
  if (op == Opcode::rdma_write || op == Opcode::rdma_read)
    w.raddr(r.far().at(there), r.rkey).data(offset, bytes, r.key);
  if (op == Opcode::atomic_fa)
    w.raddr(r.far().at(there & ~7u), r.rkey).atomic(bytes, 0).data(offset & ~7u, 8, r.key);
  if (random() % 3 == 0) w.quiet();
  if (op != Opcode::nop && random() % 200 == 0)
    w.bytes[16 + 11] ^= std::byte{1};  // another key, or a bad UMR
  return w;
}

Outcomes run_random(const char* order, Way way, unsigned seed) {
  constexpr std::array ops = {Opcode::umr,        Opcode::umr,       Opcode::rdma_write,
                              Opcode::rdma_write, Opcode::rdma_read, Opcode::rdma_read,
                              Opcode::atomic_fa,  Opcode::nop};
  OrderRig r(order_of(order), way);
  std::minstd_rand random(seed);
  for (uint32_t i = 0; i < 2 * half_bytes; i++) {
    r.memory().data()[i] = static_cast<std::byte>(random());
    r.far().data()[i] = static_cast<std::byte>(random());
  }
  Outcomes all;
  Fences fences;
  for (int round = 0; round < 12; round++) {
    for (auto n = 1 + random() % 12; n > 0; n--) {
      const Opcode op = ops[random() % ops.size()];
      r.put(random_request(r, random, op), fences.of(op));
    }
    for (const Completion& c : r.run())
      all.completions.push_back(
          {c.index, c.wqe_opcode, c.bytes, static_cast<uint32_t>(c.syndrome)});
    if (r.rig().state(r.rig().a) != QpState::rts) break;
  }
  all.mine.assign(r.memory().data(), r.memory().data() + r.memory().size());
  all.theirs.assign(r.far().data(), r.far().data() + r.far().size());
  return all;
}

void fenced_requests_do_the_same_in_every_order() {
  unsigned failed = 0;
  for (unsigned seed = 1; seed <= 60; seed++) {
    for (const Way way : ways) {
      const Outcomes strict = run_random("strict", way, seed);
      CU_ASSERT(!strict.completions.empty());
      failed += strict.completions.back()[3] != 0 ? 1 : 0;
      for (const char* order : {"weak", "weak:9", "late-umr", "late-read", "resend"}) {
        if (run_random(order, way, seed) == strict) continue;
        CU_FAIL("another outcome");
        std::printf("\n  %s, way %u, seed %u\n", order, static_cast<unsigned>(way), seed);
      }
    }
  }
  CU_ASSERT(failed > 5);
  CU_ASSERT(failed < 100);
}

constexpr kilim::test::Case random_orders[] = {
    {"random requests with the fences they need do the same in every order",
     fenced_requests_do_the_same_in_every_order},
};

}  // namespace
}  // namespace order_random_ut
}  // namespace kilim::vhca::test

std::span<const kilim::test::Case> kilim::vhca::test::order_random_cases() {
  return order_random_ut::random_orders;
}
