// SPDX-License-Identifier: BSD-3-Clause
// What an adapter is made of: its tables, the engine's ready ring and timers. Private to hca/ and
// transport/. Owner: Hca; its lock held.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "kilim/base/ident.hh"
#include "vhca/hca/core_clock.hh"
#include "vhca/hca/device_memory.hh"
#include "vhca/hca/hca.hh"
#include "vhca/hca/lint.hh"
#include "vhca/hca/object_table.hh"
#include "vhca/hca/uar.hh"
#include "vhca/tpt/key_table.hh"
#include "vhca/tpt/paging.hh"
#include "vhca/wq/cq.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/sq_decode.hh"
#include "vhca/wq/works.hh"

namespace kilim::vhca {

// What the raw packet path keeps (steering, port state): hca/eth_state.hh.
struct EthState;
struct EthStateDeleter {
  void operator()(EthState*) const noexcept;
};

// The RC protocol on the wire: transport/roce_link.hh.
struct RoceLink;
struct RoceLinkDeleter {
  void operator()(RoceLink*) const noexcept;
};

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

struct GroupMember {
  Gid gid;
  Qp* qp;
};

struct HcaState {
  explicit HcaState(HcaConfig);
  ~HcaState();

  HcaConfig config;
  Lock lock;
  std::unique_ptr<Journal> own_journal;  // where the config names none
  Paging paging;                         // regions of keys use it to the end
  KeyTable keys;
  ObjectTable<Pd> pds;
  ObjectTable<Cq> cqs;
  ObjectTable<Qp> qps;
  ObjectTable<Srq> srqs;
  ObjectTable<Xrcd> xrcds;
  ObjectTable<AvMapping> mappings{1, 1u << 16};
  std::vector<GroupMember> groups;
  UarSet uars;
  bool stores_wait = false;            // doorbells are on their way to every page
  std::atomic<uint64_t> doorbells{0};  // looks that found one; written with the lock held
  CoreClock clock;
  DeviceMemory dm;
  std::unique_ptr<Lint> lint;  // null: off
  Works works;
  std::unique_ptr<EthState, EthStateDeleter> eth;
  std::unique_ptr<RoceLink, RoceLinkDeleter> roce;

  ReadyList ready;             // queues with work
  std::vector<Qp*> waiting;    // for RNR and timeouts; create_qp reserves room for every queue
  std::vector<Cq*> moderated;  // whose events may wait for a time
  std::vector<EventSink*> sinks;
  uint64_t stirred = 0;           // turns since start, which page is looked at first
  bool executing = true;          // false: send requests complete and nothing else happens
  bool dead = false;              // fatal() has been called
  SendWqe scratch;                // the WQE under execution
  uint64_t work_since_clock = 0;  // in bytes, see below

  [[nodiscard]] bool pd_exists(Pdn pdn) const noexcept { return pds.at(pdn.value()) != nullptr; }
};

// What a send request costs beside its bytes, roughly, in the time that so many bytes take.
inline constexpr uint64_t general_work = 4096, plain_work = 1024;
// Completions carry the time: after so much work of a turn it is asked for again.
inline constexpr uint64_t clock_work = 16 * general_work;

}  // namespace kilim::vhca
