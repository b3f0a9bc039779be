// SPDX-License-Identifier: BSD-3-Clause
// Any frames into a port whose queue pairs are alive: RoCEv2 packets that fit the connection, that
// nearly fit it and that do not, plain Ethernet ones, and captures. The first byte names the kind
// of the second queue, and whether it matches tags.
#include <deque>

#include "fake_clock_fixture.hh"
#include "frame_fixture.hh"
#include "machine_fixture.hh"
#include "vhca/core/address.hh"
#include "vhca/ethernet/match_param.hh"
#include "vhca/hca/hca.hh"
#include "vhca/hca/ports.hh"
#include "vhca/transport/icrc.hh"
#include "vhca/transport/roce_frame.hh"
#include "vhca/wire/packet.hh"
#include "vhca/wire/segment.hh"
#include "vhca/wire/tunnel.hh"
#include "vhca/wire/wire.hh"

namespace kilim::fuzz {

using namespace vhca;
using prm::Opcode;
using vhca::test::Wqe;

namespace {

// Frames that are handed in come out of it; those that are sent are counted.
class HandWire final : public wire::Wire {
 public:
  Sent send(std::span<const std::byte>) noexcept override {
    return busy ? Sent::busy : Sent::taken;
  }
  std::span<const std::byte> peek() noexcept override {
    return frames.empty() ? std::span<const std::byte>() : frames.front();
  }
  void drop() noexcept override {
    if (!frames.empty()) frames.pop_front();
  }
  [[nodiscard]] int fd() const noexcept override { return -1; }
  [[nodiscard]] uint32_t mtu() const noexcept override { return 9000; }
  [[nodiscard]] const wire::WireCounters& counters() noexcept override { return counters_; }
  std::deque<std::vector<std::byte>> frames;
  bool busy = false;

 private:
  wire::WireCounters counters_;
};

RigShape shape_of(uint8_t first, wire::Wire* wire) {
  constexpr QpType kinds[] = {QpType::rc, QpType::raw_packet, QpType::ud, QpType::uc};
  RigShape s;
  s.connect = false;
  s.own_wire = wire;
  s.b.type = kinds[first & 3];
  s.profile.log_max_tags = 4;
  if ((first & dynamic) != 0)
    s.a.type = QpType::dci, s.b.type = QpType::dct;
  else if ((first & 4) != 0 && s.b.type == QpType::rc)
    s.b.tags = 16;
  return s;
}

struct Port {
  explicit Port(uint8_t first) : wire(new HandWire), m(shape_of(first, wire)) {
    if ((first & dynamic) != 0) {
      m.bring_up();
      return;
    }
    connect(m.rig.a);
    connect(m.rig.b);
    if (m.rig.b.shape.type != QpType::raw_packet) return;
    FlowSpec all;
    all.type = FlowSpec::Type::all_default;
    rule = *create_flow(*m.rig.hca, m.rig.b.qpn, all);
  }
  void connect(TestQp& qp);
  void more(Input& in);
  void structured(Input& in, bool damage);
  void plain(Input& in);

  HandWire* wire;
  Machine m;
  uint32_t rule = 0;
};

void Port::connect(TestQp& qp) {
  hca::Hca& hca = *m.rig.hca;
  if (qp.shape.type == QpType::raw_packet) return m.rig.to_rts(qp, qp.qpn);
  bool ud = qp.shape.type == QpType::ud, rc = qp.shape.type == QpType::rc;
  using namespace qp_mask;
  QpAttr a;
  a.state = QpState::init;
  a.port = 1;
  a.access = Rig::all_access;
  a.qkey = 0x1111;
  modify_qp(hca, qp.qpn, a, state | pkey_index | port | (ud ? qkey : qp_mask::access));
  a.state = QpState::rtr;
  a.path_mtu = 3;
  a.dest_qpn = Qpn{0x77};
  a.rq_psn = peer_psn;
  a.max_dest_rd_atomic = 16;
  a.min_rnr_timer = 1;
  a.path.is_global = true;
  a.path.port = 1;
  port_gid(peer_mac, 0, a.path.dgid);
  uint32_t rtr = path | path_mtu | dest_qpn | rq_psn;
  if (rc) rtr |= max_dest_rd_atomic | min_rnr_timer;
  modify_qp(hca, qp.qpn, a, state | (ud ? 0 : rtr));
  a.state = QpState::rts;
  a.timeout = 8;
  a.retry_cnt = a.rnr_retry = 3;
  a.sq_psn = own_psn;
  a.max_rd_atomic = 16;
  uint32_t rts = timeout | retry_cnt | rnr_retry | max_rd_atomic;
  modify_qp(hca, qp.qpn, a, state | sq_psn | (rc ? rts : 0));
}

// One of a few initiators, each on one of a few connections.
void name_connection(const wq::Qp& target, uint8_t which, transport::RocePacket& p) {
  p.src_qpn = 0x50u + (which >> 3 & 3);
  p.session = 9u + (which >> 5 & 3);
  p.dc_key = (which & 0x80) != 0 ? 0 : Rig::dc_key;
  p.base_psn = p.psn = peer_psn;
  for (const std::unique_ptr<wq::Qp>& c : target.connections) {
    if (c->rc->session == p.session && c->attr.dest_qpn.value() == p.src_qpn)
      p.base_psn = p.psn = c->rc->expected_psn;
  }
}

// A packet as a peer builds it; `damage`: then some of its bytes are changed.
void Port::structured(Input& in, bool damage) {
  uint8_t which = in.take<uint8_t>(), op = in.take<uint8_t>();
  const transport::roce::OpRow* row = transport::roce::op_row(op);
  TestQp& qp = m.queue(which);
  const wq::Qp* state = m.rig.hca->qps.at(qp.qpn.value());
  transport::RocePacket p;
  p.service = static_cast<transport::roce::Service>(op >> 5);
  p.op = row != nullptr ? row->op : transport::roce::Op::acknowledge;
  p.flags = row != nullptr ? row->flags : 0;
  if (row != nullptr && p.service == transport::roce::Service::dc)
    p.flags = transport::roce::flags_of(p.service, *row);
  p.solicited = (which & 2) != 0;
  p.ack_request = (which & 4) != 0;
  p.dest_qpn = qp.qpn.value();
  bool response = (p.flags & transport::roce::flag::response) != 0;
  if (state != nullptr && state->rc)
    p.psn = response ? state->rc->una_psn : state->rc->expected_psn;
  if (state != nullptr && !state->connections.empty()) name_connection(*state, which, p);
  p.psn = transport::roce::psn_add(p.psn,
                                   static_cast<uint32_t>(static_cast<int8_t>(in.take<uint8_t>())));
  std::vector<std::byte> words = in.bytes(40);
  m.resolve(words);
  auto get = [&](std::size_t at) { return wire::get_be<uint32_t>(words, at); };
  p.va = uint64_t{get(0)} << 32 | get(4);
  p.rkey = get(8);
  p.length = get(12);
  p.swap_add = uint64_t{get(16)} << 32 | get(20);
  p.compare = p.original = uint64_t{get(24)} << 32 | get(28);
  p.imm_raw = get(32);
  p.msn = get(36) & 0xffffff;
  p.ack_kind = static_cast<uint8_t>(get(36) >> 24 & 3);
  p.ack_value = static_cast<uint8_t>(get(36) >> 27);
  std::size_t payload = in.take<uint16_t>() % 4200;
  transport::RocePath path;
  path.src = peer_mac;
  path.dst = own_mac;
  port_gid(peer_mac, 0, path.sgid);
  port_gid(own_mac, 0, path.dgid);
  std::vector<std::byte> frame(payload + transport::roce_overhead);
  frame.resize(build_roce(path, p, payload, frame));
  for (unsigned n = damage ? in.take<uint8_t>() % 8u : 0; n > 0; n--) {
    std::size_t at = in.take<uint16_t>() % frame.size();
    frame[at] ^= std::byte{in.take<uint8_t>()};
  }
  wire::PacketView v = wire::parse_packet(frame);
  bool whole = v.l4 == wire::L4::udp && v.l3_end <= frame.size() &&
               v.l3_end >= v.l4_at + 8 + sizeof(transport::roce::Bth) + transport::icrc_bytes;
  if (damage && whole) transport::write_icrc(frame, v);
  wire->frames.push_back(std::move(frame));
}

// Any bytes; they are looked at as what a kernel hands over too.
void Port::plain(Input& in) {
  std::size_t n = in.take<uint16_t>() % 2048;
  uint16_t piece = in.take<uint16_t>();
  std::vector<std::byte> frame = in.bytes(n);
  wire::PacketView v = wire::parse_packet(frame);
  const wire::TunnelView t = parse_tunnel(frame, v);
  (void)l4_checksum_good(frame, t.inner);
  if (frame.size() >= wire::ether_header_bytes) (void)ethernet::deep_headers(frame);
  (void)l3_checksum_good(frame, v);
  (void)l4_checksum_good(frame, v);
  write_l3_checksum(frame, v);
  write_l4_checksum(frame, v);
  wire::Segmenter cut;
  if (cut.open(frame, {piece, wire::L4::none, n % 2 == 0 ? t.inner.l4_at : 0})) {
    std::vector<std::byte> out(cut.longest());
    for (int i = 0; i < 4096 && cut.next(out) != 0; i++) (void)wire::parse_packet(out);
  }
  if (!frame.empty()) wire->frames.push_back(std::move(frame));
}

void Port::more(Input& in) {
  uint8_t what = in.take<uint8_t>();
  switch (what & 3) {
    case 0:
      return structured(in, false);
    case 1:
      return structured(in, true);
    case 2:
      return plain(in);
    default:
      wire->busy = (what & 4) != 0;
  }
}

}  // namespace

void run_input(Input in) {
  Port port(in.take<uint8_t>());
  for (int n = 0; n < 256 && !in.done(); n++) {
    auto s = static_cast<Step>(in.take<uint8_t>() % steps);
    if (s == Step::more) {
      port.more(in);
    } else {
      port.m.step(s, in);
    }
  }
  port.wire->busy = false;
  port.m.finish();
}

}  // namespace kilim::fuzz
