// SPDX-License-Identifier: BSD-3-Clause
// The queues of DPDK's net_mlx5 as its burst functions know them: what its argument points to, as
// far as the race needs it (DPDK 22.11, drivers/net/mlx5/mlx5_rx.h, struct mlx5_rxq_data, and
// mlx5_tx.h, struct mlx5_txq_data). Order and types are the driver's ABI; the words are ours.
// Mlx5Port holds the offsets against a port that the driver made itself. Plain layouts, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"

struct rte_mbuf;
struct rte_mempool;

namespace kilim::race {

// mlx5_common_mr.h, struct mlx5_mr_ctrl, which is packed: a generation, two indices, eight entries
// of 20 bytes, a table's head of 16.
struct MrCache {
  uint8_t bytes[16 + 8 * 20 + 16];
};

struct Mlx5RxQueue {
  uint64_t bits;  // rxq_bits
  be32* record;   // of the receive queue
  be32* cq_record;
  uint16_t port;
  uint32_t elts_ci, rq_ci, rq_ci_ooo;
  uint16_t consumed_strides;
  uint32_t rq_pi, cq_ci;
  uint16_t replenish_at;
  uint32_t byte_mask;
  uint32_t zip[4];  // of compressed entries
  MrCache keys;
  uint16_t most_copied;
  std::byte* wqes;
  std::byte* cqes;
  rte_mbuf** mbufs;
  void* strided;
  rte_mempool* pool;
};

// Fields of Mlx5RxQueue::bits, from the lowest bit.
namespace rxq_bits {
constexpr unsigned checksums(uint64_t b) noexcept {
  return static_cast<unsigned>(b & 1);
}
constexpr unsigned log_segments(uint64_t b) noexcept {
  return static_cast<unsigned>(b >> 5 & 7);
}
constexpr unsigned log_cqes(uint64_t b) noexcept {
  return static_cast<unsigned>(b >> 8 & 15);
}
constexpr unsigned log_mbufs(uint64_t b) noexcept {
  return static_cast<unsigned>(b >> 12 & 15);
}
constexpr unsigned hash(uint64_t b) noexcept {
  return static_cast<unsigned>(b >> 16 & 1);
}
}  // namespace rxq_bits

struct Mlx5TxQueue {
  uint16_t mbuf_head, mbuf_tail, mbuf_signalled, mbuf_count, mbuf_mask;
  uint16_t wqe_ci, wqe_pi, wqe_count, wqe_mask, wqe_signalled, wqe_threshold;
  uint16_t cq_ci, cq_pi, cqe_count, cqe_mask;
  uint16_t logs, doorbell_bits;
  uint16_t inline_send, inline_many, inline_least;
  uint32_t sqn_shifted;  // by 8 bits
  uint64_t offloads;
  MrCache keys;
  std::byte* wqes;
  std::byte* wqes_end;
  uint16_t* completed;
  std::byte* cqes;
  be32* record;  // of the send queue
  be32* cq_record;
  uint16_t port, number;
  uint64_t time_mask, stamp_mask;
  int32_t stamp_offset;
  void* shared;
  uint64_t packets, bytes, errors;
  uint64_t of_last_reset[3];
  uint64_t* doorbell;
};

static_assert(sizeof(MrCache) == 192);
static_assert(offsetof(Mlx5RxQueue, port) == 24 && offsetof(Mlx5RxQueue, cq_ci) == 48 &&
              offsetof(Mlx5RxQueue, keys) == 76 && offsetof(Mlx5RxQueue, wqes) == 272 &&
              offsetof(Mlx5RxQueue, pool) == 304);
static_assert(offsetof(Mlx5TxQueue, logs) == 30 && offsetof(Mlx5TxQueue, sqn_shifted) == 40 &&
              offsetof(Mlx5TxQueue, wqes) == 248 && offsetof(Mlx5TxQueue, record) == 280 &&
              offsetof(Mlx5TxQueue, packets) == 336 && offsetof(Mlx5TxQueue, doorbell) == 384);

}  // namespace kilim::race
