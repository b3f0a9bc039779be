// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Tag Matching". Adapter's lock held. Never allocates once made.
#include "vhca/wq/tag_list.hh"

namespace kilim::vhca::wq {

bool TagList::append(const TagBuffer& buffer, uint32_t next) noexcept {
  if (next >= entries_.size() || entries_[next_].used) return false;
  Entry& e = entries_[next_];
  e = {buffer, true, came_ != handled_, newest_, end};
  (newest_ != end ? entries_[newest_].behind : oldest_) = next_;
  newest_ = last_ = next_;
  next_ = static_cast<uint16_t>(next);
  return true;
}

bool TagList::remove(uint32_t place) noexcept {
  if (place >= entries_.size() || !entries_[place].used) return false;
  Entry& e = entries_[place];
  (e.before != end ? entries_[e.before].behind : oldest_) = e.behind;
  (e.behind != end ? entries_[e.behind].before : newest_) = e.before;
  e.used = false;
  return true;
}

uint32_t TagList::find(uint64_t tag) const noexcept {
  for (uint16_t i = oldest_; i != end; i = entries_[i].behind) {
    const Entry& e = entries_[i];
    if (!e.waits && (tag & e.buffer.mask) == e.buffer.tag) return i;
  }
  return none;
}

void TagList::handled(uint16_t count) noexcept {
  handled_ = count;
  if (came_ != handled_) return;
  for (Entry& e : entries_) e.waits = false;
}

}  // namespace kilim::vhca::wq
