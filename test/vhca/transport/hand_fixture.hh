// SPDX-License-Identifier: BSD-3-Clause
// For tests of RC: a queue whose peer is the test itself, which writes each packet by hand.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "shared_queue_fixture.hh"
#include "ut.hh"
#include "vhca/transport/roce_frame.hh"
#include "vhca/wire/wire.hh"
#include "wire_fixture.hh"

namespace kilim::vhca::test {

using transport::roce::Op;

inline constexpr uint32_t mtu = 256, to_adapter = 0xfffff0,
                          from_adapter = 5;  // first sequence numbers

// The right adapter of the pair works; in the left one's place is the test.
class Hand {
 public:
  explicit Hand(LinkShape shape)
      : w_(with_mtu(std::move(shape))), key_(w_.right.reg(memory_, rw_access)) {
    wire_ = w_.left.hca->config.wires[0].get();
    path_.src = left_mac;
    path_.dst = right_mac;
    port_gid(left_mac, 0, path_.sgid);
    port_gid(right_mac, 0, path_.dgid);
  }
  [[nodiscard]] uint64_t at(std::size_t offset) const { return memory_.at(offset); }
  [[nodiscard]] uint32_t rkey() const { return key_.rkey.value(); }
  [[nodiscard]] uint32_t lkey() const { return key_.lkey.value(); }
  [[nodiscard]] QpState state() { return w_.right.state(*qp_); }
  [[nodiscard]] Rig& adapter() { return w_.right; }
  [[nodiscard]] TestQp& queue() { return *qp_; }

  // From now on the adapter's queue is one that takes its receives from `shared`, whose completion
  // queue is its own too, and tells `sink` its events.
  void use(const SharedQueue& shared, EventSink& sink) {
    QpSpec spec;
    spec.pd = w_.right.pd;
    spec.send_cq = spec.recv_cq = shared.cq.cqn;
    spec.buf = sharing_.rings.va();
    spec.sq_buf = sharing_.sq.va();
    spec.record = sharing_.record.va();
    spec.sq_wqebbs = sharing_.shape.sq_wqebbs;
    spec.uar_page = w_.right.uar_page;
    spec.srqn = shared.srqn;
    const Result<Qpn> made = hca::create_qp(*w_.right.hca, spec, &sink);
    CU_ASSERT_FATAL(made.ok());
    sharing_.qpn = *made;
    const LinkShape link{.mtu = 1};
    WireRig::connect(w_.right, {sharing_, w_.left.a.qpn, QpType::rc}, left_mac, link, from_adapter,
                     to_adapter);
    qp_ = &sharing_;
  }

  void send(Op op, uint32_t psn, std::size_t payload, transport::RocePacket p = {}) {
    p.op = op;
    p.flags = transport::roce::op_row(static_cast<uint8_t>(op))->flags;
    p.dest_qpn = qp_->qpn.value();
    p.psn = psn & transport::roce::psn_mask;
    p.ack_request = true;
    std::vector<std::byte> frame(transport::roce_overhead + payload);
    const std::size_t n = transport::build_roce(path_, p, payload, frame);
    EQUAL(wire_->send({frame.data(), n}), wire::Wire::Sent::taken);
  }
  // The next packet of the adapter; nothing: it has nothing to say.
  std::optional<transport::RocePacket> next() {
    while (w_.right.hca->run() != 0) {
    }
    const std::span<const std::byte> frame = wire_->peek();
    if (frame.empty()) return std::nullopt;
    frame_.assign(frame.begin(), frame.end());
    wire_->drop();
    transport::RocePacket p;
    if (transport::parse_roce(frame_, p) != transport::RoceParse::ok) return std::nullopt;
    return p;
  }
  bool next_is(Op op, uint32_t psn) {
    const std::optional<transport::RocePacket> p = next();
    return p.has_value() && p->op == op && p->psn == psn;
  }
  void post(Opcode op, uint32_t bytes, uint8_t flags = 0) {
    Wqe wqe(op);
    wqe.raddr(0x1000, 0x100).data(at(0), bytes, key_.lkey.value());
    wqe.flags = static_cast<uint8_t>(wqe.flags | flags);
    w_.right.a.put(wqe);
    w_.right.a.ring(w_.right.uar);
  }
  std::optional<Completion> completion() { return w_.right.cq_a.poll(); }

 private:
  static LinkShape with_mtu(LinkShape s) {
    s.mtu = 1;
    return s;
  }
  WireRig w_;
  TestQp sharing_{{.rq_wqes = 0}};
  TestQp* qp_ = &w_.right.a;
  Pages memory_{1 << 16};
  MrKeys key_;
  wire::Wire* wire_ = nullptr;
  transport::RocePath path_;
  std::vector<std::byte> frame_;
};

}  // namespace kilim::vhca::test
