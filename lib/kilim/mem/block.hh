// SPDX-License-Identifier: BSD-3-Clause
// One contiguous block of memory for queues' buffers and arenas, with its page size and node known:
// from EAL (a memzone: hugepages, or ordinary pages with --no-huge), or mapped beside EAL.
// Owner: whoever holds it; move-only. Set-up only, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kilim/base/result.hh"
#include "kilim/mem/range.hh"

struct rte_memzone;

namespace kilim::mem {

class Block {
 public:
  // A memzone of EAL, zeroed; `align` a power of two; `socket` -1 for any node. ENOMEM where EAL
  // has no such piece.
  static Result<Block> reserve(const char* name, std::size_t bytes, std::size_t align, int socket);
  // Outside EAL, zeroed: pages of 1 GiB, then 2 MiB, then 4 KiB, the first that the machine gives
  // and `bytes` fills; on node `socket` where that is not -1. Rounded up to whole pages.
  static Result<Block> map(std::size_t bytes, int socket) { return map(bytes, socket, {}); }
  // And says in `fall_back` why the pages are smaller than `bytes` would fill; empty: they are not.
  static Result<Block> map(std::size_t bytes, int socket, std::span<char> fall_back);

  Block(Block&& o) noexcept
      : zone_(std::exchange(o.zone_, nullptr)), range_(std::exchange(o.range_, Range{})) {}
  Block& operator=(Block&& o) noexcept {
    if (this != &o) {
      reset();
      zone_ = std::exchange(o.zone_, nullptr);
      range_ = std::exchange(o.range_, Range{});
    }
    return *this;
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { reset(); }

  [[nodiscard]] const Range& range() const noexcept { return range_; }
  [[nodiscard]] std::span<std::byte> span() const noexcept { return range_.span(); }
  void reset() noexcept;

 private:
  Block(const rte_memzone* zone, const Range& range) noexcept : zone_(zone), range_(range) {}
  const rte_memzone* zone_;  // null for a block outside EAL
  Range range_;
};

// The NUMA node that backs `address` now, -1 where the machine does not say.
[[nodiscard]] int node_of(const void* address) noexcept;

}  // namespace kilim::mem
