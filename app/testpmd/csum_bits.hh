// SPDX-License-Identifier: BSD-3-Clause
// Whose checksums the device writes: the bits of ModeOptions::csum_by_device. Testpmd has one each
// for TCP and UDP, a send WQE one for both (PRM: "Eth Segment", l4_csum). Pure, any thread.
#pragma once

#include <cstdint>

#include "kilim/queue.hh"

namespace kilim::testpmd {

struct CsumBy {
  static constexpr uint8_t ip = queue::EthOffload::l3;
  static constexpr uint8_t tcp = 1, udp = 2;
  static_assert((ip & (tcp | udp)) == 0);
};

// What a queue's WQEs may have to ask for.
constexpr uint8_t wqe_checksums(uint8_t by_device) noexcept {
  const bool l4 = (by_device & (CsumBy::tcp | CsumBy::udp)) != 0;
  return static_cast<uint8_t>((by_device & CsumBy::ip) | (l4 ? queue::EthOffload::l4 : 0));
}

}  // namespace kilim::testpmd
