// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/mr/advice_queue.hh"

#include <algorithm>
#include <cerrno>
#include <vector>

#include "kilim/detail/base/cacheline.hh"
#include "kilim/detail/base/dpdk.hh"
#include "kilim/detail/base/memory_reserve.hh"

namespace kilim::inline v1::mr {
namespace {

static_assert(sizeof(AdviceJob) % 4 == 0, "a ring's element");

// Longest part of a job: ibv_sge, in which ibv_advise_mr(3) takes ranges, has 32 bits of length.
constexpr uint64_t part_bytes = uint64_t{1} << 31;

std::vector<AdviceRange> parts_of(const AdviceJob& job) {
  std::vector<AdviceRange> parts;
  for (uint64_t at = 0; at < job.bytes; at += part_bytes) {
    const auto n = static_cast<uint32_t>(std::min(part_bytes, job.bytes - at));
    parts.push_back({job.address + at, n, job.lkey});
  }
  return parts;
}

}  // namespace

Result<std::unique_ptr<AdviceQueue>> AdviceQueue::create(Registrar& registrar,
                                                         const Config& config) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (config.depth == 0 || (config.depth & (config.depth - 1)) != 0 || config.tries == 0)
    return Error{EINVAL, "a queue of advice has a power of two of places and tries at least once"};
  std::unique_ptr<AdviceQueue> q{new AdviceQueue(registrar, config)};
  // One place of a ring stays empty, so it is twice as large.
  const ssize_t bytes = rte_ring_get_memsize_elem(sizeof(AdviceJob), config.depth * 2);
  if (bytes < 0) return Error{EINVAL, "a queue of advice cannot be so deep"};
  q->memory_ = std::make_unique<std::byte[]>(static_cast<std::size_t>(bytes) + cacheline_bytes);
  const auto from = reinterpret_cast<uintptr_t>(q->memory_.get());
  q->ring_ = reinterpret_cast<rte_ring*>((from + cacheline_bytes - 1) & ~(cacheline_bytes - 1));
  (void)rte_ring_init(q->ring_, "kilim_advice", config.depth, RING_F_SC_DEQ | RING_F_EXACT_SZ);
  return q;
}

AdviceQueue::~AdviceQueue() = default;

bool AdviceQueue::submit(const AdviceJob& job) noexcept {
  return rte_ring_mp_enqueue_elem(ring_, const_cast<AdviceJob*>(&job), sizeof job) == 0;
}

bool AdviceQueue::idle() const noexcept {
  return again_.empty() && rte_ring_empty(ring_) != 0;
}

// Takes the job that is due for another try, else a new one. False: there is neither.
bool AdviceQueue::next(uint64_t now_ns, Waiting& out) {
  if (!again_.empty() && again_.front().not_before <= now_ns) {
    out = again_.front();
    again_.pop_front();
    return true;
  }
  out = {};
  return rte_ring_sc_dequeue_elem(ring_, &out.job, sizeof out.job) == 0;
}

void AdviceQueue::attempt(Waiting w, uint64_t now_ns) {
  if (w.tries++ != 0) retried_.add(1);
  const std::vector<AdviceRange> parts = parts_of(w.job);
  const Status s = registrar_.advise({.advice = w.job.advice, .flush = true, .ranges = parts});
  if (!s && s.error().code == EAGAIN && w.tries < config_.tries) {
    w.not_before = now_ns + config_.pause_ns;
    again_.push_back(w);
    return;
  }
  if (s) {
    done_.add(1);
  } else {
    (s.error().code == EAGAIN ? given_up_ : failed_).add(1);
  }
  if (config_.done != nullptr) config_.done(config_.arg, w.job, s);
}

uint32_t AdviceQueue::poll(uint64_t now_ns, uint32_t budget) {
  uint32_t made = 0;
  Waiting w;
  for (; made < budget && next(now_ns, w); made++) attempt(w, now_ns);
  return made;
}

}  // namespace kilim::inline v1::mr
