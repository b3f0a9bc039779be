// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_FLOW_TABLE", table_type. Which frames a flow table sees: those that raw packet
// queues receive and send, or those of RDMA queues. Pure values, any thread.
#pragma once

#include <cstdint>

#include "kilim/prm/flow_table.hh"
#include "vhca/core/profile.hh"

namespace kilim::vhca::ethernet {

enum class TableType : uint8_t {
  nic_rx = prm::flow_cmd::nic_rx,
  nic_tx = prm::flow_cmd::nic_tx,
  rdma_rx = prm::flow_cmd::rdma_rx,
  rdma_tx = prm::flow_cmd::rdma_tx,
};

// Whether an adapter has tables by firmware commands at all, and those of RDMA queues: on
// InfiniBand there are no Ethernet headers to look at.
inline bool has_flow_tables(const Profile& p) noexcept {
  return p.raw_packet;
}
inline bool has_rdma_tables(const Profile& p) noexcept {
  return has_flow_tables(p) && p.lid == 0;
}

constexpr bool is_table_type(uint32_t type) noexcept {
  namespace fc = prm::flow_cmd;
  return type == fc::nic_rx || type == fc::nic_tx || type == fc::rdma_rx || type == fc::rdma_tx;
}
constexpr bool sees_rdma(TableType t) noexcept {
  return t == TableType::rdma_rx || t == TableType::rdma_tx;
}

}  // namespace kilim::vhca::ethernet
