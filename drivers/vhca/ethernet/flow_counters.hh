// SPDX-License-Identifier: BSD-3-Clause
// Flow counters by number: those that commands made one at a time, and those that they made in
// bulks, whose numbers follow each other (PRM "ALLOC_FLOW_COUNTER", flow_counter_bulk). Owner: the
// adapter; its lock held. Looking up never allocates.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "vhca/core/object_table.hh"
#include "vhca/core/spec.hh"

namespace kilim::vhca::ethernet {

class FlowCounters {
 public:
  static constexpr uint32_t most_log_bulk = 15, most_in_bulks = 1u << 20;

  // Null: there are no more numbers.
  FlowCount* create(uint32_t& number) { return single_.create(number); }
  // `count` is a power of two, at most 1 << most_log_bulk; the first number is in `number`. False:
  // there are no more.
  bool create_bulk(uint32_t count, const EventSink* open, uint32_t& number) {
    if (count > most_in_bulks - in_bulks_) return false;
    // Ranges begin at a multiple of the largest bulk, so that each has room wherever one ended.
    constexpr uint32_t step = 1u << most_log_bulk;
    uint32_t first = first_bulk;
    while (first <= last_bulk && bulks_.contains(first)) first += step;
    if (first > last_bulk) return false;
    std::vector<FlowCount>& bulk = bulks_[first];
    bulk.resize(count);
    for (FlowCount& c : bulk) c.open = open;
    in_bulks_ += count;
    number = first;
    return true;
  }
  // A single one, or the bulk that begins there. A number without any: nothing happens.
  void destroy(uint32_t number) {
    if (const auto at = bulks_.find(number); at != bulks_.end()) {
      in_bulks_ -= static_cast<uint32_t>(at->second.size());
      bulks_.erase(at);
    } else {
      single_.destroy(number);
    }
  }
  // Null: no such counter. Any number may be asked for.
  [[nodiscard]] FlowCount* at(uint32_t number) const noexcept {
    if (number < first_bulk) return single_.at(number);
    const auto bulk = bulks_.find(number & ~((1u << most_log_bulk) - 1));
    if (bulk == bulks_.end()) return nullptr;
    const uint32_t place = number - bulk->first;
    return place < bulk->second.size() ? const_cast<FlowCount*>(&bulk->second[place]) : nullptr;
  }
  // Whether `count` numbers from this one on are those of one bulk, or the one counter.
  [[nodiscard]] bool holds(uint32_t number, uint32_t count) const noexcept {
    return count != 0 && at(number) != nullptr &&
           (count == 1 || (number >= first_bulk && at(number + (count - 1)) != nullptr &&
                           (number ^ (number + (count - 1))) >> most_log_bulk == 0));
  }
  [[nodiscard]] std::size_t count() const noexcept { return single_.count() + bulks_.size(); }

 private:
  // Above the numbers of single ones, which begin at 1; all have 24 bits.
  static constexpr uint32_t first_bulk = 1u << 17, last_bulk = 0xffffff;
  ObjectTable<FlowCount> single_{1, 1u << 16};
  std::map<uint32_t, std::vector<FlowCount>> bulks_;  // by first number; none moves while it lives
  uint32_t in_bulks_ = 0;                             // counters
};

}  // namespace kilim::vhca::ethernet
