// SPDX-License-Identifier: BSD-3-Clause
// Looks through all rows, since a request has failed. Adapter's lock held. Never allocates.
#include "vhca/explain/key_history.hh"

namespace kilim::vhca::explain {

void KeyHistory::forget(uint32_t index) noexcept {
  for (Row& row : rows_)
    if (row.key >> 8 == index) row = {};
}

const KeyHistory::Row* KeyHistory::find(uint32_t index) const noexcept {
  for (std::size_t i = 0; i < rows_.size(); i++) {
    const Row& row = rows_[(next_ + rows_.size() - 1 - i) % rows_.size()];
    if (row.key != 0 && row.key >> 8 == index) return &row;
  }
  return nullptr;
}

void put_last_change(prm::Text& t, const KeyHistory::Row& row, uint64_t now_ns) noexcept {
  constexpr uint64_t ns_per_us = 1000;
  t.put("; queue ").hex(row.queue);
  switch (row.change) {
    case wq::KeyChange::filled:
      t.put(" filled it by WQE ");
      break;
    case wq::KeyChange::invalidated:
      t.put(" invalidated it by WQE ");
      break;
    case wq::KeyChange::invalidated_by_peer:
      t.put(" received the SEND that invalidated it in receive WQE ");
      break;
  }
  t.dec(row.wqe_index).put(", ").dec((now_ns - row.ns) / ns_per_us).put(" us before");
}

}  // namespace kilim::vhca::explain
