// SPDX-License-Identifier: BSD-3-Clause
// Who filled or invalidated a key last, and when: the last changes of keys, until others push them
// out. Owner: the explainer; adapter's lock held. Never allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kilim/prm/text.hh"
#include "vhca/wq/failure_observer.hh"

namespace kilim::vhca::explain {

class KeyHistory {
 public:
  struct Row {
    uint32_t key;  // its name behind the change; 0: none
    uint32_t queue;
    uint64_t ns;  // the adapter's time
    uint16_t wqe_index;
    wq::KeyChange change;
  };

  void add(const Row& row) noexcept { rows_[next_++ % rows_.size()] = row; }
  // The key has been destroyed: another one may get its index.
  void forget(uint32_t index) noexcept;
  // The last change of the key with this index; null: none that is remembered.
  [[nodiscard]] const Row* find(uint32_t index) const noexcept;

 private:
  std::array<Row, 256> rows_{};
  std::size_t next_ = 0;
};

// "; queue 0x41 filled it by WQE 3, 12 us before".
void put_last_change(prm::Text&, const KeyHistory::Row&, uint64_t now_ns) noexcept;

}  // namespace kilim::vhca::explain
