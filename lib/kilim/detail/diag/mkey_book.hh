// SPDX-License-Identifier: BSD-3-Clause
// MkeyBook: what a process knows of its keys, for explanations: regions by name, indirect mkeys by
// the UMRs that were posted. Owner: one thread at a time; allocates; not for a burst.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kilim/detail/mr/region.hh"
#include "kilim/prm/lint.hh"

namespace kilim::inline v1::diag {

// One entry of an indirect key's list.
struct MkeyEntry {
  uint32_t key = 0;
  uint32_t stride = 0;  // strided key: bytes from one repetition to the next
  uint64_t address = 0, bytes = 0;
};

// What is known of one key.
struct MkeyRecord {
  uint32_t key = 0;    // with its tag
  std::string name;    // of a region; empty: an indirect key
  uint64_t start = 0;  // address of its first byte as the key counts
  uint64_t length = 0;
  uint32_t access = 0;  // prm::mkey::local_write ...
  bool free = false;    // invalidated: no access through it
  uint64_t memory = 0;  // region: address of its first byte in this process
  bool whole = true;    // all entries are known
  std::vector<MkeyEntry> entries;
  uint32_t repeat = 1;     // strided key: number of repetitions
  uint8_t log_entity = 0;  // KSM key: log2 of an entry's bytes
  uint32_t lcore = 0;      // the lcore that bound it
  uint16_t wqe = 0;        // the WQE that bound it
  // Counts since the key is in the book.
  uint64_t binds = 0, invalidations = 0, uses = 0, faults = 0;

  [[nodiscard]] bool indirect() const noexcept { return name.empty(); }
};

class MkeyBook {
 public:
  // Adds a region under a name for people, or replaces it.
  void region(const mr::Region&, const char* name);
  // Adds a KSM key: its UMRs do not contain the entry size.
  void fixed_key(Lkey, uint8_t log_entity);
  // Removes a region.
  void forget(Lkey);
  // Records a WQE posted by `lcore`: what a UMR does to its key, and which keys others use. The
  // bytes are untrusted. Called before the WQE completes, as a list by pointer is read from memory
  // if it lies in a region of the book.
  void learn(prm::lint::Bytes wqe, uint32_t lcore,
             prm::lint::QueueKind kind = prm::lint::QueueKind::connected);

  // Finds a key by its index, whatever the tag; null: not in the book.
  [[nodiscard]] const MkeyRecord* find(uint32_t key) const;
  // Counts a WQE that failed because of the key; nothing if the key is not in the book.
  void count_fault(uint32_t key);

 private:
  void learn_umr(prm::lint::Bytes wqe, const prm::CtrlSeg&, uint32_t lcore);
  void parse_list(MkeyRecord&, prm::lint::Bytes wqe, const prm::UmrCtrlSeg&);
  [[nodiscard]] std::vector<std::byte> stored_list(prm::lint::Bytes wqe, std::size_t bytes) const;
  std::map<uint32_t, MkeyRecord> keys_;  // by index
};

}  // namespace kilim::inline v1::diag
