// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Memory Pointer Segment", "Inline Data Segment", "Remote Address Segment", "Atomic Segment".
// Names: mlx5_wqe_data_seg and its neighbours in mlx5dv.h. Pure formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/field.hh"

namespace kilim::inline v1::prm {

// A piece of local memory. In a receive WQE a segment with lkey 0x100 ends the list.
struct DataSeg {
  // Bit 31: inline data follows instead. 0 stands for 2^31 bytes (pagefault_data_segments,
  // drivers/infiniband/hw/mlx5/odp.c of the kernel).
  be32 byte_count;
  be32 lkey;
  be64 addr;  // as the key counts
};
static_assert(sizeof(DataSeg) == 16 && offsetof(DataSeg, addr) == 8);

inline constexpr uint32_t inline_flag = 0x80000000u;     // of byte_count
inline constexpr uint32_t max_segment_bytes = 1u << 31;  // of one data segment
// The byte_count of a segment of `bytes` bytes, which are 1 to max_segment_bytes.
constexpr uint32_t segment_count(uint32_t bytes) noexcept {
  return bytes == max_segment_bytes ? 0 : bytes;
}
inline constexpr uint32_t inline_length_mask = 0x3ff;  // bytes behind an inline header
inline constexpr uint32_t list_end_lkey = 0x100;       // MLX5_INVALID_LKEY of libmlx5

// Four bytes before inline data; the data begins right behind it and is padded to 16 bytes.
struct InlineSeg {
  be32 byte_count;
};
static_assert(sizeof(InlineSeg) == 4);

// The peer's memory that a WRITE, a READ or an atomic accesses.
struct RaddrSeg {
  be64 raddr;  // as the key counts
  be32 rkey;
  be32 reserved;
};
static_assert(sizeof(RaddrSeg) == 16 && offsetof(RaddrSeg, rkey) == 8);

// The WQE of an RDMA READ has at most 512 bytes, half of what other WQEs may have; that leaves 30
// data segments on a reliable connection (MLX5_MAX_SGE_RD, Linux include/linux/mlx5/device.h).
inline constexpr uint32_t max_read_ds = 32;
inline constexpr uint32_t max_read_segments = 30;

struct AtomicSeg {
  be64 swap_add;  // the new value, or the number to add
  be64 compare;   // compare and swap only
};
static_assert(sizeof(AtomicSeg) == 16);

}  // namespace kilim::inline v1::prm
