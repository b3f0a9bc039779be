// SPDX-License-Identifier: BSD-3-Clause
// MpwRow: one enhanced multi-packet WQE: a control and an Ethernet segment for all packets, then
// a data segment for each, one behind the other (DPDK drivers/net/mlx5/mlx5_tx.h,
// mlx5_tx_burst_empw_simple()). The packets go out in order, and the WQE has one completion. Owner:
// the queue's worker. Never allocates, blocks or logs. For processors with SSE4.1.
#pragma once

#if defined(__SSE4_1__)

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/queue/eth_wqe.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/opcode.hh"

namespace kilim::inline v1::queue {

class MpwRow {
 public:
  static constexpr uint32_t least = 2;  // packets: one is a plain SEND
  // Packets of the longest WQE at the cursor's place that does not wrap at the ring's end.
  [[nodiscard]] static std::size_t most(const WqeCursor& c) noexcept {
    const uint32_t blocks = c.row();
    if (blocks > prm::max_ds / 4) return prm::max_ds - heads;
    return blocks == 0 ? 0 : blocks * 4 - heads;
  }

  // At the cursor's place; the cursor has no pending fence. `offload` and `flags` are those of
  // eth_send().
  MpwRow(const WqeCursor& c, uint8_t offload, uint8_t flags) noexcept
      : at_(c.line() + std::size_t{heads} * octoword_bytes), offload_(offload), flags_(flags) {
    KILIM_ASSERT(!c.has_pending_fence());
  }

  // Adds a packet, whose data segment is `data`, as it lies in memory. The caller counts: at most
  // most() in all, then close().
  void put(__m128i data) noexcept {
    _mm_store_si128(reinterpret_cast<__m128i*>(at_), data);
    at_ += octoword_bytes;
  }
  // Four packets: the data segments of the first and third, and of the second and fourth. All
  // before are four as well.
  [[gnu::target("avx2")]] void put_four(__m256i odd, __m256i even) noexcept {
    auto* to = reinterpret_cast<__m256i*>(at_);
    _mm256_store_si256(to, _mm256_permute2x128_si256(odd, even, 0x20));
    _mm256_store_si256(to + 1, _mm256_permute2x128_si256(odd, even, 0x31));
    at_ += wqebb_bytes;
  }
  // Appends the WQE of `packets` packets.
  void close(WqeCursor& c, uint32_t packets) const noexcept {
    KILIM_ASSERT(packets >= least && packets <= most(c));
    const Octowords ds{heads + packets};
    store_eth(c.line() + octoword_bytes, offload_);
    c.control_before_commit(prm::Opcode::enhanced_mpsw, ds, flags_);
    c.advance(wqebbs_for(ds).value());
  }

 private:
  static constexpr uint32_t heads = 2;  // octowords before the data segments
  std::byte* at_;
  uint8_t offload_;
  uint8_t flags_;
};

}  // namespace kilim::inline v1::queue

#endif
