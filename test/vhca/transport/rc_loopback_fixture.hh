// SPDX-License-Identifier: BSD-3-Clause
// For tests of RC on one adapter: two queues connected to each other, and two regions.
#pragma once

#include <cstring>
#include <random>
#include <span>

#include "ut.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {

using prm::CqeOpcode;

inline void fill(const Pages& p, unsigned seed) {
  std::minstd_rand r(seed);
  for (std::size_t i = 0; i < p.size(); i++) p.data()[i] = static_cast<std::byte>(r());
}

inline bool same(const std::byte* x, const std::byte* y, std::size_t n) {
  return std::memcmp(x, y, n) == 0;
}

struct Bench {
  explicit Bench(const RigShape& s = {}) : rig(s), src(65536), dst(65536) {
    fill(src, 7);
    ks = rig.reg(src, rw_access);
    kd = rig.reg(dst, rw_access);
  }
  Rig rig;
  Pages src, dst;
  MrKeys ks{}, kd{};
};

// Of rc_invalidate.cc.
std::span<const kilim::test::Case> rc_invalidate_cases();

}  // namespace kilim::vhca::test
