// SPDX-License-Identifier: BSD-3-Clause
// What became of the memory behind pinned keys since they were registered: a card keeps the pages
// that it pinned, whatever the process unmaps, so what is mapped there next is not what the key
// shows. Heard by the means of on-demand paging. Owner: the linter; the adapter's lock held. A
// key's registration allocates, nothing else.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "vhca/tpt/mkey.hh"
#include "vhca/tpt/page_events.hh"

namespace kilim::vhca::lint {

class LintRegions {
 public:
  // A key was registered, or stands for other memory now.
  void add(const tpt::Mkey&);
  void remove(uint32_t index) noexcept { regions_.erase(index); }

  // The address within the range at which memory went away since the key was registered; 0: none
  // did.
  [[nodiscard]] uint64_t lost(uint32_t index, uint64_t va, uint64_t bytes) const noexcept;

  // Calls told(key, address) once for each key that lost memory since the last time.
  template <typename Told>
  void each_new(Told told) noexcept {
    if (!news_.load(std::memory_order_acquire)) return;
    news_.store(false, std::memory_order_release);
    for (auto& [index, region] : regions_) {
      if (const uint64_t at = region->pop_news(); at != 0) told(region->key, at);
    }
  }

 private:
  struct Region final : tpt::WatchedRange {
    Region(std::atomic<bool>& all_news, const tpt::Mkey&);
    ~Region() override;
    void invalidated(const tpt::PageRange&) noexcept override;
    // The first address lost; 0: none, or it has been asked before.
    uint64_t pop_news() noexcept;

    const uint32_t key;
    std::atomic<bool>& news;
    std::array<tpt::PageRange, 4>
        gone{};  // what exceeds the room widens the last; under the page lock
    bool told = false;
  };
  std::atomic<bool> news_{false};
  std::unordered_map<uint32_t, std::unique_ptr<Region>> regions_;
};

}  // namespace kilim::vhca::lint
