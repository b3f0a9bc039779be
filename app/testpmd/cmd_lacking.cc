// SPDX-License-Identifier: BSD-3-Clause
// Words of dpdk-testpmd 22.11's prompt (app/test-pmd/cmdline.c) that this program lacks, so that
// they are named as such.
#include <cstdio>

#include "commands.hh"
#include "session.hh"

namespace kilim::testpmd {
namespace {

void lacks(Session&, const Line& line) {
  std::string words;
  for (std::size_t i = 0; i + line.rest().size() < line.size(); i++)
    words += (i == 0 ? "" : " ") + line.word(i);
  std::fprintf(stderr, "dpdk-testpmd's `%s` is not in kilim-testpmd; help lists what is\n",
               words.c_str());
}

// Without help: `help` does not show them.
constexpr CommandRow lacking_rows[] = {
    {"add|create|remove|del|enable|disable|suspend|resume port|bonded|bonding <rest>", lacks,
     nullptr},
    {"bpf-load|bpf-unload|cleanup|ddp|device|dump_devargs|flow_director_filter|mlx5 <rest>", lacks,
     nullptr},
    {"dump_lcores|dump_log_types|dump_mempool|dump_memzone|dump_physmem <rest>", lacks, nullptr},
    {"dump_ring|dump_socket_mem|dump_struct_sizes <rest>", lacks, nullptr},
    {"flow aged|dump|indirect_action|tunnel|flex_item|push|pull|queue <rest>", lacks, nullptr},
    {"flow info|configure|pattern_template|actions_template|template_table <rest>", lacks, nullptr},
    {"get|get_sym|module_eeprom|ptype|E-tag|read|write|rx_vxlan_port <rest>", lacks, nullptr},
    {"set link-up|link-down|link_check|log|coremask|corelist|default <rest>", lacks, nullptr},
    {"set burst tx <rest>", lacks, nullptr},
    {"set fwd shared_rxq|ieee1588 <rest>", lacks, nullptr},
    {"set fwd io|mac|macswap|flowgen|rxonly|txonly|csum|icmpecho|5tswap|noisy retry", lacks,
     nullptr},
    {"set rxoffs|rxpkts|rxhdrs|txsplit|txtimes|flow_ctrl|pfc_ctrl|pfc_queue_ctrl <rest>", lacks,
     nullptr},
    {"set stat_qmap|xstats-hide-zero|record-core-cycles|record-burst-stats <rest>", lacks, nullptr},
    {"set vf|tx|all|vxlan|vxlan-tos-ttl|vxlan-with-vlan|nvgre|nvgre-with-vlan <rest>", lacks,
     nullptr},
    {"set l2_encap|l2_encap-with-vlan|l2_decap|l2_decap-with-vlan|mplsogre_encap <rest>", lacks,
     nullptr},
    {"set mplsogre_encap-with-vlan|mplsogre_decap|mplsogre_decap-with-vlan <rest>", lacks, nullptr},
    {"set mplsoudp_encap|mplsoudp_encap-with-vlan|mplsoudp_decap|mplsoudp_decap-with-vlan <rest>",
     lacks, nullptr},
    {"set conntrack|raw_encap|raw_decap|sample_actions|flex_pattern|gro|gso <rest>", lacks,
     nullptr},
    {"set macsec|tc|bypass|queue-region|hash_global_config <rest>", lacks, nullptr},
    {"set port|ipv6_ext_push|ipv6_ext_remove|bonding <rest>", lacks, nullptr},
    {"show bypass|vf|device|bonding|flow|meter|raw_encap|raw_decap|ipsec <rest>", lacks, nullptr},
    {"show config rxoffs|rxpkts|rxhdrs|txtimes <rest>", lacks, nullptr},
    {"show|clear port fdir|dcb_tc <rest>", lacks, nullptr},
    {"clear port info|summary <rest>", lacks, nullptr},
    {"show port info <port> representor", lacks, nullptr},
    {"show port meter|tm <rest>", lacks, nullptr},
    {"show port <port> rxq|txq|flow|fec|fec_mode|flow_ctrl|gro|gso|tx_metadata <rest>", lacks,
     nullptr},
    {"show port <port> queue-region|pctype|ptypes|rx_offload|tx_offload|module_eeprom|eeprom "
     "<rest>",
     lacks, nullptr},
    {"clear vf <rest>", lacks, nullptr},
    {"mac_addr add port <rest>", lacks, nullptr},
    {"rx_vlan add|rm <ports> port <rest>", lacks, nullptr},
    {"tunnel_tso <rest>", lacks, nullptr},
    {"csum parse-tunnel <rest>", lacks, nullptr},
    {"vlan set qinq_strip|extend|stripq|inner|outer <rest>", lacks, nullptr},
    {"tx_vlan set pvid <rest>", lacks, nullptr},
    {"tx_vlan set <port> <n> <n>", lacks, nullptr},
    {"port config all speed|loopback|txpt|txht|txwt|rxpt <rest>", lacks, nullptr},
    {"port config all rxht|rxwt|txfreet|txrst|rxfreet <rest>", lacks, nullptr},
    {"port config all rss ether|port|vxlan|geneve|nvgre|vxlan-gpe|tunnel|vlan|gtpu|eth|s-vlan|"
     "c-vlan|esp|ah|l2tpv3|pfcp|pppoe|ecpri|mpls|ipv4-chksum|l4-chksum|l2tpv2|l3-pre96|l3-pre64|"
     "l3-pre56|l3-pre48|l3-pre40|l3-pre32|l2-dst-only|l2-src-only|rsstype_id",
     lacks, nullptr},
    {"port config all rss <n>", lacks, nullptr},
    {"port config dcb|bypass <rest>", lacks, nullptr},
    {"port config <port> speed|loopback|rxq|txq|dcb|udp_tunnel_port <rest>", lacks, nullptr},
    {"port config <port> rss-hash-key <text> <text>", lacks, nullptr},
    {"port config <port> rx_offload|tx_offload|tx_metadata|dynf|pctype|vlan <rest>", lacks,
     nullptr},
    {"port tm|cleanup <rest>", lacks, nullptr},
    {"port <port> rxq|txq <n> setup|deferred_start|rx_offload|tx_offload <rest>", lacks, nullptr},
    {"port <port> txq <n> start|stop", lacks, nullptr},
};

}  // namespace

const Section lacking_commands{nullptr, "", lacking_rows};

}  // namespace kilim::testpmd
