// SPDX-License-Identifier: BSD-3-Clause
// Inputs that are like given ones, the same ones in each run: what the check tries of fuzzing where
// libFuzzer is not run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace kilim::fuzz {

class Mutations {
 public:
  using Bytes = std::vector<uint8_t>;
  explicit Mutations(std::span<const Bytes> from) : from_(from) {}
  // One of them with one to eight changes; at most 4,096 bytes, as libFuzzer's.
  Bytes next() {
    Bytes b = any();
    for (std::size_t n = 1 + below(8); n > 0; n--) change(b);
    if (b.size() > 4096) b.resize(4096);
    return b;
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  const Bytes& any() { return from_[below(from_.size())]; }

  void change(Bytes& b) {
    constexpr uint8_t ends[] = {0, 1, 0x7f, 0x80, 0xfe, 0xff};
    if (b.empty()) b.push_back(0);
    const std::size_t at = below(b.size()), n = 1 + below(16);
    switch (below(6)) {
      case 0:
        b[at] = static_cast<uint8_t>(random_());
        return;
      case 1:
        b[at] = ends[below(sizeof ends)];
        return;
      case 2:
        b[at] = static_cast<uint8_t>(b[at] ^ 1u << below(8));
        return;
      case 3:
        b.resize(at);
        return;
      case 4:
        b.erase(place(b, at), place(b, std::min(b.size(), at + n)));
        return;
      default:
        splice(b, at);
    }
  }
  // The rest of another one goes in.
  void splice(Bytes& b, std::size_t at) {
    const Bytes& other = any();
    if (other.empty()) return;
    const std::size_t from = below(other.size());
    const Bytes part(other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
    b.insert(place(b, at), part.begin(), part.end());
  }
  static Bytes::iterator place(Bytes& b, std::size_t at) {
    return b.begin() + static_cast<std::ptrdiff_t>(at);
  }

  std::span<const Bytes> from_;
  std::mt19937_64 random_{1};
};

}  // namespace kilim::fuzz
