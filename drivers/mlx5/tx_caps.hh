// SPDX-License-Identifier: BSD-3-Clause
// What an adapter does to frames that its raw packet queues send. Any thread; control path only.
#pragma once

#include <cstdint>

#include <infiniband/verbs.h>

#include "kilim/detail/device/caps.hh"

namespace kilim::mlx5 {

// What is not reported is taken for missing, but for the bytes that WQEs must have.
device::TxCaps read_tx_caps(ibv_context* context);

// Bytes of a frame's start that send WQEs must have, by min_wqe_inline_mode: none, the Ethernet
// header with a tag, IPv6's and TCP's headers too, and the same within a tunnel (DPDK mlx5.h,
// MLX5_INLINE_HSIZE_*).
uint32_t inlined_bytes(uint32_t mode) noexcept;

// Bytes to inline by the PCI device, for firmware that does not answer: ConnectX-4 and 4 Lx, and
// their virtual functions, want the Ethernet header (DPDK mlx5.c, mlx5_set_min_inline()).
uint32_t inlined_bytes_of_card(uint32_t pci_device) noexcept;

}  // namespace kilim::mlx5
