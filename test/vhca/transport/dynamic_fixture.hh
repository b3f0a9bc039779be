// SPDX-License-Identifier: BSD-3-Clause
// For tests: initiators and targets of dynamic connections on two adapters with a wire between
// them. Owner: one test case, one thread.
#pragma once

#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "shared_queue_fixture.hh"
#include "ut.hh"
#include "vhca/hca/hca.hh"
#include "wire_fixture.hh"

namespace kilim::vhca::test {

inline constexpr uint64_t good_key = 0x1122334455667788;

struct InitiatorShape {
  uint8_t mtu = 3;
  uint8_t rnr_retry = 7, retry_cnt = 7;
  uint32_t failing_streams = 0;
  uint32_t psn = 0xfffffe;
};

// An initiator with a completion queue of its own.
struct Initiator {
  explicit Initiator(Rig& r, const InitiatorShape& s = {})
      : rig(r), qp({.rq_wqes = 0, .type = QpType::dci}), cq(256, 64) {
    CqSpec c;
    c.buf = cq.memory.va();
    c.record = cq.record.va();
    c.cqe_count = cq.entries;
    c.uar_page = rig.uar_page;
    cq.cqn = *hca::create_cq(*rig.hca, c, &rig.events);
    QpSpec spec;
    spec.type = QpType::dci;
    spec.pd = rig.pd;
    spec.send_cq = spec.recv_cq = cq.cqn;
    spec.buf = qp.rings.va();
    spec.sq_buf = qp.sq.va();
    spec.record = qp.record.va();
    spec.sq_wqebbs = qp.shape.sq_wqebbs;
    spec.uar_page = rig.uar_page;
    spec.failing_streams = s.failing_streams;
    qp.qpn = *hca::create_qp(*rig.hca, spec, &rig.events);
    bring_up(s);
  }
  void bring_up(const InitiatorShape& s) {
    using namespace qp_mask;
    QpAttr a;
    a.state = QpState::init;
    a.port = 1;
    int rc = hca::modify_qp(*rig.hca, qp.qpn, a, state | pkey_index | port);
    a.state = QpState::rtr;
    a.path_mtu = s.mtu;
    rc |= hca::modify_qp(*rig.hca, qp.qpn, a, state | path_mtu);
    a.state = QpState::rts;
    a.timeout = 8;
    a.retry_cnt = s.retry_cnt;
    a.rnr_retry = s.rnr_retry;
    a.max_rd_atomic = 16;
    a.sq_psn = s.psn;
    rc |= hca::modify_qp(*rig.hca, qp.qpn, a,
                         state | timeout | retry_cnt | rnr_retry | max_rd_atomic | sq_psn);
    if (rc != 0) std::abort();
  }
  void put(Wqe w, uint16_t stream = 0) {
    w.bytes[9] = std::byte(stream >> 8);
    w.bytes[10] = std::byte(stream & 0xff);
    qp.put(w);
  }
  [[nodiscard]] QpState stands() const { return rig.state(qp); }
  Rig& rig;
  TestQp qp;
  TestCq cq;
};

// A target that takes receives from a shared queue.
struct Target {
  explicit Target(Rig& r, uint32_t access = Rig::all_access, uint32_t entry = 64)
      : rig(r), queue(r, {}, entry) {
    using namespace qp_mask;
    QpSpec spec;
    spec.type = QpType::dct;
    spec.pd = rig.pd;
    spec.send_cq = spec.recv_cq = queue.cq.cqn;
    spec.srqn = queue.srqn;
    spec.dc_key = good_key;
    spec.uidx = 0x77;
    spec.scatter_received = entry == 128 ? 64 : 0;
    qpn = *hca::create_qp(*rig.hca, spec, &rig.events);
    QpAttr a;
    a.state = QpState::init;
    a.port = 1;
    a.access = access;
    int rc = hca::modify_qp(*rig.hca, qpn, a, state | pkey_index | port | qp_mask::access);
    a.state = QpState::rtr;
    a.path_mtu = 3;
    a.min_rnr_timer = 1;
    a.path.is_global = true;
    a.path.port = 1;
    port_gid(rig.hca->config.mac, 0, a.path.dgid);
    rc |= hca::modify_qp(*rig.hca, qpn, a, state | path | path_mtu | min_rnr_timer);
    if (rc != 0) std::abort();
  }
  [[nodiscard]] const wq::Qp& raw() const { return *rig.hca->qps.at(qpn.value()); }
  Rig& rig;
  SharedQueue queue;
  Qpn qpn;
};

// Two adapters, memory on each.
struct Pair {
  explicit Pair(const std::string& left_wire = "")
      : w({.left_wire = left_wire, .queue = {.type = QpType::ud}}),
        near_key(w.left.reg(near, rw_access)),
        far_key(w.right.reg(far, rw_access)) {
    for (std::size_t i = 0; i < area; i++)
      near.data()[i] = static_cast<std::byte>(i * 7 + (i >> 8));
  }
  // The beginning of a request to a target.
  static Wqe to(const Target& t, Opcode op, uint32_t imm = 0, uint64_t key = good_key) {
    prm::AvSeg av{};
    av.qkey = be32{static_cast<uint32_t>(key >> 32)};
    av.reserved = be32{static_cast<uint32_t>(key)};
    av.dqp = be32{1u << 31 | t.qpn.value()};
    Gid gid;
    port_gid(t.rig.hca->config.mac, 0, gid);
    std::memcpy(av.rgid, gid.data(), gid.size());
    av.hop_limit = 1;
    return Wqe(op, imm).raw(&av, sizeof(av));
  }
  Wqe send(const Target& t, std::size_t at, uint32_t n, uint64_t key = good_key) {
    return to(t, Opcode::send_imm, 3, key).data(near.at(at), n, near_key.lkey.value());
  }
  Wqe write(const Target& t, std::size_t from, std::size_t at, uint32_t n, uint32_t rkey) {
    return to(t, Opcode::rdma_write)
        .raddr(far.at(at), rkey)
        .data(near.at(from), n, near_key.lkey.value());
  }
  void recv(Target& t, std::size_t at, uint32_t n) {
    t.queue.recv(far.at(at), n, far_key.lkey.value());
  }
  std::optional<Completion> post(Initiator& i, const Wqe& wqe, uint16_t stream = 0) {
    i.put(wqe, stream);
    i.qp.ring(i.rig.uar);
    return w.wait(i.cq);
  }
  [[nodiscard]] bool same(std::size_t near_at, std::size_t far_at, std::size_t n) const {
    return std::memcmp(near.data() + near_at, far.data() + far_at, n) == 0;
  }
  WireRig w;
  Pages near{area}, far{area};
  MrKeys near_key, far_key;
};

inline bool failed(const std::optional<Completion>& c, Syndrome s) {
  return c.has_value() && c->op == prm::CqeOpcode::req_err && c->syndrome == s;
}

// Of dynamic_packets.cc.
std::span<const kilim::test::Case> dynamic_packet_cases();

}  // namespace kilim::vhca::test
