// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Send Work Queue". Text: a string that is built in the caller's buffer, for texts about
// WQEs. What does not fit is cut off; the string is always terminated by 0. Never allocates and
// calls no other function. One thread for each buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace kilim::inline v1::prm {

class Text {
 public:
  // An empty string in `buffer`, which outlives the Text. An empty buffer stays untouched.
  explicit Text(std::span<char> buffer) noexcept : buffer_(buffer) {
    if (!buffer_.empty()) buffer_[0] = '\0';
  }

  [[nodiscard]] std::string_view view() const noexcept { return {buffer_.data(), used_}; }
  [[nodiscard]] const char* c_str() const noexcept { return buffer_.data(); }

  // Append a string, a character, a number in decimal, a number in hex behind "0x".
  Text& put(std::string_view s) noexcept {
    for (char c : s) put(c);
    return *this;
  }
  Text& put(char c) noexcept {
    if (used_ + 1 >= buffer_.size()) return *this;
    buffer_[used_++] = c;
    buffer_[used_] = '\0';
    return *this;
  }
  Text& dec(uint64_t v) noexcept { return number(v, 10); }
  Text& hex(uint64_t v) noexcept { return put("0x").number(v, 16); }

  // Appends `pattern` with {i} replaced by the i-th number in hex, and {id} by it in decimal. A
  // brace without such a number stays as it is.
  Text& fill(std::string_view pattern, std::span<const uint64_t> numbers) noexcept {
    for (std::size_t i = 0; i < pattern.size(); i++) {
      const std::size_t end = pattern[i] == '{' ? pattern.find('}', i) : pattern.npos;
      const auto n = end != pattern.npos ? static_cast<std::size_t>(pattern[i + 1] - '0') : ~0u;
      if (n >= numbers.size()) {
        put(pattern[i]);
        continue;
      }
      if (pattern[end - 1] == 'd') {
        dec(numbers[n]);
      } else {
        hex(numbers[n]);
      }
      i = end;
    }
    return *this;
  }

 private:
  Text& number(uint64_t v, unsigned base) noexcept {
    char digits[20];
    std::size_t n = 0;
    do digits[n++] = "0123456789abcdef"[v % base];
    while ((v /= base) != 0);
    while (n > 0) put(digits[--n]);
    return *this;
  }

  std::span<char> buffer_;
  std::size_t used_ = 0;
};

}  // namespace kilim::inline v1::prm
