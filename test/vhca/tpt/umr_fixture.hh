// SPDX-License-Identifier: BSD-3-Clause
// A rig with a source and a destination for tests of UMR: configure a key, gather through it,
// compare. Owner: one test case.
#pragma once

#include <cstring>
#include <span>

#include "kilim/prm/data_seg.hh"
#include "ut.hh"
#include "vhca/hca/hca.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {

struct UmrBench {
  explicit UmrBench(const RigShape& s = {}) : rig(s) {
    for (std::size_t i = 0; i < src.size(); i++)
      src.data()[i] = static_cast<std::byte>(i * 7 + i / 256);
    ks = rig.reg(src, rw_access);
    kd = rig.reg(dst, rw_access);
    lkey = ks.lkey.value();
  }
  prm::Syndrome post(const Wqe& w) { return rig.run_one(rig.a, w).syndrome; }
  prm::Syndrome configure(uint32_t key, uint64_t len, std::span<const prm::Klm> list) {
    UmrShape shape;
    shape.len = len;
    return post(umr_wqe(key, shape, list));
  }
  // Gathers through the key into dst.
  prm::Syndrome gather(uint32_t key, uint64_t addr, uint32_t n) {
    Wqe w(prm::Opcode::rdma_write);
    w.raddr(dst.at(0), kd.rkey.value()).data(addr, n, key);
    return post(w);
  }
  [[nodiscard]] bool got(std::size_t at, std::size_t from, std::size_t n) const {
    return std::memcmp(dst.data() + at, src.data() + from, n) == 0;
  }
  prm::Klm piece(std::size_t at, uint32_t n) const { return klm(src.at(at), n, lkey); }
  Rig rig;
  Pages src{65536}, dst{65536};
  MrKeys ks{}, kd{};
  uint32_t lkey = 0;
};

// The list lies in registered memory; the WQE carries a pointer.
inline Wqe by_pointer(uint32_t key, uint64_t len, uint64_t addr, uint32_t entries,
                      uint32_t list_key) {
  UmrShape shape;
  shape.flags = 0;
  shape.len = len;
  Wqe w = umr_wqe(key, shape, {});
  auto octowords = static_cast<uint16_t>((entries + 3) / 4 * 4);
  be16 n{octowords};
  std::memcpy(w.bytes.data() + 16 + 4, &n, sizeof(n));
  return w.data(addr, octowords * 16u, list_key);
}

// Of umr_state.cc.
std::span<const kilim::test::Case> umr_state_cases();

}  // namespace kilim::vhca::test
