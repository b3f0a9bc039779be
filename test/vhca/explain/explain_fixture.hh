// SPDX-License-Identifier: BSD-3-Clause
// For tests of what the device explains: two queues that say why, keys of all kinds of trouble, and
// standard error as a text. Owner: one test case.
#pragma once

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ut.hh"
#include "vhca/hca/hca.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {

inline RigShape explained(bool on = true) {
  RigShape shape;
  shape.explain = on;
  return shape;
}

struct ExplainBench : Rig {
  explicit ExplainBench(const RigShape& shape = explained()) : Rig(shape) {
    good_src = reg(src, rw_access);
    good = reg(dst, rw_access);
    read_only = reg(dst, access::remote_read);
    const MrSpec foreign{*hca::alloc_pd(*hca), dst.va(), dst.size(), Iova{dst.at(0)}, rw_access};
    other_pd = *hca::reg_mr(*hca, foreign);
    freed = reg(dst, rw_access).rkey.value();
    EQUAL(hca::dereg_mr(*hca, MkeyIndex{freed >> 8}), 0);
    stale = (good.rkey.value() & ~0xffu) | ((good.rkey.value() + 1) & 0xff);
    invalid = make_key(4);
  }

  // A WRITE from one local key to one remote one.
  Wqe write(uint32_t lkey, uint32_t rkey, uint32_t bytes = 64) {
    Wqe w(Opcode::rdma_write);
    w.raddr(dst.at(0), rkey).data(src.at(0), bytes, lkey);
    return w;
  }
  Wqe write_from(uint32_t lkey) { return write(lkey, good.rkey.value()); }
  Wqe write_to(uint32_t rkey) { return write(good_src.lkey.value(), rkey); }
  // One SEND into a receive of `bytes` bytes under a key.
  Wqe send_into(uint32_t bytes, uint32_t lkey) {
    b.recv(dst.at(0), bytes, lkey);
    return Wqe(Opcode::send).data(src.at(0), 64, good_src.lkey.value());
  }
  // The key of a list whose second entry names a key that does not exist.
  uint32_t broken_list() {
    const uint32_t key = make_key(4);
    const std::array<prm::Klm, 2> list = {klm(src.at(0), 32, good_src.lkey.value()),
                                          klm(src.at(64), 32, 0x66666600)};
    UmrShape shape;
    shape.len = 64;
    EQUAL(run_one(a, umr_wqe(key, shape, list)).syndrome, Syndrome::none);
    return key;
  }

  // The key of a list of 64 bytes that WQE 0 of the first queue has filled.
  uint32_t filled() {
    const uint32_t key = make_key(4, true, true);
    const prm::Klm piece = klm(dst.at(0), 64, good.lkey.value());
    UmrShape shape;
    shape.len = 64;
    EQUAL(run_one(a, umr_wqe(key, shape, {&piece, 1})).syndrome, Syndrome::none);
    return key;
  }
  // Hands the key back after one more request of the first queue.
  uint32_t filled_then(uint32_t key, Wqe next) {
    b.recv(dst.at(4096), 64, good.lkey.value());
    EQUAL(run_one(a, next).syndrome, Syndrome::none);
    return key;
  }

  Pages src{8192}, dst{8192};
  MrKeys good_src{}, good{}, read_only{}, other_pd{};
  uint32_t freed = 0, stale = 0, invalid = 0;
};

// Standard error in a file while f() runs.
template <typename F>
std::string stderr_of(F f) {
  const int file = ::memfd_create("stderr", 0);
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

// Runs f() as a process that may lock no memory.
inline int without_locked_memory(const std::function<int()>& f) {
  ::unsetenv("KILIM_VHCA_MEMLOCK");
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct had[_LINUX_CAPABILITY_U32S_3]{};
  EQUAL(::syscall(SYS_capget, &head, had), 0);
  __user_cap_data_struct less[_LINUX_CAPABILITY_U32S_3] = {had[0], had[1]};
  less[0].effective &= ~(1u << CAP_IPC_LOCK);
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const rlimit none{0, limit.rlim_max};
  EQUAL(::syscall(SYS_capset, &head, less), 0);
  ::setrlimit(RLIMIT_MEMLOCK, &none);
  const int error = f();
  ::setrlimit(RLIMIT_MEMLOCK, &limit);
  EQUAL(::syscall(SYS_capset, &head, had), 0);
  return error;
}

inline std::size_t lines_of(const std::string& text) {
  std::size_t n = 0;
  for (const char c : text) n += c == '\n' ? 1 : 0;
  return n;
}

// "0x1f".
inline std::string hex(uint64_t n) {
  char text[20];
  std::snprintf(text, sizeof text, "%#llx", static_cast<unsigned long long>(n));
  return text;
}

inline void says(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) std::printf("\n    no '%s' in: %s", part.c_str(), text.c_str());
  CU_ASSERT(found);
}

}  // namespace kilim::vhca::test
