// SPDX-License-Identifier: BSD-3-Clause
// What the harness of WQEs and its seeds share: the first byte, and how a seed begins and ends.
#pragma once

#include "machine_fixture.hh"

namespace kilim::fuzz {

using namespace vhca;
using prm::Opcode;
using vhca::test::Wqe;

inline constexpr QpType kinds[] = {QpType::rc, QpType::uc, QpType::ud, QpType::raw_packet};

inline constexpr uint8_t dynamic = 64;  // of the first byte: an initiator and a target instead

inline constexpr uint8_t weak = 128;  // of the first byte: what no fence holds is late

inline Script begin(QpType type) {
  Script s;
  for (uint8_t k = 0; k < 4; k++) {
    if (kinds[k] == type) s.put(k);
  }
  return s;
}

inline Script& work(Script& s) {
  step(s, Step::ring, 0);
  step(s, Step::run, 200);
  return step(s, Step::poll, 8);
}

inline constexpr uint64_t here = address_token(0, 0x100), there = address_token(0, 0x8000);
inline constexpr uint32_t region = key_token, list = key_token | 3, other_list = key_token | 4;

// The key keeps its tag: only the token of the key is known here.
struct UmrShape : vhca::test::UmrShape {
  UmrShape() { mask &= ~prm::umr::mask_mkey; }
};

// Seeds that change keys, of wqe_umr_seeds.cc.
Script list_seed();
Script nested_seed();
Script strided_seed();
Script signed_seed();

}  // namespace kilim::fuzz
