// SPDX-License-Identifier: BSD-3-Clause
// The memory, in units of the longest message: four for the pieces, eight to copy into, one for
// lists, and the target.
#include "kilim/detail/chooser/chooser_bench.hh"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>

#include "kilim/detail/umr/fence.hh"
#include "kilim/detail/umr/layout.hh"
#include "kilim/detail/umr/umr_head.hh"

namespace kilim::inline v1::chooser {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t a_burst = 8;
constexpr uint32_t packed_at = 4 * bench_message, lists_at = 12 * bench_message;
constexpr uint32_t target_at = 13 * bench_message;
static_assert(target_at + bench_message <= bench_bytes && a_burst <= bench_keys);
constexpr uint32_t min_runs = 2, max_runs = 15;
constexpr auto enough = std::chrono::microseconds{120};
constexpr auto patience = std::chrono::seconds{10};

mr::Region part_of(const mr::Region& r, uint64_t at, uint64_t bytes) noexcept {
  mr::Region part = r;
  part.address += at;
  part.iova += at;
  part.length = bytes;
  return part;
}

}  // namespace

ChooserBench::ChooserBench(const BenchContext& context) noexcept
    : m_(context),
      base_(reinterpret_cast<std::byte*>(context.memory.address)),
      lists_(part_of(context.memory, lists_at, bench_message)) {
  KILIM_ASSERT(context.memory.length >= bench_bytes);
  KILIM_ASSERT(context.sq.geometry().wqebb_count >= bench_wqebbs);
  KILIM_ASSERT(context.keys.empty() || context.keys.size() >= bench_keys);
}

ChooserLimits ChooserBench::limits() const noexcept {
  constexpr uint32_t max_segments = prm::max_ds - 2;
  const bool keys = m_.limits.indirect_keys && !m_.keys.empty();
  const uint32_t entries = keys ? m_.keys[0].max_entries : 0;
  return {.list_pieces = std::min(m_.max_sge, max_segments),
          .inline_pieces = std::min(entries, umr::max_inline_klms),
          .pointer_pieces = m_.limits.pointer_lists ? std::min(entries, bench_pieces) : 0,
          .copy_bytes = bench_message};
}

// The pieces lie at least a cache line apart, so that no two of them are contiguous.
std::span<const umr::Piece> ChooserBench::pieces_of(uint32_t count, uint32_t bytes) noexcept {
  const uint64_t stride = round_up(bytes, 64) + 64;
  if (count == 0 || bytes == 0 || count > bench_pieces || count * stride > packed_at ||
      uint64_t{count} * bytes > bench_message)
    return {};
  for (uint32_t i = 0; i < count; i++)
    pieces_[i] = {m_.memory.iova + i * stride, bytes, m_.memory.lkey};
  return {pieces_.data(), count};
}

bool ChooserBench::arrived(std::span<const umr::Piece> pieces) const noexcept {
  const std::byte* at = base_ + target_at;
  for (const umr::Piece& p : pieces) {
    if (std::memcmp(at, base_ + (p.address - m_.memory.iova), p.length) != 0) return false;
    at += p.length;
  }
  return true;
}

float ChooserBench::trial(void* bench, Way w, const Trial& t) noexcept {
  auto& b = *static_cast<ChooserBench*>(bench);
  const auto pieces = b.pieces_of(t.pieces, t.piece_bytes);
  return pieces.empty() ? -1.F : b.run(w, pieces, t.uses);
}

float ChooserBench::run(Way way, std::span<const umr::Piece> pieces, uint32_t uses) noexcept {
  const Job job{way, umr::View::of(pieces), uses};
  float least = -1;
  const Clock::time_point start = Clock::now();
  for (uint32_t i = 0; i < max_runs; i++) {
    const float ns = run_once(job);
    if (ns < 0) return ns;
    if (i == 0 || ns < least) least = ns;
    if (i + 1 >= min_runs && Clock::now() - start > enough) break;
  }
  return least;
}

// Runs whole rounds of `uses` messages until there are at least as many messages as a burst has.
float ChooserBench::run_once(const Job& job) noexcept {
  const uint32_t rounds = (a_burst + job.uses - 1) / job.uses;
  const uint32_t messages = rounds * job.uses;
  const Clock::time_point start = Clock::now();
  for (uint32_t at = 0; at < messages; at += a_burst)
    if (!burst(job, at, std::min(a_burst, messages - at))) return -1;
  const std::chrono::duration<float, std::nano> spent = Clock::now() - start;
  return spent.count() / static_cast<float>(rounds);
}

bool ChooserBench::burst(const Job& job, uint32_t first, uint32_t count) noexcept {
  queue::WqeCursor c{m_.sq};
  for (uint32_t i = 0; i < count; i++)
    if (!append(c, job, first + i)) return false;
  c.signal_last();
  c.commit();
  return wait();
}

bool ChooserBench::append(queue::WqeCursor& c, const Job& job, uint32_t number) noexcept {
  const uint32_t slot = number % a_burst;
  const std::span<const umr::Piece> pieces{job.view.pieces, job.view.count};
  const auto bytes = static_cast<uint32_t>(job.view.length);
  const queue::Remote to{m_.memory.iova + target_at, m_.memory.rkey};
  if (job.way == Way::gather_list) return queue::rdma_write(c, to, pieces, {});
  if (job.way == Way::copy) {
    std::byte* at = base_ + packed_at + std::size_t{slot} * bench_message;
    for (const umr::Piece& p : pieces) {
      std::memcpy(at, base_ + (p.address - m_.memory.iova), p.length);
      at += p.length;
    }
    const uint64_t packed = m_.memory.iova + packed_at + uint64_t{slot} * bench_message;
    return queue::rdma_write(c, to, queue::Sge{packed, bytes, m_.memory.lkey}, {});
  }
  mr::IndirectMkey& key = m_.keys[slot];
  const bool kept = job.way == Way::cached_key && number % job.uses != 0;
  if (!kept && !bind_key(c, job, key)) return false;
  return queue::rdma_write(c, to, queue::Sge{0, bytes, cached_}, {});
}

bool ChooserBench::bind_key(queue::WqeCursor& c, const Job& job, mr::IndirectMkey& key) noexcept {
  const umr::UmrContext context{.limits = m_.limits,
                                .memory = &lists_,
                                .form = job.way == Way::inline_key    ? umr::Form::inline_list
                                        : job.way == Way::pointer_key ? umr::Form::by_pointer
                                                                      : umr::Form::by_size};
  const umr::ListRequest request{.key = key.lkey,
                                 .max_entries = key.max_entries,
                                 .new_tag = static_cast<uint8_t>(tag_of(key.lkey) + 1),
                                 .access = umr::mkey_access(mr::Access::local_write),
                                 .keep_atomic = !m_.limits.change_atomic};
  const std::span pieces(job.view.pieces, job.view.count);
  if (!umr::umr_view(c, context, request, pieces, {}).ok()) return false;
  cached_ = key.lkey = request.new_key();
  return true;
}

bool ChooserBench::wait() noexcept {
  queue::Completion seen[a_burst];
  Clock::time_point deadline{};
  for (uint32_t look = 1; !m_.sq.idle(); look++) {
    if (m_.progress != nullptr) m_.progress(m_.arg);
    const uint32_t n = m_.cq.poll(seen, m_.sq);
    for (uint32_t i = 0; i < n; i++)
      if (!seen[i].ok()) return false;
    if (look % 1024 != 0) continue;
    if (deadline == Clock::time_point{}) deadline = Clock::now() + patience;
    if (Clock::now() > deadline) return false;
  }
  lists_.release(lists_.allocated());
  return true;
}

}  // namespace kilim::inline v1::chooser
