// SPDX-License-Identifier: BSD-3-Clause
// Two adapters with a wire between them, a queue on each, connected where its type is. Queue `a` of
// either rig is used. Owner: one test case, one thread: it runs both adapters in turn.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>

#include <unistd.h>

#include "vhca/core/address.hh"
#include "vhca/hca/hca.hh"
#include "vhca/wire/make.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {

struct LinkShape {
  std::string left_wire, right_wire;  // decorators behind the cable
  uint8_t mtu = 3;                    // 1024
  uint32_t left_psn = 0xfffff0, right_psn = 5;
  uint8_t timeout = 8;  // a millisecond
  uint8_t retry_cnt = 7, rnr_retry = 7, min_rnr_timer = 1;
  uint8_t reads = 16;
  uint32_t access = Rig::all_access;
  QueueShape queue{};
  Profile profile{};
  lint::LintMode lint = lint_of_environment();
  Order order = order_of_environment();
};

// Bytes of either side's memory, where a test has one area of it.
inline constexpr std::size_t area = 1 << 20;

inline bool good(const std::optional<Completion>& c) {
  return c.has_value() && c->op == prm::CqeOpcode::req;
}

inline constexpr Mac left_mac = {2, 0, 0, 0, 0, 1}, right_mac = {2, 0, 0, 0, 0, 2};

struct WireRig {
  explicit WireRig(const LinkShape& s = {})
      : left(shape(s, left_mac, s.left_wire)), right(shape(s, right_mac, s.right_wire)) {
    if (s.queue.type == QpType::ud) {
      to_datagrams(left);
      to_datagrams(right);
      return;
    }
    connect(left, {left.a, right.a.qpn, s.queue.type}, right_mac, s, s.left_psn, s.right_psn);
    connect(right, {right.a, left.a.qpn, s.queue.type}, left_mac, s, s.right_psn, s.left_psn);
  }
  static RigShape shape(const LinkShape& s, const Mac& mac, const std::string& more) {
    RigShape r;
    r.a = r.b = s.queue;
    r.cq_entries = 1024;
    r.mac = mac;
    r.wire = "cable:wire-rig" + more;
    r.connect = false;
    r.profile = s.profile;
    r.lint = s.lint;
    r.order = s.order;
    return r;
  }
  struct Ends {
    TestQp& qp;
    Qpn peer;
    QpType type;
  };
  // NOLINTNEXTLINE(readability-function-size): six parameters
  static void connect(Rig& r, const Ends& e, const Mac& peer_mac, const LinkShape& s,
                      uint32_t own_psn, uint32_t peer_psn) {
    r.to_init(e.qp, s.access);
    bool responds = e.type == QpType::rc || e.type == QpType::xrc_tgt;
    bool requests = e.type == QpType::rc || e.type == QpType::xrc_ini;
    QpAttr attr;
    attr.state = QpState::rtr;
    attr.path_mtu = s.mtu;
    attr.dest_qpn = e.peer;
    attr.rq_psn = peer_psn;
    attr.max_dest_rd_atomic = s.reads;
    attr.min_rnr_timer = s.min_rnr_timer;
    attr.path.is_global = true;
    attr.path.port = 1;
    port_gid(peer_mac, 0, attr.path.dgid);
    uint32_t mask =
        qp_mask::state | qp_mask::path | qp_mask::path_mtu | qp_mask::dest_qpn | qp_mask::rq_psn;
    if (responds) mask |= qp_mask::max_dest_rd_atomic | qp_mask::min_rnr_timer;
    int rc = hca::modify_qp(*r.hca, e.qp.qpn, attr, mask);
    attr.state = QpState::rts;
    attr.timeout = s.timeout;
    attr.retry_cnt = s.retry_cnt;
    attr.rnr_retry = s.rnr_retry;
    attr.sq_psn = own_psn;
    attr.max_rd_atomic = s.reads;
    mask = qp_mask::state | qp_mask::sq_psn;
    if (responds || requests) mask |= qp_mask::timeout;
    if (requests) mask |= qp_mask::retry_cnt | qp_mask::rnr_retry | qp_mask::max_rd_atomic;
    rc |= hca::modify_qp(*r.hca, e.qp.qpn, attr, mask);
    if (rc != 0) std::abort();
  }
  static void to_datagrams(Rig& r) {
    QpAttr attr;
    attr.state = QpState::init;
    attr.port = 1;
    attr.qkey = datagram_key;
    uint32_t mask = qp_mask::state | qp_mask::pkey_index | qp_mask::port | qp_mask::qkey;
    int rc = hca::modify_qp(*r.hca, r.a.qpn, attr, mask);
    attr.state = QpState::rtr;
    rc |= hca::modify_qp(*r.hca, r.a.qpn, attr, qp_mask::state);
    attr.state = QpState::rts;
    rc |= hca::modify_qp(*r.hca, r.a.qpn, attr, qp_mask::state | qp_mask::sq_psn);
    if (rc != 0) std::abort();
  }
  static constexpr uint32_t datagram_key = 0x1234567;

  // Runs both until the queue has a completion or five seconds are over.
  std::optional<Completion> wait(TestCq& cq) {
    for (int i = 0; i < 100'000; i++) {
      std::size_t did = left.hca->run() + right.hca->run();
      if (std::optional<Completion> c = cq.poll()) return c;
      if (did == 0) ::usleep(50);
    }
    return std::nullopt;
  }
  // What moves without waiting for a timer.
  void settle() {
    while (left.hca->run() + right.hca->run() != 0) {
    }
  }
  std::optional<Completion> post(const Wqe& w) {
    left.a.put(w);
    left.a.ring(left.uar);
    return wait(left.cq_a);
  }

  Rig left, right;
};

}  // namespace kilim::vhca::test
