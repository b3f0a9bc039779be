// SPDX-License-Identifier: BSD-3-Clause
// What an ethdev tells of itself: descriptors, statistics, types of packets, queues, versions; and
// that it says so where it has nothing to tell.
#include <set>

#include "ethdev_cases.hh"

namespace ethdev_tellers_ut {
namespace {

using namespace kilim::test;

int rx_at(EthPair& p, uint16_t offset) {
  return rte_eth_rx_descriptor_status(p.near.id, 0, offset);
}
int tx_at(EthPair& p, uint16_t offset) {
  return rte_eth_tx_descriptor_status(p.near.id, 0, offset);
}

// As many frames wait at `near` as were sent, though nobody calls its bursts.
void send_and_wait(EthPair& p, uint32_t frames) {
  for (uint32_t n = 0; n < frames; n++) p.far.send(frame_of(100, n));
  int waiting = 0;
  for (int turn = 0; turn < 1000 && waiting < static_cast<int>(frames); turn++) {
    (void)rte_eth_tx_burst(p.far.id, 0, nullptr, 0);
    waiting = rte_eth_rx_queue_count(p.near.id, 0);
  }
  EQUAL_FATAL(waiting, frames);
}

void take(EthPair& p, uint16_t frames) {
  rte_mbuf* got[32];
  EQUAL_FATAL(rte_eth_rx_burst(p.near.id, 0, got, frames), frames);
  rte_pktmbuf_free_bulk(got, frames);
}

// Offset 0 is the next packet to be received.
void receive_descriptors_are_told() {
  EthPair p;
  EQUAL_FATAL(p.start({}), 0);
  EQUAL(rx_at(p, 0), RTE_ETH_RX_DESC_AVAIL);
  EQUAL(rx_at(p, 127), RTE_ETH_RX_DESC_AVAIL);
  EQUAL(rx_at(p, 128), -EINVAL);
  send_and_wait(p, 5);
  for (uint16_t i = 0; i < 5; i++) EQUAL(rx_at(p, i), RTE_ETH_RX_DESC_DONE);
  EQUAL(rx_at(p, 5), RTE_ETH_RX_DESC_AVAIL);
  take(p, 3);
  EQUAL(rx_at(p, 1), RTE_ETH_RX_DESC_DONE);
  EQUAL(rx_at(p, 2), RTE_ETH_RX_DESC_AVAIL);
  // Held by the driver until it gives back a row.
  EQUAL(rx_at(p, 124), RTE_ETH_RX_DESC_AVAIL);
  for (uint16_t i = 125; i < 128; i++) EQUAL(rx_at(p, i), RTE_ETH_RX_DESC_UNAVAIL);
  EQUAL(rte_eth_dev_rx_queue_stop(p.near.id, 0), 0);
  EQUAL(rx_at(p, 0), RTE_ETH_RX_DESC_UNAVAIL);
}

// Entries of a block that is half received are counted from where the receiving stands.
void descriptors_of_shared_entries_are_told() {
  EthPair p(",rxq_cqe_comp_en=1");
  EQUAL_FATAL(p.start({}), 0);
  send_and_wait(p, 40);
  for (uint16_t left = 37; left > 3; left = static_cast<uint16_t>(left - 3)) {
    take(p, 3);
    EQUAL(rte_eth_rx_queue_count(p.near.id, 0), left);
    for (uint16_t i = 0; i < left; i++) EQUAL_FATAL(rx_at(p, i), RTE_ETH_RX_DESC_DONE);
    EQUAL(rx_at(p, left), RTE_ETH_RX_DESC_AVAIL);
  }
}

// Offset 0 is the place of the next packet: it is free as long as the queue takes one, and packets
// under way lie at the far end.
void transmit_descriptors_are_told() {
  EthPair p;
  EQUAL_FATAL(p.start({}), 0);
  for (uint16_t i = 0; i < 128; i++) EQUAL(tx_at(p, i), RTE_ETH_TX_DESC_DONE);
  EQUAL(tx_at(p, 128), -EINVAL);
  // `far` takes nothing: the cable fills, then the queue.
  uint32_t sent = 0;
  for (int idle = 0; idle < 50; idle++) {
    rte_mbuf* burst[8];
    for (rte_mbuf*& m : burst) m = p.near.load(frame_of(100, 0));
    const uint16_t n = rte_eth_tx_burst(p.near.id, 0, burst, 8);
    rte_pktmbuf_free_bulk(burst + n, 8u - n);
    sent += n;
    if (n != 0) idle = 0;
    EQUAL_FATAL(sent < 200000, true);
  }
  for (uint16_t i = 0; i < 128; i++) EQUAL(tx_at(p, i), RTE_ETH_TX_DESC_FULL);
  uint32_t between = 0;
  for (uint16_t turn = 0, free = 0; turn < 60000 && free < 128; turn++) {
    rte_mbuf* burst[4];
    rte_pktmbuf_free_bulk(burst, rte_eth_rx_burst(p.far.id, 0, burst, 4));
    // Nothing but asking makes `near` go on, and any question may: from the far end what is free
    // stays so. A full wire is tried again by time (roce_port.cc, roce_begin()).
    free = 128;
    while (free > 0 && tx_at(p, static_cast<uint16_t>(free - 1)) == RTE_ETH_TX_DESC_FULL) free--;
    for (uint16_t i = 0; i < free; i++) EQUAL_FATAL(tx_at(p, i), RTE_ETH_TX_DESC_DONE);
    between += free != 0 && free != 128;
  }
  CU_ASSERT_TRUE(between > 0);
  EQUAL(tx_at(p, 127), RTE_ETH_TX_DESC_DONE);
  EQUAL(rte_eth_dev_tx_queue_stop(p.near.id, 0), 0);
  EQUAL(tx_at(p, 0), RTE_ETH_TX_DESC_UNAVAIL);
}

// By names, by numbers and in sums: the same; and 0 after a reset.
void statistics_are_told_three_ways() {
  EthPair p;
  EQUAL_FATAL(p.start({.queues = 2, .rss = RTE_ETH_RSS_NONFRAG_IPV4_UDP}), 0);
  uint64_t bytes = 0, each[2] = {};
  p.queue_of.clear();
  for (uint32_t n = 0; n < 20; n++) {
    Bytes frame = frame_of(100 + n, n);
    put16(frame, l4_of(udp4), n);
    bytes += frame.size();
    p.far.send(frame);
    p.near.send(frame);
  }
  for (rte_mbuf* m : p.receive(p.near, 20, 2)) rte_pktmbuf_free(m);
  for (const uint16_t q : p.queue_of) each[q]++;
  rte_eth_stats stats{};
  EQUAL(rte_eth_stats_get(p.near.id, &stats), 0);
  EQUAL(stats.ipackets, 20);
  EQUAL(stats.ibytes, bytes);
  EQUAL(stats.opackets, 20);
  EQUAL(stats.obytes, bytes);
  EQUAL(stats.imissed + stats.ierrors + stats.oerrors + stats.rx_nombuf, 0);
  for (std::size_t q = 0; q < 2; q++) EQUAL(stats.q_ipackets[q], each[q]);
  EQUAL(xstat(p.near, "rx_good_packets"), 20);
  EQUAL(xstat(p.near, "tx_good_bytes"), bytes);
  EQUAL(xstat(p.near, "rx_q1_packets"), each[1]);

  const int all = rte_eth_xstats_get_names(p.near.id, nullptr, 0);
  CU_ASSERT_TRUE_FATAL(all > 20);
  std::vector<rte_eth_xstat_name> names(static_cast<std::size_t>(all));
  std::vector<rte_eth_xstat> values(names.size());
  EQUAL(rte_eth_xstats_get_names(p.near.id, names.data(), static_cast<unsigned>(all)), all);
  EQUAL(rte_eth_xstats_get(p.near.id, values.data(), static_cast<unsigned>(all)), all);
  std::set<std::string> different;
  for (std::size_t i = 0; i < names.size(); i++) {
    different.insert(names[i].name);
    EQUAL(values[i].id, i);
    EQUAL(xstat(p.near, names[i].name), values[i].value);
  }
  EQUAL(different.size(), names.size());
  EQUAL(rte_eth_stats_reset(p.near.id), 0);
  EQUAL(rte_eth_xstats_reset(p.near.id), 0);
  for (const rte_eth_xstat_name& n : names) EQUAL(xstat(p.near, n.name), 0);
  EQUAL(rte_eth_stats_get(p.near.id, &stats), 0);
  EQUAL(stats.ipackets + stats.obytes + stats.q_ipackets[1], 0);
}

// Frames of all kinds have the types that are told, together all of them.
void types_of_packets_are_those_told() {
  EthPair p;
  EQUAL_FATAL(p.start({.rss = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_LEVEL_INNERMOST}), 0);
  uint32_t told[16];
  const int n = rte_eth_dev_get_supported_ptypes(p.near.id, RTE_PTYPE_ALL_MASK, told, 16);
  CU_ASSERT_TRUE_FATAL(n > 0);
  CU_ASSERT_TRUE_FATAL(n <= 16);
  FrameSpec fragment{.fragment = 0x2000};
  constexpr uint32_t outside = RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4_EXT_UNKNOWN;
  constexpr uint32_t in4 = outside | RTE_PTYPE_INNER_L3_IPV4_EXT_UNKNOWN;
  constexpr uint32_t in6 = outside | RTE_PTYPE_INNER_L3_IPV6_EXT_UNKNOWN;
  Bytes no_ip = make_frame(udp4), gre = make_frame(udp4);
  put16(no_ip, 12, 0x88b5);
  gre[l3_of(udp4) + 9] = std::byte{47};
  const std::pair<Bytes, uint32_t> rows[] = {
      {make_frame(tcp4), RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4_EXT_UNKNOWN | RTE_PTYPE_L4_TCP},
      {make_frame(udp4), RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4_EXT_UNKNOWN | RTE_PTYPE_L4_UDP},
      {make_frame(tcp6), RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV6_EXT_UNKNOWN | RTE_PTYPE_L4_TCP},
      {make_frame(udp6), RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV6_EXT_UNKNOWN | RTE_PTYPE_L4_UDP},
      {make_frame(fragment),
       RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4_EXT_UNKNOWN | RTE_PTYPE_L4_FRAG},
      {gre, RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4_EXT_UNKNOWN | RTE_PTYPE_L4_NONFRAG},
      {no_ip, RTE_PTYPE_L2_ETHER},
      {in_vxlan(make_frame(tcp4)), in4 | RTE_PTYPE_INNER_L4_TCP},
      {in_vxlan(make_frame(udp6)), in6 | RTE_PTYPE_INNER_L4_UDP},
      {in_vxlan(make_frame(fragment)), in4 | RTE_PTYPE_INNER_L4_FRAG},
      {in_vxlan(gre), in4 | RTE_PTYPE_INNER_L4_NONFRAG},
      {in_vxlan(no_ip), outside},
  };
  std::set<uint32_t> seen;
  for (const auto& [frame, type] : rows) {
    p.far.send(frame);
    rte_mbuf* const m = p.receive_one(p.near);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    EQUAL(m->packet_type, type);
    for (const uint32_t part : {RTE_PTYPE_L2_MASK, RTE_PTYPE_L3_MASK, RTE_PTYPE_L4_MASK,
                                RTE_PTYPE_INNER_L3_MASK, RTE_PTYPE_INNER_L4_MASK})
      if ((m->packet_type & part) != 0) seen.insert(m->packet_type & part);
    rte_pktmbuf_free(m);
  }
  EQUAL(seen == std::set<uint32_t>(told, told + n), true);
}

void queues_tell_how_they_were_set_up() {
  EthPair p;
  PortAsk ask{.rx = RTE_ETH_RX_OFFLOAD_SCATTER, .tx_queue = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE};
  ask.descriptors = 200;
  EQUAL_FATAL(p.near.configure(ask), 0);
  rte_eth_burst_mode mode{};
  EQUAL(rte_eth_tx_burst_mode_get(p.near.id, 0, &mode), -EINVAL);  // no queue yet
  EQUAL_FATAL(p.start(ask), 0);
  rte_eth_rxq_info rx{};
  rte_eth_txq_info tx{};
  EQUAL(rte_eth_rx_queue_info_get(p.near.id, 0, &rx), 0);
  EQUAL(rte_eth_tx_queue_info_get(p.near.id, 0, &tx), 0);
  EQUAL(rx.mp, p.pool);
  EQUAL(rx.nb_desc, 200);
  EQUAL(rx.rx_buf_size, RTE_MBUF_DEFAULT_DATAROOM);
  EQUAL(rx.conf.offloads, RTE_ETH_RX_OFFLOAD_SCATTER);
  EQUAL(rx.scattered_rx, 0);
  EQUAL(rx.queue_state, RTE_ETH_QUEUE_STATE_STARTED);
  EQUAL(tx.nb_desc, 200);
  EQUAL(tx.conf.offloads, RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE);
  EQUAL(tx.queue_state, RTE_ETH_QUEUE_STATE_STARTED);
  EQUAL(rte_eth_tx_burst_mode_get(p.near.id, 0, &mode), 0);
  EQUAL(std::string(mode.info), "Several packets a WQE");
  EQUAL(rte_eth_rx_burst_mode_get(p.near.id, 0, &mode), 0);
  EQUAL(std::string(mode.info), "Scalar, runs the device");
  EQUAL(rte_eth_dev_rx_queue_stop(p.near.id, 0), 0);
  EQUAL(rte_eth_rx_queue_info_get(p.near.id, 0, &rx), 0);
  EQUAL(rx.queue_state, RTE_ETH_QUEUE_STATE_STOPPED);
  ask.mtu = 5000;
  EQUAL_FATAL(p.start(ask), 0);
  EQUAL(rte_eth_rx_queue_info_get(p.near.id, 0, &rx), 0);
  EQUAL(rx.scattered_rx, 1);
}

// What a port has no answer to is -ENOTSUP, as DPDK's drivers have it; nothing ends the process,
// in any state of the port.
void what_a_port_has_not_is_not_supported(EthPort& port) {
  const uint16_t id = port.id;
  rte_eth_dev_module_info module{};
  rte_dev_eeprom_info eeprom{};
  rte_dev_reg_info registers{};
  rte_eth_fc_conf flow_control{};
  rte_eth_pfc_conf priority_control{};
  rte_eth_udp_tunnel tunnel{.udp_port = 4789, .prot_type = RTE_ETH_TUNNEL_TYPE_VXLAN};
  rte_eth_hairpin_cap hairpin{};
  rte_eth_dcb_info dcb{};
  rte_eth_representor_info representors{};
  timespec now{};
  uint32_t fec = 0;
  const int answers[] = {
      rte_eth_dev_get_module_info(id, &module),
      rte_eth_dev_get_eeprom_length(id),
      rte_eth_dev_get_eeprom(id, &eeprom),
      rte_eth_dev_get_reg_info(id, &registers),
      rte_eth_led_on(id),
      rte_eth_led_off(id),
      rte_eth_dev_flow_ctrl_get(id, &flow_control),
      rte_eth_dev_flow_ctrl_set(id, &flow_control),
      rte_eth_dev_priority_flow_ctrl_set(id, &priority_control),
      rte_eth_dev_udp_tunnel_port_add(id, &tunnel),
      rte_eth_dev_uc_all_hash_table_set(id, 1),
      rte_eth_set_queue_rate_limit(id, 0, 10),
      rte_eth_dev_set_link_up(id),
      rte_eth_dev_set_link_down(id),
      rte_eth_dev_set_vlan_pvid(id, 1, 1),
      rte_eth_dev_set_vlan_ether_type(id, RTE_ETH_VLAN_TYPE_OUTER, 0x88a8),
      rte_eth_dev_set_rx_queue_stats_mapping(id, 0, 0),
      rte_eth_dev_get_dcb_info(id, &dcb),
      rte_eth_timesync_enable(id),
      rte_eth_timesync_read_time(id, &now),
      rte_eth_fec_get(id, &fec),
      rte_eth_dev_hairpin_capability_get(id, &hairpin),
      rte_eth_representor_info_get(id, &representors),
      rte_eth_dev_priv_dump(id, stdout),
      rte_eth_rx_avail_thresh_set(id, 0, 10),
  };
  for (std::size_t i = 0; i < std::size(answers); i++) {
    if (answers[i] != -ENOTSUP) std::printf("answer %zu is %d\n", i, answers[i]);
    EQUAL(answers[i], -ENOTSUP);
  }
  EQUAL(rte_eth_dev_pool_ops_supported(id, "ring_mp_mc"), 1);  // any is
}

void answers_need_no_started_port() {
  EthPair p;
  rte_eth_link link{};
  char text[64];
  EQUAL(rte_eth_link_get_nowait(p.near.id, &link), 0);
  EQUAL(link.link_status, RTE_ETH_LINK_UP);
  EQUAL(rte_eth_dev_fw_version_get(p.near.id, text, sizeof text), 0);
  CU_ASSERT_TRUE(std::strncmp(text, "vhca", 4) == 0);
  const int needed = rte_eth_dev_fw_version_get(p.near.id, nullptr, 0);
  EQUAL(needed, std::strlen(text) + 1);
  EQUAL(rte_eth_dev_fw_version_get(p.near.id, text, static_cast<std::size_t>(needed - 1)), needed);
  uint64_t ticks = 0, later = 0;
  EQUAL(rte_eth_read_clock(p.near.id, &ticks), 0);
  EQUAL(rte_eth_read_clock(p.near.id, &later), 0);
  CU_ASSERT_TRUE(later >= ticks);
  EQUAL_FATAL(p.near.configure({}), 0);
  EQUAL_FATAL(p.near.set_up_rx(0, 0), 0);
  EQUAL_FATAL(p.near.set_up_tx(0, 0), 0);
  EQUAL(rte_eth_tx_done_cleanup(p.near.id, 0, 0), 0);
  CU_ASSERT_TRUE(rte_eth_dev_rx_intr_enable(p.near.id, 0) < 0);
  EQUAL(rte_eth_dev_rx_queue_start(p.near.id, 0), -EINVAL);
  what_a_port_has_not_is_not_supported(p.near);
  EQUAL_FATAL(p.start({}), 0);
  what_a_port_has_not_is_not_supported(p.near);
  EQUAL(rte_eth_dev_stop(p.near.id), 0);
  EQUAL(rte_eth_tx_done_cleanup(p.near.id, 0, 0), 0);
}

const Case of_tellers[] = {
    {"receive descriptors are told", receive_descriptors_are_told},
    {"descriptors of shared entries are told", descriptors_of_shared_entries_are_told},
    {"transmit descriptors are told", transmit_descriptors_are_told},
    {"statistics are told by name, by number and in sums", statistics_are_told_three_ways},
    {"types of packets are those told", types_of_packets_are_those_told},
    {"queues tell how they were set up", queues_tell_how_they_were_set_up},
    {"answers need no started port, and what it has not is not supported",
     answers_need_no_started_port},
};

}  // namespace
}  // namespace ethdev_tellers_ut

const std::span<const kilim::test::Case> kilim::test::ethdev_tellers =
    ethdev_tellers_ut::of_tellers;
