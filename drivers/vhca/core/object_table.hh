// SPDX-License-Identifier: BSD-3-Clause
// Objects of one kind by the number that clients see (24 bits). Numbers start where the owner says
// and are used again last. Owner: the adapter; its lock held. Looking up never allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace kilim::vhca {

template <typename T>
class ObjectTable {
 public:
  // At most `max` objects, numbered from `first` on modulo 2^24 (QPN, CQN, SRQN have 24 bits).
  ObjectTable(uint32_t first, uint32_t max) : first_(first), max_(max) {}

  // Null: the table is full. The object's number is in `number`.
  T* create(uint32_t& number) {
    uint32_t slot = 0;
    // A number rests until 64 others were freed, so that a stale one is noticed.
    if (unused_.size() > 64 || (slots_.size() >= max_ && !unused_.empty())) {
      slot = unused_.front();
      unused_.pop_front();
    } else if (slots_.size() < max_) {
      slot = static_cast<uint32_t>(slots_.size());
      slots_.emplace_back();
    } else {
      return nullptr;
    }
    slots_[slot] = std::make_unique<T>();
    live_++;
    number = (first_ + slot) & 0xffffff;
    return slots_[slot].get();
  }
  // A number without an object: nothing happens.
  void destroy(uint32_t number) {
    uint32_t slot = (number - first_) & 0xffffff;
    if (slot >= slots_.size() || !slots_[slot]) return;
    slots_[slot].reset();
    unused_.push_back(slot);
    live_--;
  }
  // Null: no such object. Any number may be asked for.
  [[nodiscard]] T* at(uint32_t number) const noexcept {
    uint32_t slot = (number - first_) & 0xffffff;
    return slot < slots_.size() ? slots_[slot].get() : nullptr;
  }
  // Objects that live.
  [[nodiscard]] std::size_t count() const noexcept { return live_; }

  // In the order of their slots. `f` neither creates nor destroys objects of this table.
  template <typename F>
  void for_each(F&& f) const {
    for (const std::unique_ptr<T>& object : slots_) {
      if (object) f(*object);
    }
  }

 private:
  uint32_t first_;
  uint32_t max_;
  std::size_t live_ = 0;
  std::vector<std::unique_ptr<T>> slots_;
  std::deque<uint32_t> unused_;  // slots that were freed, the longest free one first
};

}  // namespace kilim::vhca
