// SPDX-License-Identifier: BSD-3-Clause
// Packets forwarded to a queue whose packets may ask for something, by a source of its own: what is
// compiled here changes no inlining of the lines that ask for nothing (line_packet.cc).
#include "perf/packet/forward.hh"
#include "perf/packet/words.hh"

namespace kilim::perf {
namespace {

constexpr Line table[] = {
    forward_line<ways::avx2_unasked>("packets forwarded, io, AVX2, many a WQE, words but none asks",
                                     47),
    forward_line<ways::avx2_sums>("packets forwarded, io, AVX2, each asks for checksums", 67),
    forward_line<ways::avx2_tags>("packets forwarded, io, AVX2, each asks for a tag", 100),
};

}  // namespace

std::span<const Line> word_lines() noexcept {
  return table;
}

}  // namespace kilim::perf
