// SPDX-License-Identifier: BSD-3-Clause
// Commands to an adapter's firmware through DevX: questions (mlx5dv_devx_general_cmd(3)), and
// objects that verbs do not make (mlx5dv_devx_obj_create(3)). Any thread; control path only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <infiniband/verbs.h>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/device/caps.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/hca_cap.hh"
#include "mlx5/handle.hh"

namespace kilim::mlx5 {

using HcaCap = std::array<std::byte, prm::cmd::hca_cap_bytes>;

// Reads a capability group (prm::cmd::cap_*), current values (QUERY_HCA_CAP). False: the adapter
// does not answer DevX commands, and `group` is as it was.
bool query_hca_cap(ibv_context* context, uint16_t number, HcaCap& group);

// What send WQEs of the first port must have of a frame (QUERY_NIC_VPORT_CONTEXT,
// min_wqe_inline_mode); empty: it is not told.
std::optional<uint32_t> query_inline_mode(ibv_context* context);

// The MTU of the first port's frames, from the same context; 0: it is not told.
uint32_t query_vport_mtu(ibv_context* context);

// The address that the first port has from its card, from the same context; all zero: it is not
// told.
device::MacAddress query_vport_mac(ibv_context* context);

// The field that every command has first.
inline constexpr prm::CapField opcode_field{0x00, 16};

// An object that a command made, and the number by which other commands name it; a TIR's is not
// told apart from an address.
struct FirmwareObject {
  DevxObject object;
  uint32_t number = 0;
};
// The error is errno's, with this sentence.
Result<FirmwareObject> create_object(ibv_context* context, std::span<const std::byte> command,
                                     const char* sentence);

}  // namespace kilim::mlx5
