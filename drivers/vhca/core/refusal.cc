// SPDX-License-Identifier: BSD-3-Clause
// The rows, and the thread's note. Any thread, its own note alone. Never allocates.
#include "vhca/core/refusal.hh"

#include <algorithm>
#include <iterator>

namespace kilim::vhca::refusal {

namespace {

// clang-format off
constexpr Row table[] = {
    {Why::most, " is {0d}, it must be {1d} at most"},
    {Why::least, " is {0d}, it must be {1d} at least"},
    {Why::equal, " is {0}, it must be {1} here"},
    {Why::bits, " is {0}, and only these bits may be set in it here: {1}"},
    {Why::state, " is {0d}, which is not reached from state {1d}, where it is"},
    {Why::absent, " is {0}, which names nothing that is there: destroyed already, made by another context, or unknown to the device?"},
    {Why::descriptor, " is descriptor {0d}, which is no file of the kind that it must be"},
    {Why::clash, " ({0}) goes not together with what else was asked for ({1})"},
    {Why::lacks, " is asked for, and the device has none in this profile: leave it out, or take a profile that has it"},
    {Why::busy, " is used by {0d} other objects still: destroy them first"},
    {Why::full, ": there is no room for another one"},
    {Why::bytes, " has {0d} bytes, it needs {1d}"},
    {Why::attribute, " {0} of the ioctl is missing, unknown, there twice or of another size ({1d} bytes): is rdma-core older or newer than the device knows?"},
    {Why::fault, " {0} is of no memory of this process, or of memory without the rights that are needed"},
    {Why::text, ""},
};
// clang-format on

thread_local Note kept;

}  // namespace

std::span<const Row> rows() noexcept {
  return table;
}

const char* sentence_of(Why why) noexcept {
  const auto* row = std::find_if(std::begin(table), std::end(table),
                                 [why](const Row& r) { return r.why == why; });
  return row != std::end(table) ? row->sentence : "";
}

int note(int error, const Note& n) noexcept {
  kept = n;
  return -error;
}

Note take() noexcept {
  const Note n = kept;
  kept = {};
  return n;
}

void forget(Why left) noexcept {
  kept.why = left;
}

int text(int error, const char* sentence) noexcept {
  if (kept.why == Why::none && *sentence != '\0') kept = {Why::text, sentence};
  return -error;
}

}  // namespace kilim::vhca::refusal
