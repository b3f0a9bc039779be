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
constexpr CommandRow rows[] = {
    {"add|create|remove bonding|tm|port <rest>", lacks, nullptr},
    {"bpf-load|bpf-unload|bypass|cleanup|ddp|device|dump_devargs <rest>", lacks, nullptr},
    {"dump_lcores|dump_log_types|dump_mempool|dump_memzone|dump_physmem <rest>", lacks, nullptr},
    {"dump_ring|dump_socket_mem|dump_struct_sizes <rest>", lacks, nullptr},
    {"flow aged|dump|indirect_action|isolate|tunnel|flex_item|push|pull|queue <rest>", lacks,
     nullptr},
    {"flow info|configure|pattern_template|actions_template|template_table <rest>", lacks, nullptr},
    {"get_sym|mcast_addr|module_eeprom|ptype|E-tag|read|rx_vxlan_port <rest>", lacks, nullptr},
    {"set link-up|link-down|link_check|log|coremask|corelist|portlist|default <rest>", lacks,
     nullptr},
    {"set rxoffs|rxpkts|rxhdrs|txsplit|txtimes|flow_ctrl|pfc_ctrl|pfc_queue_ctrl <rest>", lacks,
     nullptr},
    {"set stat_qmap|xstats-hide-zero|record-core-cycles|record-burst-stats <rest>", lacks, nullptr},
    {"set vf|tx|all|vxlan|vxlan-tos-ttl|vxlan-with-vlan|nvgre|nvgre-with-vlan <rest>", lacks,
     nullptr},
    {"set l2_encap|l2_decap|mplsogre_encap|mplsogre_decap|mplsoudp_encap <rest>", lacks, nullptr},
    {"set mplsoudp_decap|conntrack|raw_encap|raw_decap|sample_actions|gro|gso <rest>", lacks,
     nullptr},
    {"set port|ipv6_ext_push|ipv6_ext_remove|bonding <rest>", lacks, nullptr},
    {"show vf|device|bonding|flow|meter|raw_encap|raw_decap|ipsec <rest>", lacks, nullptr},
    {"clear vf <rest>", lacks, nullptr},
    {"tunnel_tso <rest>", lacks, nullptr},
    {"csum parse-tunnel <rest>", lacks, nullptr},
    {"vlan set qinq_strip|extend|stripq|inner|outer <rest>", lacks, nullptr},
    {"tx_vlan set pvid <rest>", lacks, nullptr},
    {"port config all speed|loopback|max-lro-pkt-size|drop-en|txpt|txht|txwt|rxpt <rest>", lacks,
     nullptr},
    {"port config all rxht|rxwt|txfreet|txrst|rxfreet <rest>", lacks, nullptr},
    {"port config mtu|dcb <rest>", lacks, nullptr},
    {"port config <port> speed|loopback|rss-hash-key|rxq|txq|dcb|udp_tunnel_port <rest>", lacks,
     nullptr},
    {"port config <port> rx_offload|tx_offload|tx_metadata|dynf|pctype|vlan <rest>", lacks,
     nullptr},
};

}  // namespace

const Section lacking_commands{nullptr, "", rows};

}  // namespace kilim::testpmd
