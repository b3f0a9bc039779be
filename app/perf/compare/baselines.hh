// SPDX-License-Identifier: BSD-3-Clause
// Baselines for lookups: a flat array, a table of two levels like SPDK's memory map, and the
// registration cache of Debian's UCX.
// One thread. Set up before the measurement.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kilim::perf {

// A word for each 2 MiB from `base`; addresses outside are not checked.
struct FlatArray {
  uint64_t base;
  std::vector<uint32_t> keys;
};

// 2^18 pointers, each to 512 words of a GiB: translate() checks the address, reads the upper and
// the lower table, and limits `size` to the entry's 2 MiB. SPDK has it in a library, so it is not
// inlined here either.
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

// libucs.so.0 of the package libucx0, if it is installed; its header is in another package, so the
// declarations needed are here.
class RegistrationCache {
 public:
  static std::unique_ptr<RegistrationCache> open(std::string& why);
  ~RegistrationCache();
  RegistrationCache(const RegistrationCache&) = delete;
  RegistrationCache& operator=(const RegistrationCache&) = delete;

  // Gets the region around an address, registering it if necessary, and puts it; returns its key.
  // 0: an error.
  [[nodiscard]] uint32_t get_and_put(uint64_t address, uint64_t bytes) noexcept;

 private:
  RegistrationCache() = default;
  struct Functions;
  std::unique_ptr<Functions> functions_;
  void* library_ = nullptr;
  void* cache_ = nullptr;
};

}  // namespace kilim::perf
