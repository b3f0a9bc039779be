// SPDX-License-Identifier: BSD-3-Clause
// What a fuzzing harness is made of: one function that takes any bytes, and the inputs that it
// begins with. Input reads the bytes as a program of small steps, Script writes such a program.
// One thread; test code only.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace kilim::fuzz {

// Behind the end everything reads as zero.
class Input {
 public:
  Input(const uint8_t* data, std::size_t size) noexcept : left_(data, size) {}
  [[nodiscard]] bool done() const noexcept { return left_.empty(); }
  template <std::unsigned_integral T>
  T take() noexcept {
    T value = 0;
    std::size_t n = std::min(sizeof(T), left_.size());
    if (n > 0) std::memcpy(&value, left_.data(), n);
    left_ = left_.subspan(n);
    return value;
  }
  // Exactly `n` bytes.
  std::vector<std::byte> bytes(std::size_t n) {
    std::vector<std::byte> out(n);
    std::size_t there = std::min(n, left_.size());
    if (there > 0) std::memcpy(out.data(), left_.data(), there);
    left_ = left_.subspan(there);
    return out;
  }
  // All that is left.
  std::string rest() {
    std::string text(reinterpret_cast<const char*>(left_.data()), left_.size());
    left_ = {};
    return text;
  }

 private:
  std::span<const uint8_t> left_;
};

class Script {
 public:
  template <std::unsigned_integral... T>
  Script& put(T... values) {
    (add(&values, sizeof(values)), ...);
    return *this;
  }
  Script& bytes(std::span<const std::byte> b) { return add(b.data(), b.size()); }
  Script& text(const std::string& t) { return add(t.data(), t.size()); }
  template <typename T>
  Script& value(const T& v) {
    return add(&v, sizeof(v));
  }
  std::vector<uint8_t> out;

 private:
  Script& add(const void* from, std::size_t n) {
    std::size_t at = out.size();
    out.resize(at + n);
    if (n > 0) std::memcpy(out.data() + at, from, n);
    return *this;
  }
};

struct Seed {
  const char* name;
  Script script;
};

// Each harness has these two.
std::vector<Seed> seeds();
void run_input(Input in);

}  // namespace kilim::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size);
