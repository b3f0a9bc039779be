// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CQE Format", responder of raw Ethernet. Frames of the wires go by the flow rules into
// receive WQEs; the completion says what the headers are and which checksums are right.
// Adapter's lock held. Never allocates. Frames are untrusted.
#include <algorithm>

#include "vhca/core/journal.hh"
#include "vhca/ethernet/delivery.hh"
#include "vhca/ethernet/lro.hh"
#include "vhca/ethernet/rewrite.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/ethernet/state.hh"
#include "vhca/ethernet/strides.hh"
#include "vhca/ethernet/tir.hh"
#include "vhca/wire/packet.hh"
#include "vhca/wire/port_netdev.hh"
#include "vhca/wire/tunnel.hh"
#include "vhca/wq/compression.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::ethernet {

namespace {

using prm::Syndrome;

constexpr std::size_t tcp_flags_at = 13;
constexpr std::byte tcp_ack{0x10};

bool receives(const wq::Qp& qp) noexcept {
  return qp.rq.wqes > 0 && qp.state != QpState::reset && qp.state != QpState::err;
}

uint8_t l4_type(std::span<const std::byte> frame, const wire::PacketView& v) noexcept {
  if (v.l4 == wire::L4::udp) return prm::cqe::l4_udp;
  if (v.l4 != wire::L4::tcp) return prm::cqe::l4_none;
  if ((frame[v.l4_at + tcp_flags_at] & tcp_ack) == std::byte{0}) return prm::cqe::l4_tcp;
  return v.l4_at + v.l4_header == v.l3_end ? prm::cqe::l4_tcp_empty_ack : prm::cqe::l4_tcp_ack;
}

bool no_udp_checksum(std::span<const std::byte> frame, const wire::PacketView& v) noexcept {
  constexpr std::size_t checksum_at = 6;
  return v.l4 == wire::L4::udp && wire::get_be<uint16_t>(frame, v.l4_at + checksum_at) == 0;
}

}  // namespace

void describe_frame(std::span<const std::byte> frame, bool tunnels, prm::Cqe& cqe) noexcept {
  const wire::PacketView outer = wire::parse_packet(frame);
  bool l3_good = wire::l3_checksum_good(frame, outer),
       l4_good = wire::l4_checksum_good(frame, outer);
  wire::PacketView v = outer;
  const wire::TunnelView tunnel = tunnels ? wire::parse_tunnel(frame, outer) : wire::TunnelView{};
  if (tunnel.kind != wire::TunnelKind::none) {
    v = tunnel.inner;
    const bool covered = outer.l4 != wire::L4::none && !no_udp_checksum(frame, outer);
    l3_good = l3_good && wire::l3_checksum_good(frame, v);
    l4_good = (l4_good || !covered) && wire::l4_checksum_good(frame, v);
    cqe.outer_l3_tunneled = static_cast<uint8_t>(
        prm::cqe::tunneled | (outer.l3 == wire::L3::ipv6 ? prm::cqe::outer_ipv6 : 0u));
  }
  uint8_t l3 = v.l3 == wire::L3::ipv4   ? prm::cqe::l3_ipv4
               : v.l3 == wire::L3::ipv6 ? prm::cqe::l3_ipv6
                                        : prm::cqe::l3_none;
  unsigned ok = prm::cqe::l2_ok;
  if (l3_good) ok |= prm::cqe::l3_ok;
  if (l4_good) ok |= prm::cqe::l4_ok;
  unsigned type = static_cast<unsigned>(l3) << prm::cqe::l3_type_shift |
                  static_cast<unsigned>(l4_type(frame, v)) << prm::cqe::l4_type_shift;
  if (v.l3 != wire::L3::none && v.ip_options) type |= prm::cqe::ip_ext_opts;
  if (v.l3 != wire::L3::none && v.fragment) type |= prm::cqe::ip_fragment;
  cqe.hds_ip_ext = static_cast<uint8_t>(ok);
  cqe.l4_hdr_type_etc = static_cast<uint8_t>(type);
}

be16 packet_checksum(std::span<const std::byte> frame) noexcept {
  const wire::PacketView v = wire::parse_packet(frame);
  if (v.l3 == wire::L3::none) return {};
  return be16::from_raw(
      wire::fold_sum(wire::add_to_sum(0, frame.subspan(v.l3_at, v.l3_end - v.l3_at))));
}

namespace {

// What steering says of a frame, and the receive WQE that it lies in.
struct Marks {
  RxHash hash;
  uint32_t tag;
  uint16_t index;
  bool tunnels;
  const JoinedMarks* joined;
};

// Fields of Linux's mlx5_cqe64 (include/linux/mlx5/device.h, en_rx.c, mlx5e_lro_update_hdr()).
void tell_joined(const JoinedMarks& j, prm::Cqe& cqe) noexcept {
  prm::cqe::lro_num_seg::set(cqe, j.segments);
  cqe.lro_min_ttl = j.min_ttl;
  if (j.push) cqe.lro_tcppsh_abort_dupack = prm::cqe::lro_push;
  cqe.lro_tcp_win = j.window;
  cqe.lro_ack_seq_num = j.ack;
  cqe.checksum = j.payload_sum;
}

bool complete(EthState& eth, wq::Qp& qp, std::span<const std::byte> frame,
              const ShapedFrame& shaped, Marks marks) noexcept {
  const uint16_t index = marks.index;
  prm::Cqe cqe{};
  describe_frame(frame, marks.tunnels, cqe);
  cqe.rx_hash_result = be32{marks.hash.value};
  cqe.rx_hash_type = marks.hash.type;
  const JoinedMarks* joined = marks.joined;
  if (shaped.stripped) {
    cqe.l4_hdr_type_etc |= prm::cqe::vlan_stripped;
    cqe.vlan_info = be16::from_raw(shaped.tag_raw);
  }
  auto bytes = static_cast<uint32_t>(shaped.bytes.size());
  cqe.srqn_uidx = be32{qp.spec.uidx};
  cqe.byte_cnt = be32{bytes};
  cqe.wqe_counter = be16{index};
  auto next = static_cast<uint16_t>(index + 1);
  if (qp.rq.striding()) {
    const StridePlace at = take_strides(eth, qp, bytes);
    cqe.byte_cnt = be32{at.byte_cnt};
    cqe.wqe_counter = be16{at.first};
    cqe.wqe_id = be16{index};
    next = static_cast<uint16_t>(at.first + strides_of(qp.rq, bytes));
  } else {
    wq::consume_recv(*eth.context, qp);
  }
  cqe.sop_drop_qpn = be32{qp.alone || marks.tag != 0 ? marks.tag : qp.qpn.value()};
  constexpr auto op = prm::CqeOpcode::resp_send;
  eth.context->journal->cqe(qp.recv_cq->cqn, qp.qpn, static_cast<uint8_t>(op), index, bytes);
  if (joined != nullptr) tell_joined(*joined, cqe);
  if (qp.recv_cq->block == nullptr) return wq::write_cqe(*eth.context, *qp.recv_cq, cqe, op, false);
  if (joined == nullptr && wq::says_checksum(*qp.recv_cq)) cqe.checksum = packet_checksum(frame);
  return wq::write_or_hold(*eth.context, *qp.recv_cq, cqe, next);
}

constexpr uint64_t rules_settle_ns = 20'000'000;  // without a rule made or removed

// An Ethernet receive queue goes on behind such a frame: mlx5_core (en/health.h,
// cqe_syndrome_needs_recover) and DPDK (mlx5_rx.c, mlx5_rx_err_handle) do not recover from this
// syndrome, since the queue is not in its error state.
Delivered drop_too_long(EthState& eth, wq::Qp& qp, uint16_t index, Verdict why) noexcept {
  if (wq::drop_recv(*eth.context, qp, index, why)) return Delivered::too_long;
  wq::fatal_qp(*eth.context, qp, "the completion queue of a receive queue is in error");
  return Delivered::queue_down;
}

// What a rule leads to: a queue pair, or what stands for a TIR.
bool tells_of_tunnels(const wq::Qp& to) noexcept {
  return to.tir != nullptr ? to.tir->spec.tunnels : to.spec.tunnels;
}

}  // namespace

Delivered deliver(EthState& eth, FlowTarget to, std::span<const std::byte> frame,
                  const JoinedMarks* joined) noexcept {
  RxHash hash;
  wq::Qp& qp = to.qp->tir != nullptr ? pick_queue(*to.qp->tir, frame, hash) : *to.qp;
  if (!receives(qp)) return Delivered::queue_down;
  wq::RecvWqe& wqe = eth.recv;
  ShapedFrame shaped = shape_frame(eth, qp.spec, frame);
  switch (peek_for(eth, qp, shaped.bytes.size(), wqe)) {
    case wq::RecvTake::empty:
      if (qp.counter != nullptr) qp.counter->out_of_buffer++;
      return Delivered::no_wqe;
    case wq::RecvTake::fault:
      wq::fatal_qp(*eth.context, qp, "the memory of a receive queue is gone");
      return Delivered::queue_down;
    case wq::RecvTake::refused:
      wq::fail_refused_recv(*eth.context, qp, wqe.index);
      return Delivered::queue_down;
    case wq::RecvTake::ok:
      break;
  }
  const Verdict got =
      wq::scatter_to_recv(*eth.context, qp, wqe, shaped.bytes.data(), shaped.bytes.size());
  if (got.syndrome == Syndrome::local_length) return drop_too_long(eth, qp, wqe.index, got);
  if (!got.ok()) {
    wq::fail_recv(*eth.context, qp, wqe.index, got);
    return Delivered::queue_down;
  }
  if (!complete(eth, qp, frame, shaped,
                {hash, to.tag, wqe.index, tells_of_tunnels(*to.qp), joined})) {
    wq::fatal_qp(*eth.context, qp, "the completion queue of a receive queue is in error");
    return Delivered::queue_down;
  }
  return Delivered::yes;
}

namespace {

// The frame of the last match() with the headers that its rule makes of them: a copy, valid until
// the next one, since the wire's bytes are others' too.
std::span<const std::byte> as_rewritten(EthState& eth, const Steering& rules,
                                        std::span<const std::byte> frame) noexcept {
  const RewriteList* list = rules.rewrite();
  const std::size_t half = eth.wrapped.size() / 2;
  if (list == nullptr || frame.size() > half) [[likely]]
    return frame;
  const auto out = std::span(eth.wrapped).subspan(half, frame.size());
  std::copy(frame.begin(), frame.end(), out.begin());
  SteeringRegisters registers;
  rewrite_frame(list->actions, out, registers);
  return out;
}

bool goes_on(std::span<const FlowTarget> targets) noexcept {
  return std::any_of(targets.begin(), targets.end(),
                     [](const FlowTarget& to) { return to.qp->table != nullptr; });
}

// A queue that gets the frame by rules of the port, and those that do by tables beyond. Whether
// there was any.
template <typename F>
bool each_arrival(EthState& eth, std::span<const FlowTarget> targets,
                  std::span<const std::byte> frame, F&& f) noexcept {
  if (eth.soft) eth.soft->begin(false);
  bool any = false;
  for (const FlowTarget& to : targets) {
    if (to.qp->table == nullptr) {
      f(to, frame);
      any = true;
      continue;
    }
    for (const Arrival& a : eth.soft->walk(*to.qp->table, to, 0, frame)) {
      f(a.to, a.frame);
      any = true;
    }
  }
  return any;
}

// Whether a queue that receives has no receive WQE for the frame.
bool lacks_room(EthState& eth, const FlowTarget& to, std::span<const std::byte> frame) noexcept {
  RxHash hash;
  const wq::Qp* qp = to.qp->tir != nullptr ? &pick_queue(*to.qp->tir, frame, hash) : to.qp;
  if (!receives(*qp)) return false;
  const uint32_t waiting = wq::recv_waiting(*qp);
  if (waiting == 1) return needs_next(qp->rq, frame.size());
  return waiting == 0 && wq::peek_recv(*eth.context, *qp, eth.recv) == wq::RecvTake::empty;
}

// With flow control a frame waits until each of its queues has room; and a recording loses nothing.
bool must_wait(EthState& eth, const EthPort& port, std::span<const FlowTarget> targets,
               std::span<const std::byte> frame) noexcept {
  const bool recording = port.wire->is_recording();
  if (!eth.context->profile->flow_control && !recording) return false;
  // The port's rules come one after the other, are made anew where one changes, and some only to
  // see whether they can be made: until they stand a frame may end where it will not then (DPDK
  // 22.11, drivers/net/mlx5/mlx5_trigger.c, mlx5_traffic_enable(); linux/mlx5_os.c,
  // mlx5_flow_drop_action_config()).
  if (recording && targets.empty() && eth.context->now_ns < port.rules_ns + rules_settle_ns)
    return true;
  // A record that is gone shows none waiting too, but that is a fault, not a pause.
  bool wait = false;
  (void)each_arrival(eth, targets, frame, [&](const FlowTarget& to, std::span<const std::byte> f) {
    wait = wait || lacks_room(eth, to, f);
  });
  return wait;
}

}  // namespace

void count_delivered(EthPort& port, Delivered d, uint64_t frames, uint64_t bytes,
                     bool& first) noexcept {
  PortCounters& c = port.counters;
  switch (d) {
    case Delivered::yes:
      c.rx_copies += first ? 0 : frames;
      c.rx_packets += first ? frames : 0;
      c.rx_bytes += first ? bytes : 0;
      first = false;
      return;
    case Delivered::no_wqe:
      c.rx_out_of_buffer += frames;
      port.out_of_buffer.add(frames);
      return;
    case Delivered::too_long:
      c.rx_too_long += frames;
      return;
    case Delivered::queue_down:
      c.rx_queue_down += frames;
      return;
  }
}

namespace {

// Whether frames of `from` come back to `to`: a client's own do only where the queue wants them.
bool comes_back(const wq::Qp& from, const wq::Qp& to, bool multicast) noexcept {
  if (from.sink != to.sink) return true;
  return multicast ? to.spec.own_multicast : to.spec.own_unicast;
}

// A way that it should have gone as well, and did not, is told too.
void journal_received(EthState& eth, uint32_t number, uint32_t bytes) noexcept {
  Journal& journal = *eth.context->journal;
  journal.frame_in(number, bytes);
  if (eth.soft && eth.soft->lost() != nullptr) journal.frame_drop(number, bytes, eth.soft->lost());
}

// A port that was given an MTU lets no longer frame in, and no rule sees it (Linux, counters.rst,
// rx_oversize_pkts_phy: "dropped received packets due to length which exceed MTU size on a physical
// port").
void drop_oversize(EthState& eth, uint32_t number, std::size_t bytes) noexcept {
  EthPort& port = eth.ports[number - 1];
  port.paused = false;
  port.counters.rx_oversize++;
  eth.context->journal->frame_drop(number, static_cast<uint32_t>(bytes),
                                   "longer than the MTU of the port");
  port.wire->drop();
}

const char* why_dropped(bool filtered, bool no_rule) noexcept {
  if (filtered) return "a flow rule drops it";
  return no_rule ? "no flow rule" : "no receive queue took it";
}

}  // namespace

bool eth_loop_back(EthState& eth, const wq::Qp& from, std::span<const std::byte> frame) noexcept {
  // As mlx5_ib switches it on: for a second client, or for a queue that wants its own.
  if (eth.clients < 2 && eth.own_queues == 0) return false;
  const uint32_t number = from.attr.port;
  EthPort& port = eth_port(eth, number);
  bool multicast = (frame[0] & std::byte{1}) != std::byte{0};
  bool first = true, wanted = false;
  const std::span<const FlowTarget> targets = port.steering.match(frame);
  frame = as_rewritten(eth, port.steering, frame);
  const bool any =
      each_arrival(eth, targets, frame, [&](const FlowTarget& to, std::span<const std::byte> f) {
        if (!comes_back(from, *to.qp, multicast)) return;
        wanted = true;
        count_delivered(port, deliver(eth, to, f, nullptr), 1, f.size(), first);
      });
  if (eth.soft) eth.soft->count(false);
  const bool lost = !targets.empty() && !any, filtered = port.steering.dropped() || lost;
  port.counters.rx_filtered += filtered;
  if (!first || filtered) port.steering.count_hits(frame.size());
  const auto bytes = static_cast<uint32_t>(frame.size());
  if (!first) {
    journal_received(eth, number, bytes);
  } else if (filtered || wanted) {
    eth.context->journal->frame_drop(number, bytes,
                                     lost ? eth.soft->why() : why_dropped(filtered, false));
  }
  return !first || filtered;
}

bool eth_handle_frame(EthState& eth, uint32_t number, std::span<const std::byte> frame) noexcept {
  EthPort& port = eth.ports[number - 1];
  if (frame.size() > port.longest_in) [[unlikely]] {
    drop_oversize(eth, number, frame.size());
    return true;
  }
  std::span<const FlowTarget> targets = port.steering.match(frame);
  frame = as_rewritten(eth, port.steering, frame);
  bool wait = must_wait(eth, port, targets, frame);
  port.counters.rx_pauses += wait && !port.paused;
  port.paused = wait;
  if (wait) return false;
  auto bytes = static_cast<uint32_t>(frame.size());
  if (port.counts_casts && bytes >= wire::ether_header_bytes) [[unlikely]]
    port.rx_casts.add(frame);
  const bool filtered = port.steering.dropped(), kernels = port.steering.netdev_takes();
  port.steering.count_hits(bytes);
  port.counters.rx_filtered += filtered;
  port.counters.rx_no_rule += targets.empty() && !filtered && !kernels;
  bool first = true;
  if (kernels) port.netdev->give(frame);
  if (targets.size() == 1 && eth.large) [[unlikely]] {
    // Counted with what it is joined to.
    if (eth_join(eth, number, targets[0], frame)) {
      eth.context->journal->frame_in(number, bytes);
      port.wire->drop();
      return true;
    }
  }
  const bool further = goes_on(targets);
  (void)each_arrival(eth, targets, frame, [&](const FlowTarget& to, std::span<const std::byte> f) {
    count_delivered(port, deliver(eth, to, f, nullptr), 1, f.size(), first);
  });
  if (eth.soft) eth.soft->count(false);
  if (first && !kernels) {
    port.counters.rx_filtered += further;
    eth.context->journal->frame_drop(
        number, bytes, further ? eth.soft->why() : why_dropped(filtered, targets.empty()));
  } else {
    journal_received(eth, number, bytes);
  }
  port.wire->drop();
  return true;
}

}  // namespace kilim::vhca::ethernet
