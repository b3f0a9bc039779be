// SPDX-License-Identifier: BSD-3-Clause
// Runs layouts by every way of the chooser on a real queue, for plan.hh's costs and for whoever
// wants to see them: RDMA WRITEs from scattered pieces, eight a doorbell, until they complete.
// Owner: the worker of the queue, which is idle and connected to itself. Set-up and measurements;
// allocates nothing after it is made.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/mr/key_source.hh"
#include "kilim/mr/region.hh"
#include "kilim/prm/umr_limits.hh"
#include "kilim/queue/cq.hh"
#include "kilim/queue/rc_wqe.hh"
#include "kilim/queue/sq.hh"
#include "kilim/umr/list_memory.hh"
#include "kilim/umr/plan.hh"
#include "kilim/umr/view.hh"

namespace kilim::umr {

struct BenchMeans {
  queue::Sq& sq;  // at least bench_wqebbs
  queue::Cq& cq;
  mr::Region memory;                 // at least bench_bytes; everybody on this device may write it
  std::span<mr::IndirectMkey> keys;  // bench_keys, or none
  prm::UmrLimits limits;
  uint32_t max_sge = 1;
  void (*progress)(void*) = nullptr;  // runs a virtual device
  void* arg = nullptr;
};
inline constexpr uint32_t bench_keys = 8;
inline constexpr uint32_t bench_wqebbs = 256;
inline constexpr uint32_t bench_message = 1u << 18;  // bytes, at most
inline constexpr uint32_t bench_pieces = 512;        // of a layout, at most
inline constexpr std::size_t bench_bytes = 16 * std::size_t{bench_message};

class PlanBench {
 public:
  explicit PlanBench(const BenchMeans& means) noexcept;

  // What can be tried here.
  [[nodiscard]] PlanLimits limits() const noexcept;
  // So many equal pieces; none where they are too many or too large.
  std::span<const Piece> pieces_of(uint32_t count, uint32_t bytes) noexcept;
  // Nanoseconds of `uses` messages, the least of some runs; negative: a request failed.
  float run(Way way, std::span<const Piece> pieces, uint32_t uses) noexcept;
  // Whether the pieces lie where the last message went.
  [[nodiscard]] bool arrived(std::span<const Piece> pieces) const noexcept;
  // As calibrate() wants it.
  static float trial(void* bench, Way w, const Trial& t) noexcept;

 private:
  struct Job {
    Way way;
    View view;
    uint32_t uses;
  };
  float run_once(const Job& job) noexcept;
  bool burst(const Job& job, uint32_t first, uint32_t count) noexcept;
  bool append(queue::WqeCursor& c, const Job& job, uint32_t number) noexcept;
  bool weave_key(queue::WqeCursor& c, const Job& job, mr::IndirectMkey& key) noexcept;
  bool wait() noexcept;

  BenchMeans m_;
  std::byte* base_;
  ListMemory lists_;
  Lkey woven_;  // of the cached way
  std::array<Piece, bench_pieces> pieces_;
};

}  // namespace kilim::umr
