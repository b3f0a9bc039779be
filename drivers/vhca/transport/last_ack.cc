// SPDX-License-Identifier: BSD-3-Clause
// Last acknowledgements. Adapter's lock held. Never allocates.
#include "vhca/transport/last_ack.hh"

#include <algorithm>

#include "vhca/transport/responder_checks.hh"

namespace kilim::vhca::transport {

namespace {
constexpr uint8_t times = 3;
}

void remember_last_ack(RoceLink& link, const wq::Qp& qp) noexcept {
  wire::Wire* wire = link.wire_of(qp);
  bool reliable = qp.rc && qp.type != QpType::uc;
  if (!reliable || !answers(qp) || qp.rc->msn == 0 || wire == nullptr) return;
  RocePacket p =
      packet_of(qp, roce::Op::acknowledge, roce::psn_add(qp.rc->expected_psn, roce::psn_mask));
  p.ack_value = roce::aeth::no_credit_count;
  p.msn = qp.rc->msn;
  std::size_t bytes = build_packet(link, qp, p, 0);
  LastAck& place = link.last_acks[link.next_last_ack++ % link.last_acks.size()];
  if (bytes == 0 || bytes > place.frame.size()) return;
  link.goodbyes += times;
  link.goodbyes -= place.left;  // the oldest gives way
  std::copy_n(link.frame.begin(), bytes, place.frame.begin());
  place.wire = wire;
  place.bytes = static_cast<uint8_t>(bytes);
  place.left = times;
}

std::size_t send_last_acks(RoceLink& link) noexcept {
  std::size_t sent = 0;
  if (link.goodbyes == 0) return 0;
  for (LastAck& p : link.last_acks) {
    if (p.left == 0) continue;
    if (!send_out(link, *p.wire, {p.frame.data(), p.bytes})) break;
    p.left--;
    link.goodbyes--;
    sent++;
  }
  return sent;
}

}  // namespace kilim::vhca::transport
