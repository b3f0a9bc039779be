// SPDX-License-Identifier: BSD-3-Clause
// EmulatedNic: the other side of one receive and one send queue of raw packets, in memory: it fills
// posted buffers in order, with a CQE for each, and completes what is sent. Its work lies outside
// of what is measured. It reads WQEs and doorbell records only, so any writer of them can be
// measured against another. One thread; only open() allocates.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kilim/detail/burst/rx.hh"
#include "kilim/detail/burst/tx.hh"
#include "kilim/pool.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/prm/data_seg.hh"

namespace kilim::perf {

inline constexpr uint32_t packet_ring = 1024;     // WQEs and CQEs of each queue
inline constexpr uint32_t packet_buffers = 4096;  // of the pool
inline constexpr uint32_t packet_bytes = 64;
inline constexpr Lkey packet_key{0x4711};

// How packets are received: as they come, with compressed completions (blocks of up to 32), into
// buffers of 32 strides, into two buffers each.
enum class RxForm : uint8_t { plain, compressed, strided, chained };
inline constexpr burst::RxStrides packet_strides{6, 5};

class EmulatedNic {
 public:
  // Returns an empty string, or what failed. `name`: of the pool.
  std::string open(const char* name, RxForm form = RxForm::plain);

  [[nodiscard]] queue::RqGeometry rq() noexcept;
  [[nodiscard]] queue::CqGeometry rx_cq() noexcept;
  [[nodiscard]] queue::SqGeometry sq() noexcept;
  [[nodiscard]] queue::CqGeometry tx_cq() noexcept;
  [[nodiscard]] const pool::Arena& arena() const noexcept { return arena_; }
  [[nodiscard]] pool::Pool& pool() noexcept { return *pool_; }

  // Receives packets of 64 bytes, TCP over IPv4 with a hash and good checksums; returns how many
  // had a buffer.
  uint32_t receive(uint32_t packets) noexcept;
  // Completes everything that a doorbell record announced: a CQE for each WQE that asks for one.
  // Returns the WQEs.
  uint32_t complete_sent() noexcept;

 private:
  struct CqeRing {
    alignas(64) prm::Cqe cqes[packet_ring];
    be32 record{0};
    uint32_t produced = 0;
    CqeRing() noexcept;
    prm::Cqe& next(prm::CqeOpcode op, uint32_t wqe) noexcept;
  };
  struct Rings {
    alignas(64) prm::DataSeg receives[2 * packet_ring];
    alignas(64) std::byte sends[packet_ring][64];
    be32 receive_record{0};
    be32 send_record{0};
    alignas(64) uint64_t doorbell = 0;
    CqeRing received;
    CqeRing sent;
  };
  static void describe(prm::Cqe& e, uint32_t packet) noexcept;
  uint32_t receive_block(uint32_t packets) noexcept;
  uint32_t receive_strides(uint32_t packets) noexcept;

  std::unique_ptr<Rings> rings_;
  std::vector<std::byte> memory_;
  std::vector<pool::SideRecord> sides_;
  std::vector<pool::ExtraHolders> holders_ = std::vector<pool::ExtraHolders>(packet_buffers);
  RxForm form_ = RxForm::plain;
  pool::Arena arena_;
  std::optional<pool::Pool> pool_;
  uint32_t filled_ = 0;     // receives
  uint32_t strides_ = 0;    // of the buffer that is filled
  uint32_t completed_ = 0;  // sends
};

}  // namespace kilim::perf
