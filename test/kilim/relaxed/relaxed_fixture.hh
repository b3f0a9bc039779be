// SPDX-License-Identifier: BSD-3-Clause
// For tests of relaxed regions: a registrar that counts, and an engine over a binder of an array.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "../mkey/mkey_fixture.hh"
#include "kilim/detail/relaxed/relaxed.hh"
#include "ut.hh"

namespace kilim::test {

using relaxed::Answer;
using relaxed::Region;
using relaxed::Relaxed;

inline constexpr uint64_t arena_at = 0x10'0000'0000;
inline constexpr uint64_t arena_bytes = 1 << 20;

// Registers whatever it is asked for, or what may only be read.
class Memory final : public mr::Registrar {
 public:
  Result<mr::Region> register_memory(std::span<std::byte> memory, uint32_t access,
                                     uint64_t page_bytes) override {
    if (read_only && (access & mr::Access::local_write) != 0) return Error{EFAULT, "read-only"};
    if (absent) return Error{EFAULT, "not mapped"};
    if (locked_out) return Error{ENOMEM, "beyond the limit"};
    registered++;
    const auto address = reinterpret_cast<uint64_t>(memory.data());
    return mr::Region{.address = address,
                      .length = memory.size(),
                      .iova = address,
                      .lkey = Lkey{0x7000u + registered},
                      .rkey = Rkey{0x7000u + registered},
                      .page_bytes = page_bytes,
                      .access = access};
  }
  Result<mr::Region> register_memory_at(std::span<std::byte>, Iova, uint32_t, uint64_t) override {
    std::abort();
  }
  Status deregister(const mr::Region&) override {
    deregistered++;
    return Done{};
  }
  uint32_t registered = 0, deregistered = 0;
  bool read_only = false, absent = false, locked_out = false;
};

struct Rig {
  rte_rcu_qsbr* readers = nullptr;
  Memory memory;
  BinderFixture binder;
  std::unique_ptr<Relaxed> relaxed;

  explicit Rig(uint32_t keys, rte_rcu_qsbr* qsbr = nullptr, uint32_t share = 4)
      : readers(qsbr), binder(keys, {}, BinderFixture::blocks, qsbr) {
    relaxed = *std::move(Relaxed::create(
        *binder.binder, {.keys = keys, .registrar = &memory, .flush_share = share}));
    const mr::Region arena{.address = arena_at,
                           .length = arena_bytes,
                           .iova = arena_at,
                           .lkey = Lkey{0x4200},
                           .rkey = Rkey{0x4200},
                           .page_bytes = 4096,
                           .access = mr::Access::all};
    CU_ASSERT_TRUE_FATAL(relaxed->cover().add(arena).ok());
  }
  Answer make(Region& out, uint64_t address, uint64_t bytes,
              uint32_t access = mr::Access::local_write) {
    queue::WqeCursor c{binder.sq};
    const Answer a = relaxed->register_memory(c, {address, bytes, access}, out);
    relaxed->commit(c);
    return a;
  }
  // Everything posted completes, and a round passes.
  void round() {
    (void)binder.complete();
    relaxed->poll();
  }
  // Until nothing is waiting any more; how many rounds that took.
  void settle() {
    for (int i = 0; i < 8; i++) {
      (void)relaxed->flush();
      round();
    }
  }
  [[nodiscard]] uint64_t word(uint32_t position, uint32_t offset) const {
    be64 w;
    std::memcpy(&w, reinterpret_cast<const std::byte*>(&binder.wqe(position)) + offset, sizeof w);
    return w.host();
  }
};

// Of relaxed_limits.cc.
std::span<const kilim::test::Case> relaxed_limit_cases();

}  // namespace kilim::test
