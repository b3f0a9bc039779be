// SPDX-License-Identifier: BSD-3-Clause
// ChooserBench: measures the ways of the chooser on a real queue by RDMA WRITEs from scattered
// pieces, eight a doorbell, until they complete.
// Owner: the worker of the queue, which is idle and connected to itself. For set-up and
// measurements; allocates nothing after it is made.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/chooser/chooser.hh"
#include "kilim/detail/mr/mkey_source.hh"
#include "kilim/detail/mr/region.hh"
#include "kilim/detail/queue/cq.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/queue/sq.hh"
#include "kilim/detail/umr/list_memory.hh"
#include "kilim/detail/umr/view.hh"
#include "kilim/prm/umr_limits.hh"

namespace kilim::inline v1::chooser {

// What the measurement uses. All of it outlives the bench.
struct BenchContext {
  queue::Sq& sq;  // of at least bench_wqebbs blocks
  queue::Cq& cq;
  mr::Region memory;                 // of at least bench_bytes, with remote write access
  std::span<mr::IndirectMkey> keys;  // bench_keys, or none
  prm::UmrLimits limits;
  uint32_t max_sge = 1;
  void (*progress)(void*) = nullptr;  // called while waiting: runs a virtual device that is polled
  void* arg = nullptr;
};
inline constexpr uint32_t bench_keys = 8;
inline constexpr uint32_t bench_wqebbs = 256;
inline constexpr uint32_t bench_message = 1u << 18;  // bytes, at most
inline constexpr uint32_t bench_pieces = 512;        // of a layout, at most
inline constexpr std::size_t bench_bytes = 16 * std::size_t{bench_message};

class ChooserBench {
 public:
  explicit ChooserBench(const BenchContext& context) noexcept;

  // The limits of this queue, these keys and this memory.
  [[nodiscard]] ChooserLimits limits() const noexcept;
  // `count` equal pieces of the memory; empty: they are too many or too large.
  std::span<const umr::Piece> pieces_of(uint32_t count, uint32_t bytes) noexcept;
  // The least nanoseconds of `uses` messages in some runs; negative: a request failed.
  float run(Way way, std::span<const umr::Piece> pieces, uint32_t uses) noexcept;
  // Whether the target holds the pieces' bytes: the last message arrived.
  [[nodiscard]] bool arrived(std::span<const umr::Piece> pieces) const noexcept;
  // A RunTrial for calibrate(); `bench` is the ChooserBench.
  static float trial(void* bench, Way w, const Trial& t) noexcept;

 private:
  struct Job {
    Way way;
    umr::View view;
    uint32_t uses;
  };
  float run_once(const Job& job) noexcept;
  bool burst(const Job& job, uint32_t first, uint32_t count) noexcept;
  bool append(queue::WqeCursor& c, const Job& job, uint32_t number) noexcept;
  bool bind_key(queue::WqeCursor& c, const Job& job, mr::IndirectMkey& key) noexcept;
  bool wait() noexcept;

  BenchContext m_;
  std::byte* base_;
  umr::ListMemory lists_;
  Lkey cached_;  // the key that Way::cached_key uses
  std::array<umr::Piece, bench_pieces> pieces_;
};

}  // namespace kilim::inline v1::chooser
