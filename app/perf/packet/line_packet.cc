// SPDX-License-Identifier: BSD-3-Clause
// Packets of 64 bytes forwarded from one queue to another, 32 at a time, with packet type, hash,
// checksum status and statistics: Kilim's bursts against the floor loop (floor.hh), each with rings
// and a pool of its own, in each Way. Mode mac writes both Ethernet addresses.
#include <vector>

#include "kilim/detail/burst/simd.hh"
#include "perf/compare/line.hh"
#include "perf/packet/forward.hh"
#include "perf/packet/words.hh"

namespace kilim::perf {
namespace {

constexpr Line table[] = {
    forward_line<ways::sse>("packets forwarded, io", 55),
    forward_line<ways::sse_mac>("packets forwarded, mac", 63),
    forward_line<ways::sse_mpw>("packets forwarded, io, many a WQE", 50),
    forward_line<ways::sse_all>("packets forwarded, io, VLAN, time", 62),
    forward_line<ways::avx2>("packets forwarded, io, AVX2", 45),
    forward_line<ways::avx2_mac>("packets forwarded, mac, AVX2", 54),
    forward_line<ways::avx2_mpw>("packets forwarded, io, AVX2, many a WQE", 42),
    forward_line<ways::avx2_mpw_mac>("packets forwarded, mac, AVX2, many a WQE", 50),
    forward_line<ways::avx2_all>("packets forwarded, io, AVX2, many a WQE, VLAN, time", 48),
};
constexpr std::size_t without_avx2 = 4;  // lines for any processor

}  // namespace

std::span<const Line> packet_lines() noexcept {
  static const std::vector<Line> all = [] {
    const std::span own(table);
    const bool wide = burst::widest_simd() >= burst::Simd::avx2;
    std::vector<Line> lines(own.begin(), wide ? own.end() : own.begin() + without_avx2);
    const auto add = [&lines](std::span<const Line> more) {
      lines.insert(lines.end(), more.begin(), more.end());
    };
    if (wide) add(word_lines());
    add(form_lines());
    return lines;
  }();
  return all;
}

}  // namespace kilim::perf
