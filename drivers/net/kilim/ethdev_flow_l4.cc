// SPDX-License-Identifier: BSD-3-Clause
// From rte_flow's items of the layer above IP to a rule's: TCP, UDP, ICMP, ESP. For
// ethdev_flow.cc, on the caller's thread; pure functions, which never touch a device.
#include <type_traits>

#include <netinet/in.h>

#include "net/kilim/ethdev_flow_items.hh"

namespace kilim::net {
namespace {

template <typename T>
FlowRefusal read_ports(const rte_flow_item& item, std::optional<flow::Ports>& ports) {
  T usual{};
  usual.hdr.src_port = usual.hdr.dst_port = 0xffff;
  Words<T> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  ports.emplace();
  ports->src = number_of(w.value.hdr.src_port, w.mask.hdr.src_port);
  ports->dst = number_of(w.value.hdr.dst_port, w.mask.hdr.dst_port);
  w.mask.hdr.src_port = w.mask.hdr.dst_port = 0;
  if constexpr (std::is_same_v<T, rte_flow_item_tcp>) {
    const flow::Masked<uint8_t> flags = number_of(w.value.hdr.tcp_flags, w.mask.hdr.tcp_flags);
    ports->flags = {flags.value, flags.mask};
    w.mask.hdr.tcp_flags = 0;
  }
  return all_read(item, w.mask);
}

}  // namespace

FlowRefusal read_tcp(const rte_flow_item& item, flow::Match& match) {
  return read_ports<rte_flow_item_tcp>(item, match.tcp);
}

FlowRefusal read_udp(const rte_flow_item& item, flow::Match& match) {
  return read_ports<rte_flow_item_udp>(item, match.udp);
}

// An item without fields is the protocol's number.
FlowRefusal read_icmp4(const rte_flow_item& item, flow::Match& match) {
  rte_flow_item_icmp usual{};
  usual.hdr.icmp_type = usual.hdr.icmp_code = 0xff;
  Words<rte_flow_item_icmp> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  if (!match.ipv4)
    return {EINVAL, RTE_FLOW_ERROR_TYPE_ITEM, &item, "icmp is behind ipv4, icmp6 behind ipv6"};
  if (FlowRefusal r = name_protocol(item, match, IPPROTO_ICMP); r.code != 0) return r;
  rte_icmp_hdr &v = w.value.hdr, &m = w.mask.hdr;
  const flow::Icmp icmp{.type = number_of(v.icmp_type, m.icmp_type),
                        .code = number_of(v.icmp_code, m.icmp_code),
                        .ident = number_of(v.icmp_ident, m.icmp_ident),
                        .sequence = number_of(v.icmp_seq_nb, m.icmp_seq_nb)};
  if (icmp != flow::Icmp{}) match.icmp = icmp;
  m.icmp_type = m.icmp_code = 0;
  m.icmp_ident = m.icmp_seq_nb = 0;
  return all_read(item, w.mask);
}

FlowRefusal read_icmp6(const rte_flow_item& item, flow::Match& match) {
  rte_flow_item_icmp6 usual{};
  usual.type = usual.code = 0xff;
  Words<rte_flow_item_icmp6> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  if (!match.ipv6)
    return {EINVAL, RTE_FLOW_ERROR_TYPE_ITEM, &item, "icmp is behind ipv4, icmp6 behind ipv6"};
  if (FlowRefusal r = name_protocol(item, match, IPPROTO_ICMPV6); r.code != 0) return r;
  const flow::Icmp icmp{.type = number_of(w.value.type, w.mask.type),
                        .code = number_of(w.value.code, w.mask.code)};
  if (icmp != flow::Icmp{}) match.icmp = icmp;
  w.mask.type = w.mask.code = 0;
  return all_read(item, w.mask);
}

FlowRefusal read_esp(const rte_flow_item& item, flow::Match& match) {
  rte_flow_item_esp usual{};
  usual.hdr.spi = 0xffffffff;
  Words<rte_flow_item_esp> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  // Behind UDP it is behind its own port (DPDK 22.11.11 drivers/net/mlx5/mlx5_flow_dv.c,
  // flow_dv_translate_item_esp()).
  if (match.udp) {
    if (match.udp->dst.mask == 0) match.udp->dst = flow::exactly(flow::port_esp);
  } else if (FlowRefusal r = name_protocol(item, match, IPPROTO_ESP); r.code != 0) {
    return r;
  }
  if (w.mask.hdr.spi != 0)
    match.esp = flow::Esp{.spi = long_number_of(w.value.hdr.spi, w.mask.hdr.spi)};
  w.mask.hdr.spi = 0;
  return all_read(item, w.mask);
}

}  // namespace kilim::net
