// SPDX-License-Identifier: BSD-3-Clause
// PRM: "KLM", "KSM", "Repeat Block". The list of an indirect key: from its bytes to where each
// entry lies in the key's address space. Adapter's lock held. Never allocates, never touches client
// memory. List bytes are untrusted: nonsense makes the list invalid, no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vhca/core/profile.hh"
#include "vhca/tpt/mkey.hh"

namespace kilim::vhca::tpt {

// Sets the fields of Mkey that follow from the list.
void compile_list(Mkey&) noexcept;

// Finds the first span of a valid compiled list that ends behind `at`; span_count: there is none.
// Offsets in rising order need no search.
uint32_t find_span(Mkey&, uint64_t at) noexcept;

// What lies at offset `at` of the key: the entry's key, address there, and how many bytes of it
// follow. False: nothing does.
struct ListPlace {
  uint32_t key = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
};
bool find_in_list(Mkey&, uint64_t at, ListPlace&) noexcept;

// Null, or why a card refuses these octowords at `first` in a list of this key.
const char* list_objection(const Mkey&, std::span<const std::byte> octowords, uint64_t first,
                           uint32_t total, const Profile&) noexcept;

}  // namespace kilim::vhca::tpt
