// SPDX-License-Identifier: BSD-3-Clause
#include "raw_packets.hh"

#include <algorithm>
#include <cerrno>

#include "kilim/prm/eth_seg.hh"

namespace kilim::exam {

Queue make_raw_queue(const Device& device, const QpWish& wish) {
  if (!device.ethernet) device.answer->not_run("the port is InfiniBand: it has no raw packets");
  QpWish raw = wish;
  raw.type = IBV_QPT_RAW_PACKET;
  raw.mlx5_flags |=
      MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC | MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_MC;
  Queue q = make_queue(device, raw);
  if (const int rc = connect(device, q, {device}); rc != 0)
    give_up(*device.answer, "a raw packet queue does not become ready", rc);
  return q;
}

int lay_rule(Queue& q, const RuleWish& wish) {
  struct {
    ibv_flow_attr attr;
    ibv_flow_spec_eth eth;
  } rule{};
  const bool normal = wish.kind == RuleWish::Kind::normal;
  rule.attr.type = normal ? IBV_FLOW_ATTR_NORMAL : IBV_FLOW_ATTR_ALL_DEFAULT;
  rule.attr.size = normal ? sizeof rule : sizeof rule.attr;
  rule.attr.num_of_specs = normal ? 1 : 0;
  rule.attr.port = 1;
  rule.attr.priority = wish.priority;
  rule.eth.type = IBV_FLOW_SPEC_ETH;
  rule.eth.size = sizeof rule.eth;
  if (wish.mac) {
    std::copy(wish.mac->begin(), wish.mac->end(), rule.eth.val.dst_mac);
    std::fill_n(rule.eth.mask.dst_mac, wish.mac->size(), uint8_t{0xff});
  }
  if (wish.ethertype) {
    rule.eth.val.ether_type = __builtin_bswap16(exam_ethertype);
    rule.eth.mask.ether_type = 0xffff;
  }
  errno = 0;
  ibv_flow* made = ibv_create_flow(q.qp, &rule.attr);
  if (made == nullptr) return errno == 0 ? EINVAL : errno;
  q.rules.push_back(made);
  return 0;
}

std::vector<uint8_t> frame_of(const Mac& to, const Mac& from, std::size_t bytes, uint8_t number) {
  constexpr std::size_t header = 14;
  std::vector<uint8_t> frame(header + bytes);
  std::copy(to.begin(), to.end(), frame.begin());
  std::copy(from.begin(), from.end(), frame.begin() + 6);
  frame[12] = exam_ethertype >> 8;
  frame[13] = exam_ethertype & 0xff;
  for (std::size_t i = 0; i < bytes; i++) frame[header + i] = static_cast<uint8_t>(i + number);
  return frame;
}

Wqe raw_send(const std::vector<uint8_t>& frame) {
  prm::EthSeg eth{};
  eth.inline_hdr_sz = be16{inlined};
  std::copy_n(frame.begin(), 2, eth.inline_hdr_start);
  Wqe wqe{.opcode = MLX5_OPCODE_SEND, .body = {}};
  return wqe.add(eth).add_bytes(frame.data() + 2, inlined - 2);
}

RawPort::RawPort(const Setting& setting, Answer& answer, const QpWish& wish)
    : d(open_device(setting, answer)),
      mac(port_mac(d)),
      q(make_raw_queue(d, wish)),
      out(d.pages(frame_room * 2)),
      in(d.pages(frame_room * 64)),
      mr_out(d.reg(out, frame_room * 2)),
      mr_in(d.reg(in, frame_room * 64)) {}

void RawPort::listen(Answer& answer) {
  if (const int rc = lay_rule(q, {.mac = mac, .ethertype = true}); rc != 0)
    give_up(answer, "a flow rule of the port's own address is refused", rc);
}

Wqe RawPort::whole(const std::vector<uint8_t>& frame) const {
  std::copy(frame.begin(), frame.end(), out);
  return raw_send(frame).data(out + inlined, static_cast<uint32_t>(frame.size() - inlined),
                              mr_out->lkey);
}

}  // namespace kilim::exam
