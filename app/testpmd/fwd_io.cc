// SPDX-License-Identifier: BSD-3-Clause
// Mode io: packets go out as they came in.
#include "forward.hh"

namespace kilim::testpmd {
namespace {

uint32_t run_io(Stream& s) noexcept {
  return forward(s, [](std::span<std::byte>) noexcept {});
}

}  // namespace

const Engine io_engine{"io", "packets go out as they came in", true, true, false, run_io};

}  // namespace kilim::testpmd
