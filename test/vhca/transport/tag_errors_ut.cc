// SPDX-License-Identifier: BSD-3-Clause
// Tag matching that goes wrong, each case between two queues of one adapter and between two
// adapters with a wire: the entry of whoever waits for a message is canceled, and its connection
// ends.
#include "tag_fixture.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace tag_errors_ut {
namespace {

void test_malformed() {
  struct {
    TmhOp op;
    uint32_t bytes;
  } const wrong[] = {
      {TmhOp::eager, 15}, {TmhOp::rendezvous, 31}, {TmhOp::fin, 8}, {static_cast<TmhOp>(4), 64}};
  for (const auto& w : wrong) {
    both([&](TagBench& b) {
      b.receive(8);
      b.append(0, 0, 0);
      EQUAL(b.send(w.op, 1, w.bytes), Syndrome::remote_inval_req);
      EQUAL(b.server->state(b.queue), QpState::err);
      CU_ASSERT_TRUE(b.remove(0).success);
    });
  }
}

void test_short_buffer() {
  for (uint32_t bytes : {200u, 9000u}) {
    both([&](TagBench& b) {
      b.append(6, all, 0, bytes - 17);
      EQUAL(b.send(TmhOp::eager, 6, bytes), Syndrome::remote_inval_req);
      News n = b.news();
      if (n.news == TagNews::consumed) n = b.news();
      CU_ASSERT_TRUE(is(n, TagNews::canceled, 0, 0));
    });
  }
}

void test_refused_buffer() {
  both([](TagBench& b) {
    b.server_key ^= 1;
    b.append(6, all, 0);
    EQUAL(b.send(TmhOp::eager, 6, 100), Syndrome::remote_op);
    CU_ASSERT_TRUE(is(b.news(), TagNews::canceled, 0, 0));
    EQUAL(b.server->state(b.queue), QpState::err);
  });
}

void test_refused_fetch() {
  both([](TagBench& b) {
    b.append(4, all, 0, 30000);
    b.rendezvous(100);
    b.header_key ^= 1;
    b.client_receive(1024);
    EQUAL(b.send(TmhOp::rendezvous, 4, 64), Syndrome::none);
    CU_ASSERT_TRUE(is(b.news(), TagNews::consumed, 0, 0));
    CU_ASSERT_TRUE(is(b.news(), TagNews::canceled, 0, 0));
    EQUAL(b.server->state(b.queue), QpState::err);
    // Its own queue is in error too: the receive is flushed, no FIN came.
    EQUAL(b.wait(*b.client_cq).syndrome, Syndrome::wr_flush);
  });
}

void test_no_reads() {
  both([](TagBench& b) {
    b.server->hca->qps.at(b.queue.qpn.value())->attr.max_rd_atomic = 0;
    b.append(4, all, 0, 30000);
    b.rendezvous(100);
    EQUAL(b.send(TmhOp::rendezvous, 4, 64), Syndrome::none);
    CU_ASSERT_TRUE(is(b.news(), TagNews::consumed, 0, 0));
    CU_ASSERT_TRUE(is(b.news(), TagNews::canceled, 0, 0));
    EQUAL(b.server->state(b.queue), QpState::err);
  });
}

void test_invalidation() {
  both([](TagBench& b) {
    b.invalidates = b.server->make_key(4, true, true);
    const tpt::Mkey& key = *b.server->hca->keys.at(b.invalidates >> 8);
    b.server->hca->keys.at(b.invalidates >> 8)->free = false;
    for (unsigned n : {0u, 1u}) b.append(6, all, n);
    EQUAL(b.send(TmhOp::eager, 6, 100), Syndrome::none);
    const News n = b.news();
    CU_ASSERT_TRUE(is(n, TagNews::consumed_msg, 0, 84));
    CU_ASSERT_TRUE(key.free);
    CU_ASSERT_TRUE(b.holds(0, 16, 84));
    EQUAL(n.op, prm::CqeOpcode::resp_send_inv);
    // It is gone: the next message has nothing to invalidate.
    EQUAL(b.send(TmhOp::eager, 6, 100), Syndrome::remote_access);
    CU_ASSERT_TRUE(is(b.news(), TagNews::canceled, 1, 0));
    EQUAL(b.server->state(b.queue), QpState::err);
  });
}

void test_sender_dies() {
  both([](TagBench& b) {
    b.append(4, all, 0, 30000);
    b.append(4, all, 1, 30000);
    b.rendezvous(20000);
    b.post(TmhOp::rendezvous, 4, 64);
    b.sender->hca->run(1);
    b.sender->to_state(*b.client, QpState::err);
    News n = b.news();
    CU_ASSERT_TRUE(is(n, TagNews::consumed, 0, 0));
    n = b.news();
    CU_ASSERT_TRUE(is(n, TagNews::canceled, 0, 0));
    EQUAL(b.server->state(b.queue), QpState::err);
    CU_ASSERT_TRUE(b.remove(1).success);
    while (b.client_cq->poll()) {
    }
  });
}

void test_fetched() {
  both([](TagBench& b) {
    b.append(4, all, 0, 1000);
    b.rendezvous(500);  // and no receive WQE for its FIN
    EQUAL(b.send(TmhOp::rendezvous, 4, 64), Syndrome::none);
    CU_ASSERT_TRUE(is(b.news(), TagNews::consumed, 0, 0));
    CU_ASSERT_TRUE(is(b.news(), TagNews::expected, 0, 500));
    b.server->to_state(b.queue, QpState::err);
  });
}

void test_queue_goes() {
  TagBench b(true);
  b.append(4, all, 0, 30000);
  b.post(TmhOp::eager, 4, 20000);
  b.sender->hca->run(2);
  b.server->hca->run();
  std::optional<News> n = b.take(b.server->cq_b);
  CU_ASSERT_TRUE(n && is(*n, TagNews::consumed, 0, 0));
  EQUAL(hca::destroy_qp(*b.server->hca, b.queue.qpn), 0);
  n = b.take(b.server->cq_b);
  CU_ASSERT_TRUE(n && is(*n, TagNews::canceled, 0, 0));
}

constexpr Case cases[] = {
    {"malformed headers end the connection", test_malformed},
    {"a message longer than its buffer is canceled", test_short_buffer},
    {"a buffer whose key refuses is canceled", test_refused_buffer},
    {"a fetch that is refused is canceled", test_refused_fetch},
    {"a queue that issues no READs cancels a rendezvous", test_no_reads},
    {"a tagged message invalidates a key, or is canceled", test_invalidation},
    {"a sender that dies in a rendezvous cancels it", test_sender_dies},
    {"a rendezvous whose data is there is not canceled", test_fetched},
    {"a queue that goes cancels what it receives", test_queue_goes},
};

}  // namespace
}  // namespace tag_errors_ut

KILIM_TEST_SUITE(tag_errors, tag_errors_ut::cases)
