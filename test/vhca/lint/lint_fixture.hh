// SPDX-License-Identifier: BSD-3-Clause
// For tests of the adapter's linter: two queues, memory, and a key that a UMR may change. Owner:
// one test case.
#pragma once

#include "vhca/hca/hca.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {

inline RigShape linted(LintMode mode, uint8_t umr_fence = 1) {
  RigShape shape;
  shape.lint = mode;
  shape.profile.umr_fence = umr_fence;
  return shape;
}

struct Bench : Rig {
  explicit Bench(LintMode mode, uint8_t umr_fence = 1) : Bench(linted(mode, umr_fence)) {}
  explicit Bench(const RigShape& shape)
      : Rig(shape), memory(65536), keys(reg(memory, rw_access)), key(make_key(8)) {}

  [[nodiscard]] uint64_t count(prm::lint::Rule r) { return hca->lint->count(r); }
  [[nodiscard]] uint64_t findings() { return hca->lint->findings(); }
  [[nodiscard]] uint32_t lkey() const { return keys.lkey.value(); }
  [[nodiscard]] uint32_t rkey() const { return keys.rkey.value(); }

  Wqe umr() {
    UmrShape shape;
    shape.len = 256;
    prm::Klm entries[2] = {klm(memory.at(0), 128, lkey()), klm(memory.at(4096), 128, lkey())};
    return umr_wqe(key, shape, entries);
  }
  // Through the key from its offset 0.
  Wqe write(uint8_t fence = 0, uint32_t bytes = 64) {
    Wqe w(prm::Opcode::rdma_write);
    w.raddr(memory.at(32768), rkey()).data(0, bytes, key);
    w.flags = static_cast<uint8_t>(w.flags | fence);
    return w;
  }
  Wqe plain(prm::Opcode op = prm::Opcode::rdma_write) {
    Wqe w(op);
    w.raddr(memory.at(32768), rkey()).data(memory.at(0), 64, lkey());
    return w;
  }
  void go(TestQp& qp) {
    qp.ring(uar);
    run();
  }
  void finish(TestQp& qp) {
    go(qp);
    while (cq_a.poll() || cq_b.poll()) {
    }
  }

  Pages memory;
  MrKeys keys;
  uint32_t key;
};

}  // namespace kilim::vhca::test
