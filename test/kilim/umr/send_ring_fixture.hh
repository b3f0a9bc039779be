// SPDX-License-Identifier: BSD-3-Clause
// A send queue in memory, without a device: what a builder writes can be looked at, and what it
// leaves alone is 0xee. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/queue/sq.hh"
#include "kilim/detail/umr/klm_list.hh"

namespace kilim::test {

// Of `n` basic blocks.
template <uint32_t n>
struct SendRing {
  static constexpr uint32_t blocks = n;
  alignas(64) std::array<std::byte, blocks * 64> memory;
  std::array<uint64_t, blocks> wr_ids{};
  be32 record{0};
  alignas(8) std::array<std::byte, 8> doorbell{};
  queue::Sq sq;
  SendRing()
      : sq({.buf = memory.data(),
            .wqebb_count = blocks,
            .record = &record,
            .doorbell = doorbell.data(),
            .qpn = Qpn{0xabcdef}},
           wr_ids) {
    memory.fill(std::byte{0xee});
  }
  // So that the next WQE begins at this block.
  void go_to(uint32_t block) {
    queue::WqeCursor c{sq};
    for (uint32_t i = 0; i < block; i++) (void)queue::send(c, umr::Piece{1, 1, Lkey{1}}, {});
    c.commit();
    if (block != 0) sq.retire(static_cast<uint16_t>(block - 1));
  }
};

}  // namespace kilim::test
