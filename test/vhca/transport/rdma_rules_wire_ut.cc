// SPDX-License-Identifier: BSD-3-Clause
// Rules of RDMA's flow tables over a wire: what the receiver's rules drop is never answered, what
// the sender's rules drop never leaves; both count frame by frame, and let go again.
#include <cstring>
#include <vector>

#include "rc_wire_fixture.hh"
#include "ruled_fixture.hh"

namespace kilim::vhca::test {
namespace rdma_rules_wire_ut {
namespace {

LinkShape impatient(QpType type = QpType::rc) {
  LinkShape s{.timeout = 6, .retry_cnt = 2};
  s.queue.type = type;
  return s;
}

void a_receiver_that_drops_never_answers() {
  WireRig w(impatient());
  const Sides s(w);
  const Ruled ruled(w.right, ethernet::TableType::rdma_rx, true);
  CU_ASSERT(bad(w.post(rdma(Opcode::rdma_write, s, 0, 100)), Syndrome::transport_retry_exc));
  CU_ASSERT(!s.same(0, 0, 100));
  EQUAL(ruled.seen.packets, 3);  // and again by retry_cnt
  EQUAL(w.right.hca->context.journal->count(Journal::Kind::frame_drop), 3);
}

void a_sender_that_drops_sends_nothing() {
  WireRig w(impatient());
  const Sides s(w);
  const uint64_t before = w.left.hca->config.wires[0]->counters().tx_frames;
  const Ruled ruled(w.left, ethernet::TableType::rdma_tx, true);
  CU_ASSERT(bad(w.post(rdma(Opcode::rdma_write, s, 0, 100)), Syndrome::transport_retry_exc));
  EQUAL(ruled.seen.packets, 3);
  EQUAL(w.left.hca->config.wires[0]->counters().tx_frames, before);
  CU_ASSERT(!s.same(0, 0, 100));
}

// The request's packets at the one end, the answer at the other.
void what_goes_on_is_counted_at_both_ends() {
  WireRig w;
  const Sides s(w);
  const Ruled out(w.left, ethernet::TableType::rdma_tx, false),
      in(w.right, ethernet::TableType::rdma_rx, false),
      back(w.left, ethernet::TableType::rdma_rx, false);
  CU_ASSERT(succeeded(w.post(rdma(Opcode::rdma_write, s, 0, 2500))));
  CU_ASSERT(s.same(0, 0, 2500));
  EQUAL(out.seen.packets, 3);
  EQUAL(in.seen.packets, 3);
  EQUAL(out.seen.bytes, in.seen.bytes);
  EQUAL(in.seen.bytes, 3 * (14 + 40 + 8 + 12 + 4) + 16 + 2500);
  EQUAL(back.seen.packets, 1);
}

void a_rule_that_is_gone_drops_no_more() {
  WireRig w;
  const Sides s(w);
  {
    const Ruled out(w.left, ethernet::TableType::rdma_tx, true),
        in(w.right, ethernet::TableType::rdma_rx, true);
  }
  CU_ASSERT(succeeded(w.post(rdma(Opcode::rdma_write, s, 0, 2500))));
  // And anew, when its wire is ruled already.
  const Ruled out(w.left, ethernet::TableType::rdma_tx, false);
  CU_ASSERT(succeeded(w.post(rdma(Opcode::rdma_write, s, 0, 2500))));
  EQUAL(out.seen.packets, 3);
}

void frames_of_others_pass_by() {
  WireRig w;
  const Ruled in(w.right, ethernet::TableType::rdma_rx, true);
  std::vector<std::byte> frame(64);
  std::memcpy(frame.data(), right_mac.data(), right_mac.size());
  frame[12] = std::byte{0x88};
  frame[13] = std::byte{0xb5};
  w.left.hca->config.wires[0]->send(frame);
  w.settle();
  EQUAL(in.seen.packets, 0);
}

constexpr kilim::test::Case cases[] = {
    {"a receiver that drops never answers", a_receiver_that_drops_never_answers},
    {"a sender that drops sends nothing", a_sender_that_drops_sends_nothing},
    {"what goes on is counted at both ends", what_goes_on_is_counted_at_both_ends},
    {"a rule that is gone drops no more", a_rule_that_is_gone_drops_no_more},
    {"frames of others pass by", frames_of_others_pass_by},
};

}  // namespace
}  // namespace rdma_rules_wire_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(rdma_rules_wire, kilim::vhca::test::rdma_rules_wire_ut::cases)
