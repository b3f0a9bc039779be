// SPDX-License-Identifier: BSD-3-Clause
// Mode mac: the source becomes the sending port's address, the destination the peer's.
#include <cstring>

#include "forward.hh"

namespace kilim::testpmd {
namespace {

uint32_t run_mac(Stream& s) noexcept {
  const Mac& source = own_mac(s);
  const Mac& peer = s.peer;
  return forward(s, [&source, &peer](std::span<std::byte> frame) noexcept {
    if (frame.size() < 12) return;
    std::memcpy(frame.data(), peer.data(), 6);
    std::memcpy(frame.data() + 6, source.data(), 6);
  });
}

}  // namespace

const Engine mac_engine{
    "mac", "source becomes the port's address, destination the peer's", true, true, false, run_mac};

}  // namespace kilim::testpmd
