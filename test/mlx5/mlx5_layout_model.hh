// SPDX-License-Identifier: BSD-3-Clause
// Random layouts for a key, and the plain reference of what they show: pieces of several regions
// and of other keys. Knows nothing of queues or devices. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "kilim/detail/mr/region.hh"
#include "kilim/detail/umr/view.hh"

namespace kilim::test {

// A range under one key: a registered region, or another key with the ranges that it shows.
struct Range {
  Lkey key;
  uint64_t start = 0;  // the address of its first byte under the key
  uint64_t length = 0;
  std::byte* memory = nullptr;                   // of a region
  std::vector<std::span<std::byte>> shown = {};  // of another key
};

struct Layout {
  std::vector<umr::Piece> pieces;
  std::vector<std::span<std::byte>> memory;  // the same, down to memory
  uint64_t length = 0;
};

// The memory behind `length` bytes at `offset` of a range.
void resolve(const Range& range, uint64_t offset, uint64_t length,
             std::vector<std::span<std::byte>>& out);

// 1 to `most` pieces of 1 B to 64 KiB, short ones more often, anywhere in the ranges.
Layout random_layout(std::mt19937_64& random, std::span<const Range> ranges, uint32_t most);

// The reference: what a gather reads, what a scatter writes; in order, piece by piece.
void gather(const Layout& layout, std::vector<std::byte>& out);
void scatter(const Layout& layout, const std::byte* from);

}  // namespace kilim::test
