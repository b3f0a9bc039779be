// SPDX-License-Identifier: BSD-3-Clause
// What an adapter is made of: the engine, and the tables around it. Private to hca/. Owner: Hca;
// its lock held.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "kilim/base/ident.hh"
#include "vhca/core/address.hh"
#include "vhca/core/core_clock.hh"
#include "vhca/core/object_table.hh"
#include "vhca/exec/engine.hh"
#include "vhca/hca/device_memory.hh"
#include "vhca/hca/hca.hh"
#include "vhca/hca/uar.hh"
#include "vhca/lint/lint.hh"
#include "vhca/tpt/key_table.hh"
#include "vhca/tpt/paging.hh"
#include "vhca/wq/cq.hh"

namespace kilim::vhca {

struct Pd {
  uint32_t users = 0;  // queues; keys are counted by the key table
};

struct Xrcd {
  uint32_t number = 0;
  uint32_t opens = 0;  // handles on it
  uint32_t users = 0;  // shared receive queues and targets
  bool by_file = false;
  uint64_t device = 0, inode = 0;
};

// Of an address to a queue; a number is all there is to it.
struct AvMapping {};

struct HcaState : Engine {
  explicit HcaState(HcaConfig);
  ~HcaState();

  HcaConfig config;
  Addresses addresses;
  Lock lock;
  std::unique_ptr<Journal> own_journal;  // where the config names none
  Paging paging;                         // regions of keys use it to the end
  KeyTable keys;
  ObjectTable<Pd> pds;
  ObjectTable<Cq> cqs;
  ObjectTable<Srq> srqs;
  ObjectTable<Xrcd> xrcds;
  ObjectTable<AvMapping> mappings{1, 1u << 16};
  UarSet uars;
  bool stores_wait = false;            // doorbells are on their way to every page
  std::atomic<uint64_t> doorbells{0};  // looks that found one; written with the lock held
  CoreClock clock;
  DeviceMemory dm;
  std::unique_ptr<Lint> lint;  // null: off
  std::vector<Cq*> moderated;  // whose events may wait for a time
  std::vector<EventSink*> sinks;

  [[nodiscard]] bool pd_exists(Pdn pdn) const noexcept { return pds.at(pdn.value()) != nullptr; }
};

}  // namespace kilim::vhca
