// SPDX-License-Identifier: BSD-3-Clause
// PortRef: a port that the program forwards on: one of Kilim, by handles, or any other of DPDK's
// ethdev, by mbufs. What is told of either, and the ethdev's set-up. Main lcore; counts may be read
// while lcores forward.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "forward.hh"
#include "kilim/port.hh"
#include "kilim/result.hh"
#include "options.hh"

struct rte_mempool;

namespace kilim::testpmd {

struct PortRef {
  port::Port* native = nullptr;  // EAL's
  uint16_t ethdev = no_ethdev;   // where native is null
};

// Kilim's ports in EAL's order, then the ethdevs of other drivers.
std::vector<PortRef> find_ports();

std::string name_of(const PortRef& p);
// The name of the device: "vhca0", or the ethdev's driver.
std::string device_of(const PortRef& p);
Mac mac_of(const PortRef& p);
// Counts since the port was made, or since an ethdev's driver began to count.
port::PortStats counts_of(const PortRef& p);
int numa_node_of(const PortRef& p);

// Queues of an ethdev; 0 as depth: the driver's choice.
struct EthdevSetup {
  port::QueueSizes sizes;
  rte_mempool* mbufs = nullptr;
  uint32_t longest = 0;  // bytes of a packet; 0: the driver's choice
  uint64_t rss_hf = 0;   // RTE_ETH_RSS_*, of which the driver's are taken where there are queues
  bool isolate = false;  // it receives what flow rules lead to it alone
};
// EINVAL: more queues than the driver has; or the error of the driver, of which `why` names the
// step.
Status set_up_ethdev(uint16_t ethdev, const EthdevSetup& setup, std::string& why);
Status start_ethdev(uint16_t ethdev);
void stop_ethdev(uint16_t ethdev);
// Frees what waits in the receive queues, as testpmd does before it forwards; returns how many.
uint64_t flush_ethdev(uint16_t ethdev, uint32_t rxq);

}  // namespace kilim::testpmd
