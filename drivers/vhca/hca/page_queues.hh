// SPDX-License-Identifier: BSD-3-Clause
// The queues whose doorbells lie in one UAR page, and which of their records are still to be looked
// at since it rang. A doorbell names a queue, but its word keeps only the last one stored: the
// others follow in a circle, so that what one doorbell costs does not depend on how many there are.
// Owner: the page; adapter's lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kilim::vhca::hca {

// T has `page_place`.
template <typename T>
class PageQueues {
 public:
  // Up to so many are all looked at whenever one rings.
  static constexpr std::size_t few = 16;
  // Of more, so many at a time; while doorbells keep coming, once in so many turns: a record that
  // is not in any cache costs more than the rest of a turn.
  static constexpr std::size_t batch = 32, seldom = 128;

  void add(T& queue) {
    queue.page_place = static_cast<uint32_t>(queues_.size());
    queues_.push_back(&queue);
  }
  // The last one takes its place, which may be behind the circle: that one begins again.
  void remove(T& queue) noexcept {
    T* last = queues_.back();
    queues_[queue.page_place] = last;
    last->page_place = queue.page_place;
    queues_.pop_back();
    if (owed_ != 0) owe();
    if (at_ >= queues_.size()) at_ = 0;
  }
  [[nodiscard]] bool empty() const noexcept { return queues_.empty(); }
  // Any record may have news: the circle begins where it stands.
  void owe() noexcept { owed_ = queues_.size(); }
  // The same where `served` has just been looked at. Of up to `few` the circle is closed in this
  // turn, wherever it begins: it begins behind that one and leaves it out. Of more it goes on where
  // it stands: a queue that rings often would keep it near itself.
  void owe_others(const T& served) noexcept {
    owe();
    if (owed_ > few) return;
    at_ = next(served.page_place);
    owed_--;
  }
  // Whether records are left to be looked at.
  [[nodiscard]] bool owes() const noexcept { return owed_ != 0; }

  // Goes on with the circle as far as a turn should. `rung`: a doorbell has come and its queue was
  // served. `look(queue)` says whether its record had news: as long as there are such, nothing is
  // put off.
  template <typename F>
  void sweep(bool rung, F&& look) noexcept {
    const std::size_t all = queues_.size();
    if (all <= few) return look_at(all, look);
    if (rung && !fruitful_ && ++put_off_ < seldom) return;
    put_off_ = 0;
    look_at(batch, look);
  }
  // To the end of the circle.
  template <typename F>
  void sweep_all(F&& look) noexcept {
    look_at(queues_.size(), look);
  }

 private:
  [[nodiscard]] std::size_t next(std::size_t place) const noexcept {
    return place + 1 < queues_.size() ? place + 1 : 0;
  }
  template <typename F>
  void look_at(std::size_t most, F&& look) noexcept {
    fruitful_ = false;
    for (; most != 0 && owed_ != 0; most--, owed_--) {
      fruitful_ = look(*queues_[at_]) || fruitful_;
      at_ = next(at_);
    }
  }

  std::vector<T*> queues_;
  std::size_t at_ = 0;     // the next one of the circle
  std::size_t owed_ = 0;   // how many are left of it
  uint32_t put_off_ = 0;   // turns since it went on
  bool fruitful_ = false;  // the last batch had news
};

}  // namespace kilim::vhca::hca
