// SPDX-License-Identifier: BSD-3-Clause
// This table says how DPDK's interface for drivers differs between releases: each release that
// changed it has a row. net/kilim/ethdev_abi.hh takes the numbers of places from the row of the
// headers that it is compiled with; dpdk_check.cc compares that row with the library's own when a
// port is made. Source: DPDK lib/ethdev/ethdev_driver.h at v22.11, v23.11, v24.11 and v25.11.
// Within a long-term release nothing of it moves; the releases between them have no row and are
// refused. Any thread.
#pragma once

#include <cstddef>
#include <iterator>
#include <type_traits>

#include <rte_ethdev.h>
#include <rte_version.h>

namespace kilim::net {

struct DpdkRelease {
  unsigned year, month;  // a long-term release, with all its point releases
  // Places in eth_dev_ops of operations that no Kilim port has and that not every release knows.
  unsigned speed_lanes, recycled_rxq, timesync, xstats_counters, aggregated_ports, restore_flags;
  unsigned ops;  // all places of eth_dev_ops
  // Places in rte_eth_dev of functions beside the driver's.
  unsigned tx_counts, recycling, flow_fast_path;
  std::size_t port_bytes;  // of rte_eth_dev, on a machine of 64 bits
  // Signatures of operations: adapted in ethdev_ops_abi.hh.
  bool counts_types;        // dev_supported_ptypes_get() has a second argument, their number
  bool queues_apart;        // stats_get() has a third one, the counts of each queue
  bool rx_count_is_signed;  // rx_queue_count() returns an int
};

// clang-format off
inline constexpr DpdkRelease dpdk_releases[] = {
    // DPDK    lanes rxq time xst aggr restore  ops  txq rec flow  port   types  queues rx count
    {22, 11,     0,   0,   7,  0,   0,   0,     113,  0,  0,  0,  16512,  false, false, false},
    {23, 11,     0,   1,   7,  0,   2,   0,     116,  0,  2,  0,  16576,  false, false, false},
    {24, 11,     3,   1,   8,  0,   2,   1,     121,  1,  2,  1,  16576,  true,  false, false},
    {25, 11,     3,   1,   8,  3,   2,   1,     124,  1,  2,  1,  16576,  true,  true,  true},
};
// clang-format on

// The number of a release's row; the number of rows where it has none.
constexpr std::size_t dpdk_row_of(unsigned year, unsigned month) noexcept {
  std::size_t row = 0;
  for (const DpdkRelease& r : dpdk_releases) {
    if (year == r.year && month == r.month) break;
    row++;
  }
  return row;
}

inline constexpr std::size_t built_row = dpdk_row_of(RTE_VER_YEAR, RTE_VER_MONTH);
static_assert(built_row < std::size(dpdk_releases),
              "Kilim knows the driver interface of DPDK 22.11, 23.11, 24.11 and 25.11 alone");
inline constexpr DpdkRelease built_for = dpdk_releases[built_row];

// The public headers show what the row says: a row of another release does not compile.
template <typename Fast, typename Stats>
constexpr bool row_fits_public_headers() noexcept {
  return requires(Fast f) {
    f.tx_queue_count;
  }
  == (built_for.tx_counts != 0) && requires(Fast f) {
    f.recycle_tx_mbufs_reuse;
  }
  == (built_for.recycling != 0) && requires(Stats s) {
    s.q_ipackets;
  }
  != built_for.queues_apart;
}
static_assert(row_fits_public_headers<struct rte_eth_fp_ops, rte_eth_stats>());
static_assert(std::is_signed_v<std::invoke_result_t<eth_rx_queue_count_t, void*>> ==
              built_for.rx_count_is_signed);

}  // namespace kilim::net
