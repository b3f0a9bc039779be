// SPDX-License-Identifier: BSD-3-Clause
// What each command of endpoints.cc's table answers: a function a command, which fills the answer's
// dictionary from the rooms' lists. EAL's telemetry threads, several at once; nothing here touches
// what a worker owns. Parameters are a stranger's bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "kilim/detail/telemetry/dict.hh"

namespace kilim::inline v1::telemetry {

// The parameters behind a command's first comma.
class Words {
 public:
  explicit Words(const char* text) noexcept : rest_(text == nullptr ? "" : text) {}
  [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }
  // The word up to the next comma, which is taken away.
  std::string_view next() noexcept {
    const std::size_t comma = rest_.find(',');
    const std::string_view word = rest_.substr(0, comma);
    rest_.remove_prefix(comma == std::string_view::npos ? rest_.size() : comma + 1);
    return word;
  }

 private:
  std::string_view rest_;
};

// A decimal number and nothing else.
std::optional<uint32_t> number_in(std::string_view word) noexcept;

using Answer = void(Words words, const Dict& out);

Answer answer_list, answer_info, answer_stats, answer_xstats, answer_queues, answer_flows;  // ports
Answer answer_workers, answer_pools, answer_umr, answer_mkeys;  // process
Answer answer_device, answer_mr, answer_odp, answer_inline;     // devices

}  // namespace kilim::inline v1::telemetry
