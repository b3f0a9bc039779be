// SPDX-License-Identifier: BSD-3-Clause
// For tests of the adapter's linter: two queues, memory, and a key that a UMR may change. Owner:
// one test case.
#pragma once

#include <span>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "ut.hh"
#include "vhca/hca/hca.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {

inline RigShape linted(lint::LintMode mode, uint8_t umr_fence = 1) {
  RigShape shape;
  shape.lint = mode;
  shape.profile.umr_fence = umr_fence;
  return shape;
}

struct Bench : Rig {
  explicit Bench(lint::LintMode mode, uint8_t umr_fence = 1) : Bench(linted(mode, umr_fence)) {}
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

// Standard error in a file while f() runs.
template <typename F>
std::string told(F f) {
  const int file = ::memfd_create("told", 0);
  CU_ASSERT_FATAL(file >= 0);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(file, STDERR_FILENO);
  f();
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  std::string text(100000, '\0');
  const ssize_t n = ::pread(file, text.data(), text.size(), 0);
  ::close(file);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

inline void expect(const std::string& text, const char* part) {
  if (text.find(part) == std::string::npos) std::printf("no '%s' in: %s\n", part, text.c_str());
  CU_ASSERT_NOT_EQUAL(text.find(part), std::string::npos);
}

inline void send(Bench& b) {
  b.a.put(Wqe(Opcode::send).data(b.memory.at(0), 64, b.lkey()));
  b.go(b.a);
}

// Of lint_peer.cc.
std::span<const kilim::test::Case> lint_peer_cases();

// Of lint_queues.cc.
std::span<const kilim::test::Case> lint_queue_cases();

}  // namespace kilim::vhca::test
