// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Send WQE Format for Ethernet". Executes the send WQEs of raw packet queues that hold whole
// packets: one (SEND), or many (enhanced multi-packet WQEs). Adapter's lock held. Never allocates;
// a WQE is untrusted.
#include "vhca/ethernet/eth_form.hh"
#include "vhca/ethernet/frame_out.hh"

namespace kilim::vhca::ethernet {

Verdict eth_exec_send(EthState& eth, wq::Qp& qp, const wq::SendWqe& wqe) noexcept {
  EthForm form;
  if (!read_form(*eth.context, wqe, form)) return refuse_packet(prm::Syndrome::local_qp_op);
  if (!has_beginning(*eth.context->profile, form))
    return refuse_packet(prm::Syndrome::local_length, hardware::no_inline_headers);
  const wq::DataList& list = form.data;
  return send_frame(
      eth, qp, {form.head, {list.segments.data(), list.count}, list.total, form.ask, form.tag});
}

// Linux mlx5e_tx_mpwqe_session_start, mlx5e_tx_mpwqe_add_dseg (en_tx.c); DPDK mlx5_tx_burst_empw_*
// (mlx5_tx.h): nobody has an inline header or a tag to put in there.
Verdict eth_exec_packets(EthState& eth, wq::Qp& qp, const wq::SendWqe& wqe) noexcept {
  if (!eth.context->profile->multi_packet_send)
    return malformed("the profile offers no multi-packet WQEs");
  EthForm form;
  const wq::DataList& list = form.data;
  if (!read_form(*eth.context, wqe, form) || !form.head.empty() || form.tag != 0 || list.count == 0)
    return malformed("a multi-packet WQE that cannot be read");
  // A first try begins with the first packet, whatever an earlier WQE was stopped at.
  uint32_t next = qp.retrying ? qp.sq.packets_out : 0;
  for (; next < list.count; next++) {
    const tpt::Segment& s = list.segments[next];
    Verdict v = send_frame(eth, qp, {{}, {&s, 1}, s.bytes, form.ask});
    if (v.ok()) continue;
    qp.sq.packets_out = next;
    return v;
  }
  return {};
}

}  // namespace kilim::vhca::ethernet
