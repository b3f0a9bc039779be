// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5_layout_model.hh"

#include <algorithm>
#include <cstring>

namespace kilim::test {

void resolve(const Range& range, uint64_t offset, uint64_t length,
             std::vector<std::span<std::byte>>& out) {
  if (range.memory != nullptr) {
    out.push_back({range.memory + offset, length});
    return;
  }
  for (const std::span<std::byte>& s : range.shown) {
    if (length == 0) return;
    if (offset >= s.size()) {
      offset -= s.size();
      continue;
    }
    const uint64_t n = std::min<uint64_t>(length, s.size() - offset);
    out.push_back(s.subspan(offset, n));
    offset = 0;
    length -= n;
  }
}

Layout random_layout(std::mt19937_64& random, std::span<const Range> ranges, uint32_t most) {
  Layout layout;
  const uint64_t n = random() % 8 == 0 ? 1 + random() % most : 1 + random() % 8;
  for (uint64_t i = 0; i < n; i++) {
    const Range& r = ranges[random() % ranges.size()];
    const uint64_t wanted = 1 + random() % (uint64_t{1} << random() % 17);
    const uint64_t length = std::min(wanted, r.length);
    const uint64_t offset = random() % (r.length - length + 1);
    layout.pieces.push_back({r.start + offset, static_cast<uint32_t>(length), r.key});
    resolve(r, offset, length, layout.memory);
    layout.length += length;
  }
  return layout;
}

void gather(const Layout& layout, std::vector<std::byte>& out) {
  out.clear();
  for (const std::span<std::byte>& s : layout.memory) out.insert(out.end(), s.begin(), s.end());
}

void scatter(const Layout& layout, const std::byte* from) {
  for (const std::span<std::byte>& s : layout.memory) {
    std::memcpy(s.data(), from, s.size());
    from += s.size();
  }
}

}  // namespace kilim::test
