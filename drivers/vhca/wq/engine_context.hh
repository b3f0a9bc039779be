// SPDX-License-Identifier: BSD-3-Clause
// What every step of the engine needs at hand: keys, profile, journal, the time. Owner: the
// adapter, one each; its lock held.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "vhca/core/object_table.hh"
#include "vhca/core/profile.hh"
#include "vhca/core/request_faults.hh"
#include "vhca/core/transport_counts.hh"
#include "vhca/core/verdict.hh"
#include "vhca/tpt/transfer.hh"
#include "vhca/wq/qp_list.hh"

namespace kilim::vhca {
class Journal;
struct Addresses;
}  // namespace kilim::vhca

namespace kilim::vhca::wq {

class FailureObserver;
class Observer;
struct Cq;

struct EngineContext {
  tpt::KeyTable* keys = nullptr;
  const Profile* profile = nullptr;
  const Addresses* addresses = nullptr;
  Journal* journal = nullptr;
  Observer* observer = nullptr;         // null: nobody watches
  FailureObserver* failures = nullptr;  // null: nobody asks why
  Verdict objection;                    // why the last receive WQE was refused (recv.hh)
  uint64_t now_ns = 0;                  // CLOCK_MONOTONIC of this turn; completions carry it
  const ObjectTable<Srq>* srqs = nullptr;
  ReadyList* ready = nullptr;  // queues with work
  tpt::Translator translator;
  RequestFaults failing;                   // send requests that are to fail by themselves
  bool dead = false;                       // nothing is executed, nothing goes out any more
  bool keeps_answers = false;              // short answers go to entry_data instead of to memory
  std::array<std::byte, 64> entry_data{};  // what the next completion carries, see in_entry.hh
  Cq* open_blocks = nullptr;  // completion queues with a compressed block that is not written yet
  TransportCounts counts;
  ErrorList in_error;  // their rings are looked at every turn, without doorbells
};

}  // namespace kilim::vhca::wq
