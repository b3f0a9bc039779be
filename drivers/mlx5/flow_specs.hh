// SPDX-License-Identifier: BSD-3-Clause
// FlowSpecs: a flow rule as ibv_create_flow(3) takes it: the attributes, and the specs behind them
// in one piece of memory. Values; one thread, control path only.
#pragma once

#include <cstddef>
#include <cstdint>

#include <infiniband/verbs.h>

#include "kilim/detail/device/receive.hh"

namespace kilim::mlx5 {

class FlowSpecs {
 public:
  // `counters`: null, or those that count.
  FlowSpecs(const device::FlowRequest& request, uint8_t port, ibv_counters* counters) noexcept;
  FlowSpecs(const FlowSpecs&) = delete;
  FlowSpecs& operator=(const FlowSpecs&) = delete;

  ibv_flow_attr* attr() noexcept { return reinterpret_cast<ibv_flow_attr*>(memory_); }

 private:
  // Puts a spec behind the last one.
  template <typename Spec>
  void append(ibv_flow_spec_type type, Spec spec) noexcept;
  void append_eth(const flow::Match& match) noexcept;
  // Layers of a flow::Match, `where` 0, or of a flow::Inner, `where` IBV_FLOW_SPEC_INNER.
  template <typename Layers>
  void append_ip(const Layers& match, uint32_t where) noexcept;
  template <typename Layers>
  void append_ports(const Layers& match, uint32_t where) noexcept;
  void append_tunnel(const flow::Tunnel& tunnel) noexcept;

  static constexpr std::size_t max_specs = 8;
  std::size_t used_ = sizeof(ibv_flow_attr);
  alignas(8) std::byte memory_[sizeof(ibv_flow_attr) + max_specs * sizeof(ibv_flow_spec)]{};
};

}  // namespace kilim::mlx5
