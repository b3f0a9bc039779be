// SPDX-License-Identifier: BSD-3-Clause
// PRM: "HCA Capabilities", the address that a port has from its card, as the context of its vport
// says it (QUERY_NIC_VPORT_CONTEXT; Linux struct mlx5_ifc_nic_vport_context_bits,
// permanent_address, a mac_address_layout). Constants, any thread; never talks to a device.
#pragma once

#include "kilim/prm/hca_cap.hh"

namespace kilim::inline v1::prm::nic_vport {

inline constexpr CapField mac_47_32{0x7b0, 16}, mac_31_0{0x7c0, 32};

}  // namespace kilim::inline v1::prm::nic_vport
