// SPDX-License-Identifier: BSD-3-Clause
// Many addresses over little memory: the same pages again and again, so that a region of 1 GiB can
// be registered where nobody has 1 GiB to give. Owns the mapping; one thread.
#pragma once

#include <cstddef>

namespace kilim::perf {

class RepeatedPages {
 public:
  RepeatedPages() = default;
  ~RepeatedPages();
  RepeatedPages(const RepeatedPages&) = delete;
  RepeatedPages& operator=(const RepeatedPages&) = delete;

  // In the place of what there was; false: the system refused.
  bool map(std::size_t bytes);
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  void unmap() noexcept;

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace kilim::perf
