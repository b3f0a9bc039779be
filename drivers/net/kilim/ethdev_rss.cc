// SPDX-License-Identifier: BSD-3-Clause
// How an ethdev's frames are spread over receive queues (RSS): kinds of hashes, key, table. Kept
// while the port is stopped.
#include <algorithm>
#include <cerrno>

#include "net/kilim/ethdev.hh"

namespace kilim::net {
namespace {

struct HashName {
  uint64_t rss_hf;
  uint32_t type;
};
constexpr HashName hash_names[] = {
    {RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_FRAG_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_OTHER,
     flow::HashTypes::ipv4},
    {RTE_ETH_RSS_NONFRAG_IPV4_TCP, flow::HashTypes::tcp4},
    {RTE_ETH_RSS_NONFRAG_IPV4_UDP, flow::HashTypes::udp4},
    {RTE_ETH_RSS_IPV6 | RTE_ETH_RSS_FRAG_IPV6 | RTE_ETH_RSS_NONFRAG_IPV6_OTHER |
         RTE_ETH_RSS_IPV6_EX,
     flow::HashTypes::ipv6},
    {RTE_ETH_RSS_NONFRAG_IPV6_TCP | RTE_ETH_RSS_IPV6_TCP_EX, flow::HashTypes::tcp6},
    {RTE_ETH_RSS_NONFRAG_IPV6_UDP | RTE_ETH_RSS_IPV6_UDP_EX, flow::HashTypes::udp6},
};

// Both bits of a layer are none (rte_ethdev.h, rte_eth_rss_hf_refine()).
flow::HashSide side_of(uint64_t rss_hf, uint64_t source_only, uint64_t destination_only) noexcept {
  const bool source = (rss_hf & source_only) != 0, destination = (rss_hf & destination_only) != 0;
  if (source == destination) return flow::HashSide::both;
  return source ? flow::HashSide::source : flow::HashSide::destination;
}

// The table as it is, in as many entries as are told.
std::vector<uint16_t> table_of(const rte_eth_dev* dev) {
  const std::vector<uint16_t> own = flow::table_of(ethdev_of(dev).rss(), dev->data->nb_rx_queues);
  std::vector<uint16_t> table(reta_entries);
  for (std::size_t i = 0; i < table.size(); i++) table[i] = own[i % own.size()];
  return table;
}

}  // namespace

uint32_t hash_types_of(uint64_t rss_hf) noexcept {
  uint32_t types = 0;
  for (const HashName& n : hash_names)
    if ((rss_hf & n.rss_hf) != 0) types |= n.type;
  return types;
}

flow::HashSides hash_sides_of(uint64_t rss_hf) noexcept {
  return {.addresses = side_of(rss_hf, RTE_ETH_RSS_L3_SRC_ONLY, RTE_ETH_RSS_L3_DST_ONLY),
          .ports = side_of(rss_hf, RTE_ETH_RSS_L4_SRC_ONLY, RTE_ETH_RSS_L4_DST_ONLY)};
}

// The bursts read what CQEs say of tunnels before the first one does.
int Ethdev::set_rss(flow::Rss rss) noexcept {
  const std::lock_guard guard(lock_);
  if (rss.inner && !tunnels_) {
    tunnels_ = true;
    choose_bursts();
  }
  if (port_.started())
    if (Status s = port_.set_rss(rss); !s) return refuse(s.error());
  rss_ = std::move(rss);
  return 0;
}

// No kinds of hashes: everything goes to the first queue.
int Ethdev::set_rss_hash(const rte_eth_rss_conf& conf) noexcept {
  const std::lock_guard guard(lock_);
  flow::Rss rss = rss_;
  // A key without a length is none (DPDK drivers/net/mlx5/mlx5_rss.c, mlx5_rss_hash_update()).
  if (conf.rss_key != nullptr && conf.rss_key_len != 0) {
    if (conf.rss_key_len != flow::hash_key_bytes)
      return refuse({EINVAL, "an RSS key has 40 bytes"});
    std::copy_n(conf.rss_key, rss.key.size(), rss.key.begin());
  }
  const uint32_t types = hash_types_of(conf.rss_hf);
  const uint64_t level = RTE_ETH_RSS_LEVEL(conf.rss_hf);
  if ((conf.rss_hf & ~(all_rss_hf | rss_levels_of(port_.device().caps()))) != 0)
    return refuse({EINVAL, "this kind of RSS hash is none of flow_type_rss_offloads"});
  const bool spread_before = (rss_asked_ & all_rss_kinds) != 0;
  rss.inner = level == rss_innermost && types != 0;
  if (types == 0)
    rss.table = {0};
  else if (!spread_before)
    rss.table.clear();
  if (types != 0) rss.types = types;
  rss.sides = hash_sides_of(conf.rss_hf);
  if (const int e = set_rss(std::move(rss)); e != 0) return e;
  // All that is offered, as testpmd's "rss default" asks, is no level: the outermost
  // (DPDK drivers/net/bnxt/bnxt_vnic.c, bnxt_rte_to_hwrm_hash_level()).
  const bool both = level == RTE_ETH_RSS_LEVEL(RTE_ETH_RSS_LEVEL_MASK);
  rss_asked_ = both ? conf.rss_hf & ~RTE_ETH_RSS_LEVEL_MASK : conf.rss_hf;
  return 0;
}

int update_rss(rte_eth_dev* dev, rte_eth_rss_conf* conf) {
  return ethdev_of(dev).set_rss_hash(*conf);
}
int tell_rss(rte_eth_dev* dev, rte_eth_rss_conf* conf) {
  const Ethdev& e = ethdev_of(dev);
  conf->rss_hf = e.rss_asked();
  if (conf->rss_key == nullptr) return 0;
  if (conf->rss_key_len < flow::hash_key_bytes) return -EINVAL;
  conf->rss_key_len = flow::hash_key_bytes;
  std::copy(e.rss().key.begin(), e.rss().key.end(), conf->rss_key);
  return 0;
}

// The first entries may be asked for alone, as DPDK's mlx5 driver lets them (22.11
// drivers/net/mlx5/mlx5_rss.c, mlx5_dev_rss_reta_query()).
int update_reta(rte_eth_dev* dev, rte_eth_rss_reta_entry64* reta, uint16_t entries) {
  if (entries == 0 || entries > reta_entries) return -EINVAL;
  flow::Rss rss = ethdev_of(dev).rss();
  rss.table = table_of(dev);
  for (uint16_t i = 0; i < entries; i++) {
    const rte_eth_rss_reta_entry64& group = reta[i / RTE_ETH_RETA_GROUP_SIZE];
    if ((group.mask >> (i % RTE_ETH_RETA_GROUP_SIZE) & 1) == 0) continue;
    rss.table[i] = group.reta[i % RTE_ETH_RETA_GROUP_SIZE];
  }
  return ethdev_of(dev).set_rss(std::move(rss));
}
int tell_reta(rte_eth_dev* dev, rte_eth_rss_reta_entry64* reta, uint16_t entries) {
  if (entries == 0 || entries > reta_entries) return -EINVAL;
  const std::vector<uint16_t> table = table_of(dev);
  for (uint16_t i = 0; i < entries; i++) {
    rte_eth_rss_reta_entry64& group = reta[i / RTE_ETH_RETA_GROUP_SIZE];
    if ((group.mask >> (i % RTE_ETH_RETA_GROUP_SIZE) & 1) != 0)
      group.reta[i % RTE_ETH_RETA_GROUP_SIZE] = table[i];
  }
  return 0;
}

}  // namespace kilim::net
