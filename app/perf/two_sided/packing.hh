// SPDX-License-Identifier: BSD-3-Clause
// Encodes and decodes numbers, big endian, for the exchange. Reading never passes the end: missing
// bytes read as 0, and whole() is false. One thread; control path only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kilim::perf {

class Packer {
 public:
  template <typename T>
  void put(T v) {
    for (int shift = static_cast<int>(sizeof(T)) * 8 - 8; shift >= 0; shift -= 8)
      bytes_.push_back(static_cast<uint8_t>(v >> shift));
  }
  void put(std::span<const uint8_t> raw) { bytes_.insert(bytes_.end(), raw.begin(), raw.end()); }
  [[nodiscard]] const std::vector<uint8_t>& bytes() const noexcept { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::span<const uint8_t> bytes) noexcept : left_(bytes) {}
  template <typename T>
  T get() noexcept {
    uint64_t v = 0;
    for (const uint8_t b : take(sizeof(T))) v = v << 8 | b;
    return static_cast<T>(v);
  }
  void get(std::span<uint8_t> raw) noexcept {
    const auto from = take(raw.size());
    for (std::size_t i = 0; i < from.size(); i++) raw[i] = from[i];
  }
  [[nodiscard]] std::size_t left() const noexcept { return left_.size(); }
  // True: nothing was missing and nothing is left.
  [[nodiscard]] bool whole() const noexcept { return !short_ && left_.empty(); }

 private:
  std::span<const uint8_t> take(std::size_t n) noexcept {
    if (n > left_.size()) {
      short_ = true;
      left_ = {};
      return {};
    }
    const auto got = left_.first(n);
    left_ = left_.subspan(n);
    return got;
  }
  std::span<const uint8_t> left_;
  bool short_ = false;
};

}  // namespace kilim::perf
