// SPDX-License-Identifier: BSD-3-Clause
// Two queue pairs that work on one indirect key, one written by libmlx5, one by Kilim, for tests of
// UMR. One thread.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "twin_fixture.hh"

namespace kilim::test {

// Two queues, one key, and the comparison of what was posted last.
struct Twins {
  static constexpr uint16_t max_entries = 64;
  GoldenDevice device;
  std::unique_ptr<GoldenQp> theirs, ours;
  mlx5dv_mkey* key = nullptr;
  std::vector<uint64_t> wr_ids;
  std::unique_ptr<queue::Sq> sq;
  uint32_t first = 0;  // block of the next WQE, the same on both

  explicit Twins(const char* name, const char* profile = "cx6dx") : device(name, profile) {
    if (!device.ok()) return;
    theirs = std::make_unique<GoldenQp>(device, IBV_QPT_RC);
    ours = std::make_unique<GoldenQp>(device, IBV_QPT_RC);
    if (!theirs->ok() || !ours->ok()) return;
    wr_ids.resize(ours->geometry.wqebb_count);
    sq = std::make_unique<queue::Sq>(ours->geometry, wr_ids);
    mlx5dv_mkey_init_attr attr{};
    attr.pd = device.pd;
    attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
    attr.max_entries = max_entries;
    key = mlx5dv_create_mkey(&attr);
  }
  ~Twins() {
    if (key != nullptr) mlx5dv_destroy_mkey(key);
  }
  [[nodiscard]] bool ok() const { return key != nullptr; }

  // What the two posted since `first`; empty where the amounts differ.
  std::pair<std::vector<uint8_t>, std::vector<uint8_t>> posted() {
    const uint32_t end = theirs->posted();
    const uint32_t count = (end - first) & 0xffff;
    if (ours->posted() != end) return {{0}, {}};
    auto both = std::pair{theirs->blocks(first, count), ours->blocks(first, count)};
    first = end;
    return both;
  }
};

}  // namespace kilim::test
