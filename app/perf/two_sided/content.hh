// SPDX-License-Identifier: BSD-3-Clause
// What messages hold under --check: the number of the message, then bytes that follow from queue
// and place. Any thread; for checks, not for measurements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kilim::perf {

void fill_message(std::span<std::byte> to, uint32_t queue, uint64_t number) noexcept;
// The number alone: the rest lies there already.
void stamp_message(std::span<std::byte> to, uint64_t number) noexcept;
[[nodiscard]] bool is_message(std::span<const std::byte> at, uint32_t queue,
                              uint64_t number) noexcept;

}  // namespace kilim::perf
