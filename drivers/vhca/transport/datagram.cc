// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Unreliable Datagram". Adapter's lock held. Never allocates.
#include "vhca/transport/datagram.hh"

#include <algorithm>
#include <array>
#include <cstring>

#include "kilim/base/units.hh"
#include "kilim/prm/av_seg.hh"
#include "vhca/hca/journal.hh"
#include "vhca/hca/modify_qp.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/qp_error.hh"
#include "vhca/wq/recv.hh"

namespace kilim::vhca {

namespace {

using prm::Opcode;
using prm::Syndrome;

constexpr uint64_t port_mtu = 4096;
constexpr uint32_t any_group_member = 0xffffff;
// What the wire puts around the data of RoCE v2 behind the IP header: UDP, BTH, DETH, ICRC.
constexpr uint32_t wire_headers = 8 + 12 + 8 + 4;

struct Datagram {
  const SendWqe& wqe;
  uint32_t from_qpn;
  uint32_t qkey;
  uint64_t bytes;
  SegmentList local;  // the header, then the sender's data
};

prm::GrhSeg header_of(const prm::AvSeg& to, const Gid& own, const SendWqe& wqe, uint64_t bytes) {
  prm::GrhSeg h{};
  h.version_class_label =
      be32{6u << 28 | static_cast<uint32_t>(to.tclass) << 20 | prm::av::flow_label::get(to)};
  uint32_t imm = wqe.opcode == static_cast<uint8_t>(Opcode::send_imm) ? 4 : 0;
  uint32_t padded = round_up(static_cast<uint32_t>(bytes), 4);
  h.payload_bytes = be16{static_cast<uint16_t>(wire_headers + imm + padded)};
  h.next_header = 17;  // UDP
  h.hop_limit = to.hop_limit;
  std::memcpy(h.sgid, own.data(), sizeof(h.sgid));
  std::memcpy(h.dgid, to.rgid, sizeof(h.dgid));
  return h;
}

bool receives(const Qp& qp, uint32_t qkey) noexcept {
  bool ready = qp.state == QpState::rtr || qp.state == QpState::rts || qp.state == QpState::sqd;
  return qp.type == QpType::ud && ready && qp.attr.qkey == qkey;
}

void deliver(Works& works, Qp& qp, const Datagram& d) noexcept {
  if (!receives(qp, d.qkey)) return;
  RecvWqe wqe;
  RecvTake take = peek_recv(works, qp, wqe);
  if (take == RecvTake::fault) return fatal_qp(works, qp, "the receive ring is gone");
  if (take == RecvTake::empty) return;
  uint64_t bytes = sizeof(prm::GrhSeg) + d.bytes;
  if (bytes > wqe.room)
    return fail_recv(works, qp, wqe.index, Syndrome::local_length,
                     "datagram and header longer than the receive WQE");
  SegmentList to{{wqe.segments.data(), wqe.count}, recv_access(qp)};
  Transfer t = move_bytes(works.translator, d.local, to, bytes);
  if (t.source != Deny::none) return;  // checked before; the sender took its memory away meanwhile
  if (t.target != Deny::none)
    return fail_recv(works, qp, wqe.index, Syndrome::local_prot, deny_name(t.target));
  if (wqe.count > 0) works.journal->translated(wqe.segments[0].key, t.pieces, bytes);
  consume_recv(works, qp);
  RecvCompletion done;
  bool imm = d.wqe.opcode == static_cast<uint8_t>(Opcode::send_imm);
  done.op = imm ? prm::CqeOpcode::resp_send_imm : prm::CqeOpcode::resp_send;
  done.wqe_index = wqe.index;
  done.bytes = static_cast<uint32_t>(bytes);
  done.imm_raw = imm ? d.wqe.imm_raw : 0;
  done.remote_qpn = d.from_qpn;
  done.solicited = d.wqe.solicited();
  done.grh = true;
  if (!complete_recv(works, qp, done)) fatal_qp(works, qp, "the CQ of a receive queue is in error");
}

void route(HcaState& h, const prm::AvSeg& to, const Datagram& d) noexcept {
  Gid gid;
  std::memcpy(gid.data(), to.rgid, gid.size());
  if (gid[0] == 0xff) {
    for (const GroupMember& m : h.groups) {
      if (m.gid == gid && prm::av::qpn::get(to) == any_group_member) deliver(h.works, *m.qp, d);
    }
    return;
  }
  Gid own;
  for (uint32_t i = 0; port_gid(h.config.mac, i, own); i++) {
    if (own != gid) continue;
    if (Qp* qp = h.qps.at(prm::av::qpn::get(to))) deliver(h.works, *qp, d);
    return;
  }
}

Outcome malformed(const char* why) noexcept {
  return Outcome::failed(Syndrome::local_qp_op, why);
}

Outcome send(HcaState& h, Qp& qp, const SendWqe& wqe) noexcept {
  prm::AvSeg to;
  DataList data;
  if (wqe.body().size() < sizeof(to)) return malformed("WQE shorter than its address");
  std::memcpy(&to, wqe.body().data(), sizeof(to));
  if (prm::av::extended::get(to) == 0) return malformed("an address without its second half");
  if (!decode_data(wqe.body(), sizeof(to), data)) return malformed("data segments beyond the WQE");
  Gid own;
  if (!port_gid(h.config.mac, prm::av::gid_index::get(to), own))
    return malformed("no such source GID");
  if (data.total > port_mtu) return Outcome::failed(Syndrome::local_length, "longer than the MTU");
  Access need{qp.spec.pd, qp.qpn.value(), prm::mkey::local_read};
  uint32_t bad_key = 0;
  Deny denied = check_list(h.works.translator, {{data.segments.data(), data.count}, need},
                           data.total, bad_key);
  if (denied != Deny::none) return Outcome::failed(Syndrome::local_prot, deny_name(denied));
  prm::GrhSeg header = header_of(to, own, wqe, data.total);
  std::array<Segment, 1 + std::tuple_size_v<decltype(data.segments)>> list;
  list[0] = {reinterpret_cast<uint64_t>(&header), sizeof(header), 0, true};
  std::copy_n(data.segments.begin(), data.count, list.begin() + 1);
  uint32_t qkey = prm::av::own_qkey::get(to) != 0 ? qp.attr.qkey : to.qkey.host();
  route(h, to, {wqe, qp.qpn.value(), qkey, data.total, {{list.data(), data.count + 1}, need}});
  return Outcome::done();
}

}  // namespace

Outcome exec_ud(HcaState& h, Qp& qp, const SendWqe& wqe) noexcept {
  switch (static_cast<Opcode>(wqe.opcode)) {
    case Opcode::nop:
      return Outcome::done();
    case Opcode::send:
    case Opcode::send_imm:
      return send(h, qp, wqe);
    default:
      return malformed("an opcode that the queue does not know");
  }
}

}  // namespace kilim::vhca
