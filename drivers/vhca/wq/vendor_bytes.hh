// SPDX-License-Identifier: BSD-3-Clause
// What an error entry says beside its syndrome: the vendor's syndrome, and the hardware's with its
// type (mlx5dv.h of later rdma-core, mlx5_err_cqe: hw_err_synd, hw_synd_type). No manual lists
// them: they are what public dumps of cards show, by cause and by the way of the data. Zero where
// no card was seen. Pure values, any thread.
#pragma once

#include <cstdint>

#include "vhca/core/verdict.hh"

namespace kilim::vhca::wq {

// Which memory the request that failed was at.
enum class DataWay : uint8_t {
  gather,   // read by a send WQE: SEND, WRITE, a frame
  scatter,  // written by the answer to a send WQE: READ, atomics
  receive,  // written by a receive WQE
};

struct VendorBytes {
  uint8_t vendor = 0;
  uint8_t hardware = 0;
  uint8_t hardware_type = 0;
};
VendorBytes vendor_bytes(const Verdict&, DataWay) noexcept;

// The way of a send WQE with this opcode.
DataWay way_of_send(uint8_t wqe_opcode) noexcept;

// A flush whose cause is the client's own move to ERR, in the first entry that tells of it.
inline constexpr uint8_t vendor_of_own_end = 0xf5;

}  // namespace kilim::vhca::wq
