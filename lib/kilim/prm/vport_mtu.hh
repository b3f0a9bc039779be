// SPDX-License-Identifier: BSD-3-Clause
// PRM: "HCA Capabilities", the longest frame of a port, as the context of its vport says it
// (QUERY_NIC_VPORT_CONTEXT; Linux struct mlx5_ifc_nic_vport_context_bits). Constants, any thread;
// never talks to a device.
#pragma once

#include <cstdint>

#include "kilim/prm/hca_cap.hh"

namespace kilim::inline v1::prm::nic_vport {

// Bytes of a frame with its header, one tag and its check sequence: what the kernel adds to the MTU
// of an interface (Linux en.h, MLX5E_ETH_HARD_MTU and MLX5E_SW2HW_MTU; en_main.c, mlx5e_set_mtu()
// and mlx5e_query_mtu()).
inline constexpr CapField mtu{0x130, 16};
inline constexpr uint32_t around_mtu = 14 + 4 + 4;

}  // namespace kilim::inline v1::prm::nic_vport
