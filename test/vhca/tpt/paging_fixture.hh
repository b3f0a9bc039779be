// SPDX-License-Identifier: BSD-3-Clause
// For tests of on-demand paging: mappings of any kind, and a client with a pinned buffer beside
// them. Owner: one test case.
#pragma once

#include <cerrno>
#include <cstring>

#include <sys/mman.h>

#include "far.hh"
#include "ut.hh"
#include "vhca/hca/hca.hh"
#include "vhca/tpt/page_events.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {

using Kind = Journal::Kind;

inline constexpr std::size_t page = 4096;
inline constexpr uint32_t odp_access = rw_access | access::on_demand;
inline constexpr uint32_t read_only = access::remote_read | access::on_demand;

class Mapping {
 public:
  explicit Mapping(std::size_t bytes, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1,
                   int prot = PROT_READ | PROT_WRITE)
      : bytes_(bytes) {
    void* p = ::mmap(kilim::test::far_from_all(bytes), bytes, prot, flags, fd, 0);
    at_ = p == MAP_FAILED ? 0 : reinterpret_cast<uint64_t>(p);
  }
  ~Mapping() { unmap(); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  void unmap() {
    if (at_ != 0) ::munmap(pointer(), bytes_);
    at_ = 0;
  }
  [[nodiscard]] bool ok() const { return at_ != 0; }
  [[nodiscard]] uint64_t at(std::size_t offset = 0) const { return at_ + offset; }
  [[nodiscard]] uint8_t* bytes() const { return static_cast<uint8_t*>(pointer()); }
  [[nodiscard]] void* pointer() const { return reinterpret_cast<void*>(at_); }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  uint64_t at_ = 0;
  std::size_t bytes_;
};

// A pinned buffer to write from and read to, and whatever a case registers.
struct Bench {
  explicit Bench(const RigShape& shape = {}) : rig(shape) {
    for (std::size_t i = 0; i < own.size(); i++) own.data()[i] = static_cast<std::byte>(i * 5 + 1);
    ko = rig.reg(own, rw_access);
  }
  // The caller of munmap() goes on when its event is read, under the lock: applied it is behind it.
  [[nodiscard]] uint64_t stat(tpt::OdpCounter c) {
    const tpt::PageLock lock;
    return rig.hca->paging.stats().read(c);
  }
  Syndrome write(uint64_t to, uint32_t rkey, uint32_t n, std::size_t from = 0) {
    Wqe w(Opcode::rdma_write);
    w.raddr(to, rkey).data(own.at(from), n, ko.lkey.value());
    return rig.run_one(rig.a, w).syndrome;
  }
  Syndrome read(uint64_t from, uint32_t rkey, uint32_t n) {
    Wqe w(Opcode::rdma_read);
    w.raddr(from, rkey).data(own.at(32768), n, ko.lkey.value());
    return rig.run_one(rig.a, w).syndrome;
  }
  MrKeys reg(const Mapping& m, uint32_t access = odp_access) {
    return rig.reg(Va{m.at()}, m.size(), access);
  }
  int advise(tpt::Paging::Advice advice, bool flush, uint64_t at, uint32_t n, uint32_t key) {
    hca::Advice::Range range{at, n, key};
    return hca::advise_mr(*rig.hca, {rig.pd, static_cast<uint32_t>(advice), flush, {&range, 1}});
  }
  Rig rig;
  Pages own{65536};
  MrKeys ko{};
};

using enum tpt::OdpCounter;

}  // namespace kilim::vhca::test
