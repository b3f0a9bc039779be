// SPDX-License-Identifier: BSD-3-Clause
// What lookups are measured against: a bare array, a table of two levels in the manner of SPDK's
// memory map, and the registration cache of Debian's UCX.
// One thread. Set up before it is measured.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kilim::perf {

// A word for each 2 MiB from `base`; whoever asks outside reads what is not there.
struct FlatArray {
  uint64_t base;
  std::vector<uint32_t> keys;
};

// 2^18 pointers, each to 512 words of a GiB: an address is judged, the upper and the lower table
// are read, and `size` is cut to what the entry speaks of. A function of a library there, so it is
// one that is called here.
class TwoLevelMap {
 public:
  TwoLevelMap();
  void set(uint64_t address, uint64_t translation);
  [[nodiscard, gnu::noinline]] uint64_t translate(uint64_t address, uint64_t* size) const noexcept;

 private:
  struct Lower {
    uint64_t translations[512];
  };
  std::vector<std::unique_ptr<Lower>> upper_;
};

// libucs.so.0 as the package libucx0 installs it, if it is there; its header is in another package,
// so that what is needed of it is declared here.
class RegistrationCache {
 public:
  static std::unique_ptr<RegistrationCache> open(std::string& why);
  ~RegistrationCache();
  RegistrationCache(const RegistrationCache&) = delete;
  RegistrationCache& operator=(const RegistrationCache&) = delete;

  // Takes the region around an address, registering it if need be, gives it back; its key. 0:
  // refused.
  [[nodiscard]] uint32_t get_and_put(uint64_t address, uint64_t bytes) noexcept;

 private:
  RegistrationCache() = default;
  struct Functions;
  std::unique_ptr<Functions> functions_;
  void* library_ = nullptr;
  void* cache_ = nullptr;
};

}  // namespace kilim::perf
