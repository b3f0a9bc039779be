// SPDX-License-Identifier: BSD-3-Clause
// Places, chains and the heap of timers. Adapter's lock held.
#include "vhca/cm/id_table.hh"

#include <algorithm>
#include <new>
#include <utility>

#include "kilim/detail/base/assert.hh"

namespace kilim::vhca::cm {

namespace {

constexpr unsigned place_bits = 16;
constexpr uint32_t place_mask = (1u << place_bits) - 1;
constexpr uint32_t chains = 1u << 14;

uint64_t mixed(uint64_t v) noexcept {
  v = (v ^ v >> 31) * 0x9e3779b97f4a7c15u;
  return v ^ v >> 29;
}

uint64_t key_of(By by, const Connection& c) noexcept {
  if (by == By::remote_qpn) return mixed(c.remote_guid + mixed(c.remote_qpn));
  if (by == By::remote_id) return mixed(c.remote_guid + mixed(c.remote_id));
  uint64_t low = 0;
  std::memcpy(&low, c.route.dgid.data() + 8, sizeof(low));
  return mixed(low + mixed(c.remote_id));
}

bool same_key(By by, const Connection& a, const Connection& b) noexcept {
  if (by == By::remote_qpn) return a.remote_qpn == b.remote_qpn && a.remote_guid == b.remote_guid;
  if (a.remote_id != b.remote_id) return false;
  return by == By::remote_id ? a.remote_guid == b.remote_guid : a.route.dgid == b.route.dgid;
}

}  // namespace

IdTable::IdTable(uint32_t places, uint64_t seed)
    : count_(std::min(places, place_mask + 1)),
      operand_(static_cast<uint32_t>(mixed(seed + 1) >> 16)),
      memory_(std::make_unique_for_overwrite<std::byte[]>(count_ * sizeof(Connection) +
                                                          alignof(Connection))) {
  auto at = reinterpret_cast<uintptr_t>(memory_.get());
  at = (at + alignof(Connection) - 1) & ~uintptr_t{alignof(Connection) - 1};
  places_ = reinterpret_cast<Connection*>(at);
  for (std::vector<uint32_t>& heads : heads_) heads.assign(chains, nowhere);
  heap_.reserve(count_);
}

IdTable::~IdTable() = default;  // a Connection owns nothing

Connection* IdTable::create() noexcept {
  uint32_t place = touched_;
  uint32_t generation = 1;
  if (touched_ < count_) {
    touched_++;
  } else if (first_free_ != nowhere) {
    place = first_free_;
    generation = places_[place].generation + 1;
    first_free_ = places_[place].next[0];
    if (first_free_ == nowhere) last_free_ = nowhere;
  } else {
    return nullptr;
  }
  auto* c = new (places_ + place) Connection;
  c->generation = generation & place_mask;
  c->used = true;
  if (id_of(*c).value() == 0) c->generation = (c->generation + 1) & place_mask;  // 0 means none
  used_++;
  return c;
}

void IdTable::free(Connection& c) noexcept {
  for (By by : {By::remote_id, By::remote_qpn, By::sidr}) erase(by, c);
  stop(c);
  c.used = false;
  c.observer = nullptr;
  c.next[0] = nowhere;
  const uint32_t place = place_of(c);
  if (last_free_ == nowhere)
    first_free_ = place;
  else
    places_[last_free_].next[0] = place;
  last_free_ = place;
  used_--;
}

CommId IdTable::id_of(const Connection& c) const noexcept {
  return CommId{(c.generation << place_bits | place_of(c)) ^ operand_};
}

Connection* IdTable::at(CommId id) const noexcept {
  const uint32_t place = (id.value() ^ operand_) & place_mask;
  if (place >= touched_) return nullptr;
  Connection& c = places_[place];
  return c.used && id_of(c) == id ? &c : nullptr;
}

uint32_t& IdTable::head(By by, const Connection& c) noexcept {
  return heads_[static_cast<std::size_t>(by)][key_of(by, c) % chains];
}

Connection* IdTable::find(By by, const Connection& c) const noexcept {
  const auto way = static_cast<std::size_t>(by);
  for (uint32_t p = heads_[way][key_of(by, c) % chains]; p != nowhere; p = places_[p].next[way]) {
    if (same_key(by, places_[p], c)) return &places_[p];
  }
  return nullptr;
}

void IdTable::insert(By by, Connection& c) noexcept {
  const auto way = static_cast<std::size_t>(by);
  KILIM_ASSERT(!c.found_by[way]);
  uint32_t& first = head(by, c);
  c.next[way] = std::exchange(first, place_of(c));
  c.found_by[way] = true;
}

void IdTable::erase(By by, Connection& c) noexcept {
  const auto way = static_cast<std::size_t>(by);
  if (!c.found_by[way]) return;
  uint32_t* link = &head(by, c);
  while (*link != place_of(c)) link = &places_[*link].next[way];
  *link = c.next[way];
  c.found_by[way] = false;
}

void IdTable::put(std::size_t at, uint32_t place) noexcept {
  heap_[at] = place;
  places_[place].timer = static_cast<uint32_t>(at);
}

void IdTable::sift_up(std::size_t at) noexcept {
  const uint32_t place = heap_[at];
  for (; at > 0 && before(place, heap_[(at - 1) / 2]); at = (at - 1) / 2)
    put(at, heap_[(at - 1) / 2]);
  put(at, place);
}

void IdTable::sift_down(std::size_t at) noexcept {
  const uint32_t place = heap_[at];
  for (std::size_t child = 2 * at + 1; child < heap_.size(); child = 2 * at + 1) {
    if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) child++;
    if (!before(heap_[child], place)) break;
    put(at, heap_[child]);
    at = child;
  }
  put(at, place);
}

void IdTable::start(Connection& c) noexcept {
  stop(c);
  heap_.push_back(place_of(c));  // there is room: one a place
  c.timer = static_cast<uint32_t>(heap_.size() - 1);
  sift_up(c.timer);
}

void IdTable::stop(Connection& c) noexcept {
  if (c.timer == nowhere) return;
  const std::size_t at = std::exchange(c.timer, nowhere);
  const uint32_t last = heap_.back();
  heap_.pop_back();
  if (at == heap_.size()) return;
  put(at, last);
  sift_up(at);
  sift_down(places_[last].timer);
}

Connection* IdTable::first_due() const noexcept {
  return heap_.empty() ? nullptr : &places_[heap_.front()];
}

}  // namespace kilim::vhca::cm
