// SPDX-License-Identifier: BSD-3-Clause
// Why a request failed between two adapters on a wire: the responder's adapter says what it
// refuses, the requester's what it heard, and what was not answered.
#include <memory>
#include <string>

#include "explain_fixture.hh"
#include "rc_wire_fixture.hh"
#include "ut.hh"

namespace kilim::vhca::test {
namespace explain_wire_ut {
namespace {

void explain(hca::Hca& h) {
  h.explainer = std::make_unique<explain::Explainer>(explain::Explainer::Around{
      h.config.name.c_str(), h.config.journal, &h.keys, &h.config.profile, &h.qps});
  h.context.failures = h.explainer.get();
}

// Both ends explain; what they say of one request.
struct Told {
  explicit Told(const LinkShape& shape = {}) : w(shape), s(w) {
    explain(*w.left.hca);
    explain(*w.right.hca);
  }
  std::string of(const Wqe& wqe) {
    return stderr_of([&] {
      w.left.a.put(wqe);
      w.left.a.ring(w.left.uar);
      status = w.wait(w.left.cq_a);
    });
  }
  WireRig w;
  Sides s;
  std::optional<Completion> status;
};

void each_end_says_its_part() {
  Told t;
  Wqe wqe = Wqe(Opcode::rdma_write).raddr(t.s.far.at(0), 0x77777700);
  const std::string text = t.of(wqe.data(t.s.near.at(0), 64, t.s.near_key.lkey.value()));
  CU_ASSERT(bad(t.status, Syndrome::remote_access));
  says(text, "queue " + hex(t.w.right.a.qpn.value()) + " refuses a request of its peer, queue " +
                 hex(t.w.left.a.qpn.value()) +
                 ", which gets IBV_WC_REM_ACCESS_ERR: segment 0 asks "
                 "key 0x77777700 for 64 bytes at " +
                 hex(t.s.far.at(0)));
  says(text,
       "WQE 0 (RDMA_WRITE): IBV_WC_REM_ACCESS_ERR: it asks rkey 0x77777700 of its peer for 64 "
       "bytes at " +
           hex(t.s.far.at(0)) + "; queue " + hex(t.w.right.a.qpn.value()) + " refused it: ");
  says(text, "; the process of that queue says why, if it runs with --explain");
  EQUAL(lines_of(text), 2);
}

void a_read_beyond_the_peers_region_is_told() {
  Told t;
  Wqe wqe = Wqe(Opcode::rdma_read).raddr(t.s.far.at(area) - 16, t.s.far_key.rkey.value());
  const std::string text = t.of(wqe.data(t.s.near.at(0), 64, t.s.near_key.lkey.value()));
  CU_ASSERT(bad(t.status, Syndrome::remote_access));
  says(text, "for remote read: the key has " + std::to_string(area) + " bytes from ");
  says(text, "the last 48 bytes lie beyond");
}

void a_silent_peer_is_told_with_its_gid() {
  LinkShape shape;
  shape.retry_cnt = 2;
  Told t(shape);
  EQUAL(t.w.right.to_state(t.w.right.a, QpState::reset), 0);
  const std::string text = t.of(rdma(Opcode::rdma_write, t.s, 0, 64));
  CU_ASSERT(bad(t.status, Syndrome::transport_retry_exc));
  says(text, "IBV_WC_RETRY_EXC_ERR: nothing acknowledged it: queue " +
                 hex(t.w.right.a.qpn.value()) + " at GID fe80:0000:0000:0000:0000:00ff:fe00:0002");
  says(text, "is silent after 2 retries (retry_cnt) of 1048 us at least (timeout 8), from PSN " +
                 hex(shape.left_psn));
}

void a_receive_that_is_too_short_is_told_at_its_end() {
  Told t;
  t.w.right.a.recv(t.s.far.at(0), 100, t.s.far_key.lkey.value());
  const std::string text = t.of(with_data(Wqe(Opcode::send), t.s, 0, 3000));
  CU_ASSERT(bad(t.status, Syndrome::remote_inval_req));
  says(text,
       "receive WQE 0: IBV_WC_LOC_LEN_ERR: the message has 1024 bytes at least and its 1 "
       "segment holds 100: post as much as the longest message has");
}

void what_an_unreliable_connection_drops_is_told() {
  LinkShape shape;
  shape.queue.type = QpType::uc;
  Told t(shape);
  Wqe wqe = Wqe(Opcode::rdma_write).raddr(t.s.far.at(0), 0x77777700);
  const std::string text = stderr_of([&] {
    t.w.left.a.put(wqe.data(t.s.near.at(0), 64, t.s.near_key.lkey.value()));
    t.w.left.a.ring(t.w.left.uar);
    for (int i = 0; i < 100; i++) {
      t.w.left.run();
      t.w.right.run();
    }
  });
  says(text, "no key has index 0x777777");
  says(text, "; an unreliable connection drops it without an answer");
  EQUAL(lines_of(text), 1);
}

using kilim::test::Case;
const Case cases[] = {
    {"each end says its part", each_end_says_its_part},
    {"a READ beyond the peer's region is told", a_read_beyond_the_peers_region_is_told},
    {"a silent peer is told with its GID", a_silent_peer_is_told_with_its_gid},
    {"a receive that is too short is told at its end",
     a_receive_that_is_too_short_is_told_at_its_end},
    {"what an unreliable connection drops is told", what_an_unreliable_connection_drops_is_told},
};

}  // namespace
}  // namespace explain_wire_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(explain_wire, kilim::vhca::test::explain_wire_ut::cases)
