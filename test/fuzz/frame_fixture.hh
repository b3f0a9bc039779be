// SPDX-License-Identifier: BSD-3-Clause
// What the harness of frames and its seeds share: addresses, first packet numbers, the first byte.
#pragma once

#include "machine_fixture.hh"
#include "vhca/core/address.hh"

namespace kilim::fuzz {

using vhca::Mac;

inline constexpr Mac own_mac = vhca::test::test_mac, peer_mac = {2, 0, 0, 0, 0, 9};
inline constexpr uint32_t own_psn = 0xfffff0, peer_psn = 5;

inline constexpr uint8_t dynamic = 8;  // of the first byte: an initiator and a target instead

}  // namespace kilim::fuzz
