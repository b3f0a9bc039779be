// SPDX-License-Identifier: BSD-3-Clause
// Floor: what forwarding a packet takes at least. The same work as Kilim's bursts on the same rings
// (packet type, hash, checksum status, statistics, what a Way adds), written out for one ring size,
// one buffer size and one worker, with no error, no short burst and no empty pool: not a way to
// forward packets, but a mark to measure by. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <smmintrin.h>

#include "perf/packet/emulated_nic.hh"
#include "perf/packet/way.hh"

namespace kilim::perf {

class Floor {
 public:
  explicit Floor(EmulatedNic& nic);

  // Forwards `count` packets, a multiple of 4, which have come; returns how many. All turns of a
  // queue have the same count and Way.
  template <Way W>
  uint32_t forward(uint32_t count) noexcept;

  struct Statistics {
    uint64_t received = 0, received_bytes = 0, sent = 0, sent_bytes = 0, completed = 0;
  };
  [[nodiscard]] const Statistics& statistics() const noexcept { return statistics_; }

 private:
  static constexpr uint32_t mask = packet_ring - 1;
  static constexpr uint32_t stride = pool::default_stride;

  template <Way W>
  uint32_t turn(uint32_t count) noexcept;
  template <Way W>
  uint32_t turn_avx2(uint32_t count) noexcept;
  void refill(uint32_t count) noexcept;
  template <Way W>
  void receive_four(const std::byte* cqe, const uint32_t* buffers) noexcept;
  template <Way W>
  std::byte* send_two(std::byte* wqe, __m128i heads, __m128i addresses) noexcept;
  void reclaim(uint32_t count) noexcept;
  void head_of_many(std::byte* wqe, uint32_t count) noexcept;
  void announce(prm::CtrlSeg& last) noexcept;

  const __m128i swap64_ = _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8);
  std::byte *rq_, *rx_cqes_, *sq_, *tx_cqes_, *memory_;
  be32 *rq_record_, *rx_record_, *sq_record_, *tx_record_;
  std::byte* doorbell_;
  pool::SideRecord* sides_;
  uint32_t rx_ = 0;      // packets received
  uint32_t posted_ = 0;  // receives
  uint32_t tx_ = 0;      // packets sent
  uint32_t blocks_ = 0;  // of their WQEs
  uint32_t done_ = 0;    // packets whose completion was seen
  uint32_t tx_ci_ = 0;   // CQEs of sends
  uint32_t top_ = 0;     // free buffers
  uint32_t qpn_word_ = 0;
  __m128i control_;
  __m128i key_;
  Statistics statistics_;
  std::vector<uint32_t> received_ = std::vector<uint32_t>(packet_ring);  // buffers posted
  std::vector<uint32_t> sent_ = std::vector<uint32_t>(packet_ring);      // buffers sent
  std::vector<uint32_t> free_ = std::vector<uint32_t>(packet_buffers);
};

}  // namespace kilim::perf
