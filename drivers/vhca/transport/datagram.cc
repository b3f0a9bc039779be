// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Unreliable Datagram". Adapter's lock held. Never allocates.
#include "vhca/transport/datagram.hh"

#include <algorithm>
#include <array>
#include <cstring>

#include "kilim/detail/base/units.hh"
#include "kilim/prm/av_seg.hh"
#include "vhca/core/address.hh"
#include "vhca/core/journal.hh"
#include "vhca/transport/gsi.hh"
#include "vhca/transport/loop_packets.hh"
#include "vhca/transport/responder_checks.hh"
#include "vhca/transport/roce_port.hh"
#include "vhca/wire/packet.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/failure_observer.hh"
#include "vhca/wq/qp_error.hh"
#include "vhca/wq/recv.hh"

namespace kilim::vhca::transport {

namespace {

using prm::Opcode;
using prm::Syndrome;

constexpr uint32_t port_mtu = 4096;
constexpr uint32_t any_group_member = 0xffffff;
// What is around the data behind the global header: BTH, DETH, ICRC, for RoCE v2 UDP as well.
constexpr uint32_t wire_headers = 12 + 8 + 4;
constexpr uint32_t udp_bytes = 8;
constexpr uint8_t next_is_udp = 17, next_is_infiniband = 0x1b;

struct Datagram {
  uint32_t from_qpn;
  uint32_t qkey;
  bool has_imm;
  uint32_t imm_raw;
  bool solicited;
  uint64_t bytes;
  tpt::SegmentList content;  // the header, then the sender's data
  bool grh = true;           // false: the header's place is empty
  uint16_t slid = 0;         // InfiniBand
  uint8_t sl = 0;
};

bool has_imm(const wq::SendWqe& wqe) noexcept {
  return wqe.opcode == static_cast<uint8_t>(Opcode::send_imm);
}

// On InfiniBand a datagram has a global header only where its address says so.
bool has_header(const RoceLink& link, const prm::AvSeg& to) noexcept {
  return link.context->addresses->lid == 0 || prm::av::grh::get(to) != 0;
}

// An IPv4 header takes the last 20 of the 40 bytes; the ones before are not told (IBTA annex A17,
// "RoCEv2": the GRH of a received datagram).
constexpr std::size_t ipv4_header_at = 20;

prm::GrhSeg ipv4_header_of(const prm::AvSeg& to, const Gid& own, uint32_t udp_payload) noexcept {
  prm::GrhSeg h{};
  const std::span<std::byte> ip = std::as_writable_bytes(std::span(&h, 1)).subspan(ipv4_header_at);
  wire::put_be<uint16_t>(ip, 0, static_cast<uint16_t>(0x4500 | to.tclass));
  wire::put_be<uint16_t>(ip, 2, static_cast<uint16_t>(ip.size() + udp_payload));
  wire::put_be<uint16_t>(ip, 6, 0x4000);  // not to be cut
  wire::put_be<uint16_t>(ip, 8, static_cast<uint16_t>(to.hop_limit << 8 | next_is_udp));
  std::memcpy(ip.data() + 12, own.data() + 12, 4);
  std::memcpy(ip.data() + 16, to.rgid + 12, 4);
  const auto sum = static_cast<uint16_t>(~wire::fold_sum(wire::add_to_sum(0, ip)));
  std::memcpy(ip.data() + 10, &sum, sizeof(sum));
  return h;
}

prm::GrhSeg header_of(const prm::AvSeg& to, const Gid& own, const wq::SendWqe& wqe, uint64_t bytes,
                      bool roce) {
  uint32_t imm = has_imm(wqe) ? 4 : 0;
  uint32_t padded = round_up(static_cast<uint32_t>(bytes), 4);
  const uint32_t behind_ip = wire_headers + (roce ? udp_bytes : 0) + imm + padded;
  if (roce && is_ipv4(own)) return ipv4_header_of(to, own, behind_ip);
  prm::GrhSeg h{};
  h.version_class_label =
      be32{6u << 28 | static_cast<uint32_t>(to.tclass) << 20 | prm::av::flow_label::get(to)};
  h.payload_bytes = be16{static_cast<uint16_t>(behind_ip)};
  h.next_header = roce ? next_is_udp : next_is_infiniband;
  h.hop_limit = to.hop_limit;
  std::memcpy(h.sgid, own.data(), sizeof(h.sgid));
  std::memcpy(h.dgid, to.rgid, sizeof(h.dgid));
  return h;
}

bool receives(const wq::Qp& qp, uint32_t qkey) noexcept {
  return qp.type == QpType::ud && answers(qp) && qp.attr.qkey == qkey;
}

void deliver(wq::EngineContext& context, wq::Qp& qp, const Datagram& d) noexcept {
  if (!receives(qp, d.qkey)) return;
  wq::RecvWqe wqe;
  wq::RecvTake take = wq::peek_recv(context, qp, wqe);
  if (take == wq::RecvTake::fault) return wq::fatal_qp(context, qp, "the receive ring is gone");
  if (take == wq::RecvTake::refused) return wq::fail_refused_recv(context, qp, wqe.index);
  if (take == wq::RecvTake::empty) return;
  uint64_t bytes = sizeof(prm::GrhSeg) + d.bytes;
  if (bytes > wqe.room) {
    wq::note_too_long(context, qp, bytes);
    return wq::fail_recv(
        context, qp, wqe.index,
        {Syndrome::local_length, "datagram and header longer than the receive WQE"});
  }
  tpt::SegmentList to{{wqe.segments.data(), wqe.count}, wq::recv_access(qp)};
  tpt::Transfer t = tpt::move_bytes(context.translator, d.content, to, bytes);
  if (!t.source.ok()) return;  // checked before; the sender took its memory away meanwhile
  if (!t.target.ok()) return wq::fail_recv(context, qp, wqe.index, t.target);
  if (wqe.count > 0) context.journal->translated(wqe.segments[0].key, t.pieces, bytes);
  wq::consume_recv(context, qp);
  wq::RecvCompletion done;
  done.op = d.has_imm ? prm::CqeOpcode::resp_send_imm : prm::CqeOpcode::resp_send;
  done.wqe_index = wqe.index;
  done.bytes = static_cast<uint32_t>(bytes);
  done.imm_raw = d.has_imm ? d.imm_raw : 0;
  done.remote_qpn = d.from_qpn;
  done.solicited = d.solicited;
  done.grh = d.grh;
  done.slid = d.slid;
  done.sl = d.sl;
  if (!wq::complete_recv(context, qp, done))
    wq::fatal_qp(context, qp, "the CQ of a receive queue is in error");
}

// To all members on this adapter but a sender that does not want its own; false: there is none.
// `from`: null where the datagram comes from the wire.
bool deliver_to_group(RoceLink& link, const Gid& gid, const Datagram& d,
                      const wq::Qp* from = nullptr) noexcept {
  bool any = false;
  for (const GroupMember& m : link.groups) {
    if (m.gid != gid || (m.qp == from && from->spec.block_self_multicast)) continue;
    any = true;
    deliver(*link.context, *m.qp, d);
  }
  return any;
}

// Puts it on the queue's wire, if there is one; false: the wire is full.
bool send_out(RoceLink& link, wq::Qp& qp, const wq::SendWqe& wqe, const prm::AvSeg& to,
              const Datagram& d) noexcept {
  wire::Wire* wire = link.wire_of(qp);
  if (wire == nullptr) return true;
  uint32_t psn = qp.attr.sq_psn & roce::psn_mask;
  RocePacket p = packet_of(qp, has_imm(wqe) ? roce::Op::send_only_imm : roce::Op::send_only, psn);
  p.dest_qpn = prm::av::qpn::get(to);
  p.qkey = d.qkey;
  p.src_qpn = d.from_qpn;
  p.imm_raw = d.imm_raw;
  p.solicited = d.solicited;
  tpt::SegmentList data{d.content.segments.subspan(1), d.content.need};
  if (!tpt::gather_bytes(link.context->translator, data, payload_place(link, p.flags), d.bytes)
           .ok())
    return true;  // checked before; the client took its memory away meanwhile
  if (!send_along(link, *wire, path_to(link, to, d.from_qpn), p, d.bytes)) return false;
  qp.attr.sq_psn = roce::psn_add(psn, 1);
  return true;
}

// What the rules of the adapter say, where there are any.
struct Way {
  const prm::AvSeg& to;
  const LocalFilter* filter;
  [[nodiscard]] bool stays_open(const wq::Qp& from, const wq::SendWqe& wqe,
                                uint64_t bytes) const noexcept {
    return filter == nullptr || filter->passes(filter->engine, from, wqe, to, bytes);
  }
};

// False: the wire is full.
bool route(RoceLink& link, wq::Qp& qp, const wq::SendWqe& wqe, const Way& way,
           const Datagram& d) noexcept {
  const prm::AvSeg& to = way.to;
  Gid gid;
  std::memcpy(gid.data(), to.rgid, gid.size());
  uint32_t qpn = prm::av::qpn::get(to);
  if (is_group_gid(gid)) {
    if (!send_out(link, qp, wqe, to, d)) return false;
    if (qpn == any_group_member && way.stays_open(qp, wqe, d.bytes))
      deliver_to_group(link, gid, d, &qp);
    return true;
  }
  if (!leads_here(*link.context->addresses, to)) return send_out(link, qp, wqe, to, d);
  wq::Qp* peer = link.qps->at(qpn);
  if (peer != nullptr && way.stays_open(qp, wqe, d.bytes)) deliver(*link.context, *peer, d);
  return true;
}

// The longest datagram of the queue's port.
uint32_t longest(const RoceLink& link, const wq::Qp& qp) noexcept {
  const wire::Wire* wire = link.wire_of(qp);
  return wire == nullptr ? port_mtu : roce_mtu(wire->mtu());
}

Verdict send(RoceLink& link, wq::Qp& qp, const wq::SendWqe& wqe,
             const LocalFilter* filter) noexcept {
  prm::AvSeg to;
  wq::DataList data;
  if (wqe.body().size() < sizeof(to)) return malformed("WQE shorter than its address");
  std::memcpy(&to, wqe.body().data(), sizeof(to));
  if (prm::av::extended::get(to) == 0) return malformed("an address without its second half");
  if (!wq::decode_data(wqe.body(), sizeof(to), data))
    return malformed("data segments beyond the WQE");
  Gid own;
  if (!port_gid(*link.context->addresses, prm::av::gid_index::get(to), own))
    return malformed("no such source GID");
  if (data.total > longest(link, qp)) return {Syndrome::local_length, "longer than the MTU"};
  tpt::Access need{qp.spec.pd, qp.qpn.value(), prm::mkey::local_read,
                   wq::may_fault(qp, paged_op::send)};
  uint32_t bad_key = 0;
  Verdict denied = tpt::check_list(link.context->translator,
                                   {{data.segments.data(), data.count}, need}, data.total, bad_key);
  if (denied.ok())
    denied = tpt::page_in(link.context->translator, {{data.segments.data(), data.count}, need},
                          data.total);
  if (!denied.ok()) return denied;
  const bool roce = link.context->addresses->lid == 0, grh = has_header(link, to);
  prm::GrhSeg header = grh ? header_of(to, own, wqe, data.total, roce) : prm::GrhSeg{};
  std::array<tpt::Segment, 1 + std::tuple_size_v<decltype(data.segments)>> list;
  list[0] = {reinterpret_cast<uint64_t>(&header), sizeof(header), 0, true};
  std::copy_n(data.segments.begin(), data.count, list.begin() + 1);
  uint32_t qkey = prm::av::own_qkey::get(to) != 0 ? qp.attr.qkey : to.qkey.host();
  Datagram d{qp.qpn.value(),
             qkey,
             has_imm(wqe),
             wqe.imm_raw,
             wqe.solicited(),
             data.total,
             {{list.data(), data.count + 1}, need},
             grh,
             link.context->addresses->lid,
             static_cast<uint8_t>(roce ? 0 : to.stat_rate_sl & 0xf)};
  return route(link, qp, wqe, {to, filter}, d) ? Verdict::done() : Verdict::wire_full();
}

}  // namespace

bool handle_datagram(RoceLink& link, uint32_t port, const RocePacket& p) noexcept {
  std::array<std::byte, sizeof(prm::GrhSeg)> header{};
  std::copy(p.ip.begin(), p.ip.end(), header.end() - static_cast<std::ptrdiff_t>(p.ip.size()));
  tpt::Segment content[] = {
      {reinterpret_cast<uint64_t>(header.data()), header.size(), 0, true},
      {reinterpret_cast<uint64_t>(p.payload.data()), p.payload.size(), 0, true},
  };
  Datagram d{p.src_qpn,
             p.qkey,
             (p.flags & roce::flag::imm) != 0,
             p.imm_raw,
             p.solicited,
             p.payload.size(),
             {content, {}},
             true,
             0,
             0};
  if (is_group_gid(p.dgid))
    return p.dest_qpn == any_group_member && deliver_to_group(link, p.dgid, d);
  wq::Qp* qp = link.qps->at(p.dest_qpn);
  if (qp == nullptr || qp->type != QpType::ud)
    return p.dest_qpn == gsi_qpn && handle_gsi(link, port, p);
  deliver(*link.context, *qp, d);
  return true;
}

Verdict exec_datagram(RoceLink& link, wq::Qp& qp, const wq::SendWqe& wqe,
                      const LocalFilter* filter) noexcept {
  return send(link, qp, wqe, filter);
}

}  // namespace kilim::vhca::transport
