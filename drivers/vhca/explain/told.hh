// SPDX-License-Identifier: BSD-3-Clause
// What has been told: a cause is told once a queue and then only counted, and so is everything when
// the table is full. A value, adapter's lock held. Never allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kilim::vhca::explain {

class Told {
 public:
  static constexpr std::size_t most = 128;
  // Which verb, and which of its fields, where the cause does not say it. Both live for ever.
  struct About {
    const char *verb = "", *field = "";
  };
  struct Row {
    uint32_t queue;
    bool send;
    const char* cause;  // lives for ever
    uint64_t count;
    About about;
  };

  // Counts it; whether it is the first of its queue and cause, and there is room for it.
  bool is_news(uint32_t queue, bool send, const char* cause, const About& about) noexcept;
  bool is_news(uint32_t queue, bool send, const char* cause) noexcept {
    return is_news(queue, send, cause, {});
  }
  [[nodiscard]] uint64_t all() const noexcept { return all_; }
  // Causes that found no room.
  [[nodiscard]] uint64_t untold() const noexcept { return untold_; }
  [[nodiscard]] std::size_t sentences() const noexcept { return used_; }
  template <typename F>
  void for_each(F&& f) const {
    for (std::size_t i = 0; i < used_; i++) f(rows_[i]);
  }

 private:
  std::array<Row, most> rows_{};
  std::size_t used_ = 0;
  uint64_t all_ = 0, untold_ = 0;
};

// A line to standard error, whatever the client's errno is. "kilim-vhca: DEVICE: explain: " goes
// in front.
void write_explanation(const char* device, std::string_view sentence) noexcept;

}  // namespace kilim::vhca::explain
