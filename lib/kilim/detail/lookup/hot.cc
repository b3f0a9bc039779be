// SPDX-License-Identifier: BSD-3-Clause
// Instantiates the readers' side of the index, so that the undefined symbols of this object can be
// checked: no heap, lock, log, throw, virtual or system call. Never run.
#include "kilim/detail/lookup/front.hh"
#include "kilim/detail/lookup/index.hh"
#include "kilim/detail/lookup/index_word.hh"

namespace kilim::inline v1::lookup::hot {

Lkey find(const Index& index, uint64_t address, uint64_t bytes) noexcept {
  return index.find(address, bytes, Rights{mr::Access::local_write});
}

Lkey find_again(Front& front, uint64_t address, uint64_t bytes) noexcept {
  return front.misses() != 0 ? Lkey{0} : front.find(address, bytes);
}

uint64_t extent(const Index& index, uint64_t address) noexcept {
  const Index::Extent e = index.extent(address, {});
  return e.last - e.first + index.generation();
}

std::size_t counts(const Index& index) noexcept {
  return index.size() + index.waiting() + index.page_bytes();
}

// How words are made and taken apart.
uint64_t words(Slot& slot, const CandidateList* list, const IndexTable* table) noexcept {
  slot.store(Word::list(list));
  uint64_t sum = slot.load().bits() ^ Word::pages(table).bits();
  const Word whole = Word::whole(Lkey{256}, Rights{});
  sum += whole.key().value() + whole.rights().bits() + list->begin()->width();
  return whole.empty() || whole.pages() != nullptr || list->end() == nullptr ? 0 : sum;
}

}  // namespace kilim::inline v1::lookup::hot
