// SPDX-License-Identifier: BSD-3-Clause
// All of EAL's memory registered, and kept so: memory that EAL adds is registered before its
// allocation returns, memory that it gives back is deregistered before it is unmapped.
// Owner: the control lcore. EAL's events come on whatever thread allocates; a mutex guards what is
// kept. Without hugepages EAL has no such events: then it is the memory of the moment of create().
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "kilim/base/counter.hh"
#include "kilim/base/result.hh"
#include "kilim/mr/registrar.hh"

namespace kilim::mr {

class EalRegions {
 public:
  // Who keeps an index: told of each region after it is registered and before it is deregistered,
  // on the thread that allocates. It must not allocate from EAL.
  struct Listener {
    void* arg = nullptr;
    void (*added)(void* arg, const Region& region) = nullptr;
    void (*removed)(void* arg, const Region& region) = nullptr;
    // Asked behind it, and may wait: whether nobody can hold the key any more. If not, the region
    // stays registered and is asked about again when memory goes next, and once at the end.
    bool (*gone)(void* arg, const Region& region) = nullptr;
  };
  struct Counts {
    uint64_t registered = 0;    // regions, since create()
    uint64_t deregistered = 0;  // likewise
    uint64_t failed = 0;        // pieces of memory that could not be registered
    uint64_t late = 0;          // times that memory went and its region stayed, by gone()
  };

  static Result<std::unique_ptr<EalRegions>> create(Registrar& registrar, uint32_t access,
                                                    const Listener& listener);
  static Result<std::unique_ptr<EalRegions>> create(Registrar& registrar, uint32_t access) {
    return create(registrar, access, Listener{});
  }
  ~EalRegions();
  EalRegions(const EalRegions&) = delete;
  EalRegions& operator=(const EalRegions&) = delete;

  // Whether EAL tells of memory that comes and goes.
  [[nodiscard]] bool follows() const noexcept { return follows_; }
  [[nodiscard]] std::vector<Region> regions() const;
  [[nodiscard]] Counts counts() const noexcept {
    return {registered_.read(), deregistered_.read(), failed_.read(), late_.read()};
  }

  // EAL's events, EAL's memory lock held. Where only a part of a region goes, the rest gets regions
  // of its own, under new keys, first.
  void appeared(std::span<std::byte> memory);
  void vanishing(std::span<std::byte> memory);

 private:
  EalRegions(Registrar& registrar, uint32_t access, const Listener& listener) noexcept
      : registrar_(registrar), access_(access), listener_(listener) {}
  Status add(std::span<std::byte> memory, uint64_t page_bytes);
  void leave(const Region& region);
  void settle();
  void deregister(const Region& region);

  Registrar& registrar_;
  const uint32_t access_;
  const Listener listener_;
  bool follows_ = false;
  mutable std::mutex mutex_;
  std::map<uint64_t, Region> regions_;  // by address
  std::vector<Region> leaving_;         // told of, not yet deregistered; the oldest first
  Counter registered_, deregistered_, failed_, late_;
};

}  // namespace kilim::mr
