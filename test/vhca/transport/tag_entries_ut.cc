// SPDX-License-Identifier: BSD-3-Clause
// Short messages to a queue whose shared queue matches tags: they come in the entries of the shared
// queue's completion queue where there is room, else in memory.
#include "tag_fixture.hh"

namespace kilim::vhca::test {
namespace tag_entries_ut {
namespace {

// The queue is made anew: its own entries would hold 64 bytes, those of the shared queue 32.
void make_with_longer_entries(TagBench& b) {
  QpSpec spec = b.server->hca->qps.at(b.queue.qpn.value())->spec;
  spec.scatter_received = 64;
  EQUAL_FATAL(hca::destroy_qp(*b.server->hca, b.queue.qpn), 0);
  const Result<Qpn> made = hca::create_qp(*b.server->hca, spec, &b.server->events);
  CU_ASSERT_TRUE_FATAL(made.ok());
  b.queue.qpn = *made;
  EQUAL_FATAL(b.sender->to_state(*b.client, QpState::reset), 0);
  const LinkShape link;
  WireRig::connect(*b.sender, {*b.client, b.queue.qpn, QpType::rc}, test_mac, link, 0, 0);
  WireRig::connect(*b.server, {b.queue, b.client->qpn, QpType::rc}, test_mac, link, 0, 0);
}

void test_room() {
  TagBench b(false);
  make_with_longer_entries(b);
  for (uint32_t bytes : {33u, 40u, 64u}) {
    b.receive(8);
    EQUAL(b.send(TmhOp::no_tag, 1, bytes, bytes), Syndrome::none);
    const News n = b.news();
    EQUAL(n.news, TagNews::no_tag);
    EQUAL(n.bytes, bytes);
    CU_ASSERT_TRUE(b.holds(8, 0, bytes));
  }
  // What fits comes in the entry's first bytes, and the memory stays as it was.
  b.receive(9);
  EQUAL(b.send(TmhOp::no_tag, 1, 32, 7), Syndrome::none);
  b.run();
  const TestCq& cq = b.server->cq_b;
  const std::byte* entry = cq.memory.data() + std::size_t{cq.ci} * cq.entry_bytes;
  EQUAL(std::memcmp(entry, b.from.data(), 32), 0);
  EQUAL(b.news().bytes, 32);
  CU_ASSERT_TRUE(!b.holds(9, 0, 32));
}

constexpr kilim::test::Case cases[] = {
    {"data beyond the room of the shared queue's entries goes to memory", test_room},
};

}  // namespace
}  // namespace tag_entries_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(tag_entries, kilim::vhca::test::tag_entries_ut::cases)
