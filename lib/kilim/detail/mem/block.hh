// SPDX-License-Identifier: BSD-3-Clause
// Block: one contiguous block of memory whose page size and NUMA node are known. It comes from EAL
// (a memzone: hugepages, or ordinary pages with --no-huge), or is mapped outside EAL.
// Owner: whoever holds it; move-only, and freed by the destructor. Set-up only; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/mem/range.hh"

struct rte_memzone;

namespace kilim::inline v1::mem {

class Block {
 public:
  // Reserves a memzone of EAL and zeroes it. `name` is unique in the process; `align` is in bytes,
  // a power of two; `socket` is a NUMA node, -1: any. EEXIST: the name is in use; ENOMEM: EAL has
  // no contiguous piece of this size; or another rte_errno of rte_memzone_reserve_aligned().
  static Result<Block> reserve(const char* name, std::size_t bytes, std::size_t align, int socket);
  // Maps zeroed memory outside EAL, in the largest of 1 GiB, 2 MiB and 4 KiB pages that `bytes`
  // fills and the machine has free; rounded up to whole pages. `socket` is the preferred NUMA node,
  // -1: any. Every page is touched, so none is missing later. EINVAL: no bytes; ENOMEM.
  static Result<Block> map(std::size_t bytes, int socket) { return map(bytes, socket, {}); }
  // This one also writes to `fall_back` why the pages are smaller than `bytes` would fill; an empty
  // string says that they are not.
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
  // Frees the memory. Memory of an EAL that was cleaned up is left alone (base/outlived.hh).
  void reset() noexcept;

 private:
  Block(const rte_memzone* zone, const Range& range) noexcept : zone_(zone), range_(range) {}
  const rte_memzone* zone_;  // null for a block outside EAL
  Range range_;
};

// The NUMA node of the page at `address`; -1: unknown, as without NUMA. get_mempolicy(2).
[[nodiscard]] int node_of(const void* address) noexcept;

}  // namespace kilim::inline v1::mem
