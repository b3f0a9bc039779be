// SPDX-License-Identifier: BSD-3-Clause
#include "perf/two_sided/content.hh"

namespace kilim::perf {
namespace {

constexpr std::size_t stamp_bytes = sizeof(uint64_t);

constexpr std::byte filler(std::size_t i, uint32_t queue) noexcept {
  return static_cast<std::byte>((i * 2654435761u >> 16) + i + queue * 31 + 1);
}
constexpr std::byte stamp(std::size_t i, uint64_t number) noexcept {
  return static_cast<std::byte>((number + 1) >> (8 * i));
}

}  // namespace

void stamp_message(std::span<std::byte> to, uint64_t number) noexcept {
  for (std::size_t i = 0; i < to.size() && i < stamp_bytes; i++) to[i] = stamp(i, number);
}

void fill_message(std::span<std::byte> to, uint32_t queue, uint64_t number) noexcept {
  stamp_message(to, number);
  for (std::size_t i = stamp_bytes; i < to.size(); i++) to[i] = filler(i, queue);
}

bool is_message(std::span<const std::byte> at, uint32_t queue, uint64_t number) noexcept {
  for (std::size_t i = 0; i < at.size(); i++)
    if (at[i] != (i < stamp_bytes ? stamp(i, number) : filler(i, queue))) return false;
  return true;
}

}  // namespace kilim::perf
