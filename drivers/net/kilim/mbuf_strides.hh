// SPDX-License-Identifier: BSD-3-Clause
// Receives of several packets (PRM: "Striding RQ") as mbufs, as DPDK's mlx5 driver makes them with
// mprq_en=1: a short packet is copied into an mbuf of the application's mempool, to a longer one
// the mbuf is attached where it lies, and holds the buffer (doc/decisions/0055). Owner: the queue's
// lcore; applications free mbufs on any. A burst never locks, logs or calls the system.
#pragma once

#include <cstdint>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "net/kilim/mbuf_rx.hh"

namespace kilim::net {

// In front of a buffer's headroom and strides. The count of `info` is the ring's hold, or that of
// the burst's spare, and one for each mbuf that is attached.
struct StrideBuffer {
  rte_mbuf_ext_shared_info info;

  [[nodiscard]] std::byte* data() noexcept {
    return reinterpret_cast<std::byte*>(this) + RTE_CACHE_LINE_SIZE + RTE_PKTMBUF_HEADROOM;
  }
};
static_assert(sizeof(StrideBuffer) <= RTE_CACHE_LINE_SIZE);

// Bytes of a buffer's strides.
inline uint32_t stride_bytes(const MbufStrides& s) noexcept {
  return 1u << (s.log_bytes + s.log_count);
}

// A mempool for `count` buffers, each of these bytes of strides; nullptr: no memory.
rte_mempool* make_stride_pool(uint32_t count, uint32_t bytes, int node) noexcept;
// Frees it now, or when the application has freed the last mbuf that is attached to it and another
// pool is made or given up.
void give_up_stride_pool(rte_mempool* pool) noexcept;

// `lro`: TCP segments may be joined.
template <bool lro>
uint16_t take_strided(MbufRx& q, rte_mbuf** out, uint32_t want) noexcept;
// Posts a buffer at each WQE; returns how many.
uint32_t fill_strided(MbufRx& q) noexcept;
// The ring holds its buffers no more; the device does not write there.
void empty_strided(MbufRx& q) noexcept;
// The oldest buffer is used up: its WQE is posted again, with another one if mbufs hold it.
void end_strides(MbufRx& q) noexcept;

}  // namespace kilim::net
