// SPDX-License-Identifier: BSD-3-Clause
// For tests of EAL's memory: a registrar that keeps what is registered.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <map>
#include <span>

#include "hot_plug.hh"
#include "kilim/detail/mr/eal_regions.hh"
#include "ut.hh"

namespace kilim::test {

using namespace mr;

using kilim::test::hot_plug;
using Coming = kilim::test::ComingMemory<EalRegions>;

inline constexpr std::size_t huge = kilim::test::huge_page;

// Keeps what is registered; overlaps with what is there are allowed, as on a device.
class Keeper final : public Registrar {
 public:
  Result<Region> register_memory(std::span<std::byte> memory, uint32_t access,
                                 uint64_t page_bytes) override {
    if (live.size() == room || keys + 1 == standing.size()) return Error{ENOMEM, "no room"};
    Region r;
    r.address = r.iova = reinterpret_cast<uintptr_t>(memory.data());
    r.length = memory.size();
    r.lkey = Lkey{++keys};
    r.page_bytes = page_bytes;
    r.access = access;
    live[r.lkey.value()] = r;
    standing[keys].store(true, std::memory_order_relaxed);
    return r;
  }
  Result<Region> register_memory_at(std::span<std::byte> memory, Iova, uint32_t access,
                                    uint64_t page_bytes) override {
    return register_memory(memory, access, page_bytes);
  }
  Status deregister(const Region& r) override {
    if (live.erase(r.lkey.value()) == 0) return Error{EINVAL, "not there"};
    standing[r.lkey.value()].store(false, std::memory_order_relaxed);
    return Done{};
  }
  [[nodiscard]] bool covers(const void* at, std::size_t bytes) const {
    return std::any_of(live.begin(), live.end(), [&](const auto& r) {
      return r.second.covers(reinterpret_cast<uintptr_t>(at), bytes);
    });
  }
  std::map<uint32_t, Region> live;
  std::array<std::atomic<bool>, 4096> standing{};  // by key: the same for other threads
  std::size_t room = 1000;
  uint32_t keys = 0;
};

// Of eal_index.cc.
std::span<const kilim::test::Case> eal_index_cases();

}  // namespace kilim::test
