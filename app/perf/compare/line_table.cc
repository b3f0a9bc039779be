// SPDX-License-Identifier: BSD-3-Clause
// The lines of the comparison: a new one is a file and a row here.
#include "kilim/detail/burst/simd.hh"
#include "perf/compare/line.hh"

namespace kilim::perf {
namespace {

// Lines that make further queues on the rig's adapter stand behind those that count its turns,
// which sweep them.
constexpr const Line* table[] = {
    &umr_single_line,       &umr_batch_line,       &patch_line,
    &raw_patch_line,        &write_line,           &empty_poll_line,
    &device_write_line,     &device_copy_line,     &gather_line,
    &gather_device_line,    &gather_floor_line,    &lookup_arena_line,
    &lookup_elsewhere_line, &inline_line,          &pool_line,
    &completion_line,       &umr_wide_single_line, &umr_wide_batch_line,
};
constexpr std::size_t wide = 2;  // the last ones want AVX2

}  // namespace

std::span<const Line* const> lines() noexcept {
  const std::span<const Line* const> all(table);
  return all.first(all.size() - (burst::widest_simd() >= Simd::avx2 ? 0 : wide));
}

}  // namespace kilim::perf
