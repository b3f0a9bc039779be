// SPDX-License-Identifier: BSD-3-Clause
// Messages that wait: those for the own port until the agent's next turn, the others until the wire
// has room. Its memory is taken when it is made. Owner: the agent; adapter's lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "vhca/cm/mad.hh"

namespace kilim::vhca::cm {

struct Letter {
  Route route;
  bool inward;  // to the own port
  Mad mad;
};

class Outbox {
 public:
  static constexpr std::size_t room = 4096;

  Outbox() : letters_(std::make_unique_for_overwrite<Letter[]>(room)) {}
  // False: full.
  bool push(const Route& route, bool inward, const Mad& mad) noexcept {
    if (count_ == room) return false;
    letters_[(first_ + count_++) % room] = {route, inward, mad};
    outward_ += !inward;
    return true;
  }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] std::size_t outward() const noexcept { return outward_; }  // of them, for the wire
  // There is one.
  [[nodiscard]] const Letter& front() const noexcept { return letters_[first_]; }
  void pop() noexcept {
    outward_ -= !letters_[first_].inward;
    first_ = (first_ + 1) % room;
    count_--;
  }

 private:
  std::unique_ptr<Letter[]> letters_;
  std::size_t first_ = 0, count_ = 0, outward_ = 0;
};

}  // namespace kilim::vhca::cm
