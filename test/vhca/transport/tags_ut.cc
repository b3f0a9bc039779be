// SPDX-License-Identifier: BSD-3-Clause
// Tag matching, each case between two queues of one adapter and between two adapters with a wire:
// order, masks, what is unexpected, and rendezvous.
#include <cerrno>

#include "tag_fixture.hh"

namespace tags_ut {
namespace {

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;
using prm::TagNews;
using prm::TmhOp;

void test_order() {
  both([](TagBench& b) {
    for (unsigned n : {0u, 1u, 2u}) b.append(n == 1 ? 9 : 5, all, n);
    EQUAL(b.send(TmhOp::eager, 5, 100, 1), Syndrome::none);
    const News first = b.news();
    CU_ASSERT_TRUE(is(first, TagNews::consumed_msg, 0, 84));
    EQUAL(first.tag, 5);
    CU_ASSERT_TRUE(b.holds(0, 16, 84));
    b.send(TmhOp::eager, 5, 60, 2);
    CU_ASSERT_TRUE(is(b.news(), TagNews::consumed_msg, 2, 44));
    CU_ASSERT_TRUE(b.holds(2, 16, 44));
    b.send(TmhOp::eager, 9, 16, 3);
    CU_ASSERT_TRUE(is(b.news(), TagNews::consumed_msg, 1, 0));
  });
}

void test_mask() {
  both([](TagBench& b) {
    b.receive(8);
    b.append(0x12ab, 0xff00, 0);  // never: bits of the tag beyond the mask
    b.append(0x1200, 0xff00, 1);
    EQUAL(b.send(TmhOp::eager, 0x77'12ab, 40), Syndrome::none);
    const News n = b.news();
    CU_ASSERT_TRUE(is(n, TagNews::consumed_msg, 1, 24));
    EQUAL(n.tag, 0x77'12ab);
    CU_ASSERT_TRUE(b.holds(1, 16, 24));
    b.send(TmhOp::eager, 0x13ab, 40);
    EQUAL(b.news().news, TagNews::unexpected);
  });
}

void test_removal() {
  both([](TagBench& b) {
    b.receive(8);
    b.append(1, all, 0);
    b.append(1, all, 1);
    CU_ASSERT_TRUE(b.remove(0).success);
    CU_ASSERT_FALSE(b.remove(0).success);
    b.send(TmhOp::eager, 1, 50);
    CU_ASSERT_TRUE(is(b.news(), TagNews::consumed_msg, 1, 34));
    const News gone = b.remove(1);
    EQUAL(gone.news, TagNews::remove);
    CU_ASSERT_TRUE(!gone.success);
    b.send(TmhOp::eager, 1, 50);
    CU_ASSERT_TRUE(is(b.news(), TagNews::unexpected, 0, 50));
    CU_ASSERT_TRUE(b.holds(8, 0, 50));
  });
}

void test_unexpected() {
  both([](TagBench& b) {
    for (unsigned n : {8u, 9u, 10u}) b.receive(n);
    b.append(1, all, 0);
    b.send(TmhOp::eager, 2, 50);
    const News n = b.news();
    CU_ASSERT_TRUE(is(n, TagNews::unexpected, 0, 50));
    EQUAL(n.wqe, 0);
    EQUAL(n.tag, 0);
    CU_ASSERT_TRUE(b.holds(8, 0, 50));
    // A buffer that is posted before that message was handled is not matched, an older one is.
    b.synced = 0;
    EQUAL(b.append(2, all, 1).hw_count, 1);
    b.send(TmhOp::eager, 2, 51, 2);
    EQUAL(b.news().news, TagNews::unexpected);
    CU_ASSERT_TRUE(b.holds(9, 0, 51));
    b.send(TmhOp::eager, 1, 52, 3);
    CU_ASSERT_TRUE(is(b.news(), TagNews::consumed_msg, 0, 36));
    EQUAL(b.sync(1).hw_count, 2);
    b.send(TmhOp::eager, 2, 53, 4);
    EQUAL(b.news().news, TagNews::unexpected);
    const News synced = b.sync(3);
    EQUAL(synced.news, TagNews::nop);
    EQUAL(synced.hw_count, 3);
    b.send(TmhOp::eager, 2, 54, 5);
    CU_ASSERT_TRUE(is(b.news(), TagNews::consumed_msg, 1, 38));
    CU_ASSERT_TRUE(b.holds(1, 16, 38));
  });
}

void test_no_tag() {
  both([](TagBench& b) {
    for (unsigned n : {8u, 9u, 10u}) b.receive(n);
    b.append(0, 0, 0);  // any tag
    b.send(TmhOp::no_tag, 1, 5);
    CU_ASSERT_TRUE(is(b.news(), TagNews::no_tag, 0, 5));
    CU_ASSERT_TRUE(b.holds(8, 0, 5));
    b.send(TmhOp::fin, 1, 32);
    CU_ASSERT_TRUE(is(b.news(), TagNews::no_tag, 0, 32));
    CU_ASSERT_TRUE(b.holds(9, 0, 32));
    // With immediate data of a WRITE there is no header at all.
    b.client->put(Wqe(Opcode::rdma_write_imm, 3).raddr(b.to.at(0), b.server_key));
    b.client->ring(b.sender->uar);
    EQUAL(b.wait(*b.client_cq).syndrome, Syndrome::none);
    const News n = b.news();
    EQUAL(n.news, TagNews::none);
    EQUAL(n.op, prm::CqeOpcode::resp_wr_imm);
    EQUAL(n.wqe, 2);
    EQUAL(b.sync(0).hw_count, 0);
  });
}

void test_long() {
  both([](TagBench& b) {
    b.append(3, all, 0, 20000);
    EQUAL(b.send(TmhOp::eager, 3, 10016), Syndrome::none);
    const News first = b.news();
    CU_ASSERT_TRUE(is(first, TagNews::consumed, 0, 0));
    EQUAL(first.tag, 3);
    EQUAL(first.op, prm::CqeOpcode::no_packet);
    const News last = b.news();
    CU_ASSERT_TRUE(is(last, TagNews::expected, 0, 10000));
    EQUAL(last.tag, 0);
    CU_ASSERT_TRUE(b.holds(0, 16, 10000));
    EQUAL(last.op, prm::CqeOpcode::resp_send);
  });
}

void test_long_unexpected() {
  both([](TagBench& b) {
    // No receive WQE: it is told to come again, and is counted once.
    b.post(TmhOp::eager, 3, 500);
    b.run();
    b.receive(8);
    EQUAL(b.wait(*b.client_cq).syndrome, Syndrome::none);
    CU_ASSERT_TRUE(is(b.news(), TagNews::unexpected, 0, 500));
    CU_ASSERT_TRUE(b.holds(8, 0, 500));
    EQUAL(b.sync(1).hw_count, 1);
  });
}

void test_rendezvous() {
  both([](TagBench& b) {
    b.append(4, all, 0, 30000);
    b.rendezvous(25000);
    b.client_receive(1024);
    EQUAL(b.send(TmhOp::rendezvous, 4, 64), Syndrome::none);
    const News first = b.news();
    CU_ASSERT_TRUE(is(first, TagNews::consumed, 0, 0));
    EQUAL(first.tag, 4);
    const News last = b.news();
    CU_ASSERT_TRUE(is(last, TagNews::expected, 0, 25000));
    EQUAL(last.tag, 0);
    EQUAL(std::memcmp(b.to.data(), b.from.data() + fetched_at, 25000), 0);
    const News fin = b.wait(*b.client_cq);
    EQUAL(fin.op, prm::CqeOpcode::resp_send);
    EQUAL(fin.bytes, sizeof(Headers));
    EQUAL(b.from.data()[1024], static_cast<std::byte>(TmhOp::fin));
    EQUAL(std::memcmp(b.from.data() + 1025, b.from.data() + 1, sizeof(Headers) - 1), 0);
  });
}

// What has come of many rendezvous.
struct Progress {
  unsigned matched = 0, fetched = 0, told = 0, sent = 0;
  [[nodiscard]] unsigned all() const { return matched + fetched + told + sent; }
};

void look_at_server(TagBench& b, Progress& p) {
  while (std::optional<News> n = b.take(b.server->cq_b)) {
    unsigned& which = n->news == TagNews::consumed ? p.matched : p.fetched;
    EQUAL(n->uidx, 0x77);
    EQUAL(n->place, which);
    which++;
  }
}

void look_at_client(TagBench& b, Progress& p) {
  while (std::optional<News> n = b.take(*b.client_cq)) {
    const bool fin = n->op == prm::CqeOpcode::resp_send;
    EQUAL(n->syndrome, Syndrome::none);
    if (fin) b.client_receive(1024);
    (fin ? p.told : p.sent)++;
  }
}

void test_many_rendezvous() {
  both([](TagBench& b) {
    constexpr unsigned many = 24;  // more than a queue keeps
    for (unsigned n = 0; n < many; n++) b.append(n, all, n, slot);
    b.rendezvous(slot);
    for (unsigned n = 0; n < 16; n++) b.client_receive(1024);
    for (unsigned n = 0; n < many; n++) {
      b.place = 2048 + 64 * n;
      b.post(TmhOp::rendezvous, n, 32);
    }
    Progress p;
    for (int turns = 0; p.all() < 4 * many && turns < 100'000; turns++) {
      b.run();
      look_at_server(b, p);
      look_at_client(b, p);
      ::usleep(20);
    }
    EQUAL(p.matched, many);
    EQUAL(p.fetched, many);
    EQUAL(p.told, many);
    EQUAL(p.sent, many);
  });
}

void test_software_rendezvous() {
  both([](TagBench& b) {
    b.append(4, all, 0, 100);
    b.append(4, all, 1, 4000);
    b.rendezvous(200);
    EQUAL(b.send(TmhOp::rendezvous, 4, 50), Syndrome::none);
    const News n = b.news();
    CU_ASSERT_TRUE(is(n, TagNews::consumed_msg_sw_rndv, 0, 50));
    EQUAL(n.tag, 4);
    CU_ASSERT_TRUE(b.holds(0, 0, 50));
    // A header beyond what the adapter reads.
    EQUAL(b.send(TmhOp::rendezvous, 4, 80), Syndrome::none);
    CU_ASSERT_TRUE(is(b.news(), TagNews::consumed_msg_sw_rndv, 1, 80));
    CU_ASSERT_TRUE(b.holds(1, 0, 80));
  });
}

void test_list_refuses() {
  struct {
    uint8_t opcode;
    uint16_t index;
    bool buffer;
  } const wrong[] = {{1, tags, true}, {1, 3, false}, {3, 0, true}};
  for (const auto& w : wrong) {
    TagBench b(false);
    prm::TagSeg seg{};
    seg.opcode = static_cast<uint8_t>(w.opcode << prm::tag::opcode_shift);
    seg.index = be16{w.index};
    wq::TagBuffer buffer{0, 0, b.to.at(0), slot, b.server_key};
    EQUAL(b.operate(seg, w.buffer ? &buffer : nullptr).syndrome, Syndrome::local_qp_op);
  }
  TagBench b(false);
  for (unsigned n = 0; n < tags - 1; n++) b.append(n, all, n);
  prm::TagSeg seg{};
  seg.opcode = static_cast<uint8_t>(prm::TagOp::append) << prm::tag::opcode_shift;
  seg.index = be16{0};
  wq::TagBuffer buffer{0, 0, b.to.at(0), slot, b.server_key};
  CU_ASSERT_TRUE(b.operate(seg, &buffer).success);  // the last place
  EQUAL(b.operate(seg, &buffer).syndrome, Syndrome::local_qp_op);
  EQUAL(b.server->state(b.command), QpState::err);
}

void test_other_queues() {
  TagBench b(false);
  prm::TagSeg seg{};
  b.client->put(Wqe(Opcode::tag_matching).raw(&seg, sizeof(seg)));
  b.client->ring(b.sender->uar);
  EQUAL(b.wait(*b.client_cq).syndrome, Syndrome::local_qp_op);
  SrqSpec spec;
  spec.pd = b.server->pd;
  spec.buf = b.ring.va();
  spec.record = b.record.va();
  spec.wqes = receives;
  spec.wqe_shift = 6;
  spec.cq = b.server->cq_b.cqn;
  spec.tags = 2 * tags;
  CU_ASSERT_FALSE(hca::create_srq(*b.server->hca, spec, nullptr).ok());
  EQUAL(hca::destroy_srq(*b.server->hca, b.srqn), -EBUSY);
}

void test_sizes() {
  both([](TagBench& b) {
    b.append(5, all, 0, 0);  // 2 GiB
    EQUAL(b.send(TmhOp::eager, 5, 100), Syndrome::none);
    CU_ASSERT_TRUE(is(b.news(), TagNews::consumed_msg, 0, 84));
    CU_ASSERT_TRUE(b.holds(0, 16, 84));
    b.server_key = prm::list_end_lkey;  // no buffer
    b.append(6, all, 1);
    EQUAL(b.send(TmhOp::eager, 6, 17), Syndrome::remote_inval_req);
    CU_ASSERT_TRUE(is(b.news(), TagNews::canceled, 1, 0));
  });
}

constexpr Case cases[] = {
    {"messages match buffers in the order of posting", test_order},
    {"a mask says which bits of a tag count", test_mask},
    {"a removed buffer matches nothing, a used one is not removed", test_removal},
    {"buffers wait until unexpected messages are handled", test_unexpected},
    {"messages without a tag and FINs go to receive WQEs", test_no_tag},
    {"a long message completes twice", test_long},
    {"an unexpected message that came again counts once", test_long_unexpected},
    {"a rendezvous is fetched and its sender told", test_rendezvous},
    {"more rendezvous than a queue keeps come again", test_many_rendezvous},
    {"a rendezvous that does not fit is left to software", test_software_rendezvous},
    {"the list refuses what is no place or no operation", test_list_refuses},
    {"a queue without tags takes no list operation", test_other_queues},
    {"a length of 0 is 2 GiB, and no buffer holds nothing", test_sizes},
};

}  // namespace
}  // namespace tags_ut

KILIM_TEST_SUITE(tags, tags_ut::cases)
