// SPDX-License-Identifier: BSD-3-Clause
// Queue pair numbers that clients reserve in rows and never make a queue pair of: a connection by
// rdma_cm names one where its data goes through another queue pair (mlx5dv_reserved_qpn_alloc(3)).
// They lie behind the numbers that queue pairs get. Owner: the adapter; its lock held.
#pragma once

#include <cstdint>

#include "vhca/core/object_table.hh"

namespace kilim::vhca::hca {

class ReservedQpns {
 public:
  // Of each row: what the capability log_reserved_qpn_granularity says.
  static constexpr uint32_t log_count = 8;
  static constexpr uint32_t most_rows = 64;
  static constexpr uint32_t span = most_rows << log_count;

  explicit ReservedQpns(uint32_t first) : first_(first) {}

  // False: all rows are taken. The lowest number of the row is in `qpn`.
  bool create(uint32_t& qpn) {
    uint32_t row = 0;
    if (rows_.create(row) == nullptr) return false;
    qpn = (first_ + (row << log_count)) & 0xffffff;
    return true;
  }
  // Whether a row begins there.
  [[nodiscard]] bool has(uint32_t qpn) const noexcept {
    const uint32_t at = (qpn - first_) & 0xffffff, row = at >> log_count;
    return at == row << log_count && rows_.at(row) != nullptr;
  }
  // False: no row begins there.
  bool destroy(uint32_t qpn) {
    if (!has(qpn)) return false;
    rows_.destroy(((qpn - first_) & 0xffffff) >> log_count);
    return true;
  }

 private:
  struct Row {};
  uint32_t first_;
  ObjectTable<Row> rows_{0, most_rows};
};

}  // namespace kilim::vhca::hca
