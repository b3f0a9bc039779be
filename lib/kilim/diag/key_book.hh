// SPDX-License-Identifier: BSD-3-Clause
// What a process knows of its keys, for explanations: regions by name, indirect keys by the UMRs
// that were posted. Owner: one thread at a time; allocates; not for a burst.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kilim/mr/region.hh"
#include "kilim/prm/lint.hh"

namespace kilim::diag {

struct KeyEntry {
  uint32_t key = 0;
  uint32_t stride = 0;  // of a strided key: from one repetition to the next
  uint64_t address = 0, bytes = 0;
};

struct KeyRecord {
  uint32_t key = 0;    // with its tag
  std::string name;    // of a region; empty: an indirect key
  uint64_t start = 0;  // the address of its first byte, as users of the key name it
  uint64_t length = 0;
  uint32_t access = 0;  // prm::mkey::local_write ...
  bool free = false;    // nothing may be accessed through it
  uint64_t memory = 0;  // of a region: where its first byte is in this process
  bool whole = true;    // all entries are known
  std::vector<KeyEntry> entries;
  uint32_t repeat = 1;     // of a strided key: how often the entries come
  uint8_t log_entity = 0;  // of a key of fixed-size entries
  uint32_t lcore = 0;      // who bound it
  uint16_t wqe = 0;        // with this WQE
  // Counts since it is in the book.
  uint64_t binds = 0, invalidations = 0, uses = 0, faults = 0;

  [[nodiscard]] bool indirect() const noexcept { return name.empty(); }
};

class KeyBook {
 public:
  void region(const mr::Region&, const char* name);
  // A key of fixed-size entries, which its UMRs do not tell the size of.
  void fixed_key(Lkey, uint8_t log_entity);
  // The region is gone.
  void forget(Lkey);
  // A WQE was posted by `lcore`: takes what a UMR does to a key, counts uses of others. Untrusted.
  // A list by pointer is read where it lies, if that is in a region of the book: before its UMR
  // completes.
  void learn(prm::lint::Bytes wqe, uint32_t lcore,
             prm::lint::QueueKind kind = prm::lint::QueueKind::connected);

  // By index, whatever the tag; null: not in the book.
  [[nodiscard]] const KeyRecord* find(uint32_t key) const;
  void count_fault(uint32_t key);

 private:
  void learn_umr(prm::lint::Bytes wqe, const prm::CtrlSeg&, uint32_t lcore);
  void take_list(KeyRecord&, prm::lint::Bytes wqe, const prm::UmrCtrlSeg&);
  [[nodiscard]] std::vector<std::byte> stored_list(prm::lint::Bytes wqe, std::size_t bytes) const;
  std::map<uint32_t, KeyRecord> keys_;  // by index
};

}  // namespace kilim::diag
