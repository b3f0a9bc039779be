// SPDX-License-Identifier: BSD-3-Clause
// Mode macswap: source and destination address change places.
#include <cstring>

#include "forward.hh"

namespace kilim::testpmd {
namespace {

uint32_t run_macswap(Stream& s) noexcept {
  return forward(s, [](std::span<std::byte> frame) noexcept {
    if (frame.size() < 12) return;
    std::byte both[12];
    std::memcpy(both, frame.data(), 12);
    std::memcpy(frame.data(), both + 6, 6);
    std::memcpy(frame.data() + 6, both, 6);
  });
}

}  // namespace

const Engine macswap_engine{
    "macswap", "source and destination address change places", true, true, false, run_macswap};

}  // namespace kilim::testpmd
