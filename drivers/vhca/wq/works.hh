// SPDX-License-Identifier: BSD-3-Clause
// What every step of the engine needs at hand: keys, profile, journal, the time. Owner: the
// adapter, one each; its lock held.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "vhca/hca/object_table.hh"
#include "vhca/hca/profile.hh"
#include "vhca/tpt/transfer.hh"
#include "vhca/wq/qp_list.hh"

namespace kilim::prm::lint {
struct RuleRow;
}

namespace kilim::vhca {

class Journal;
class Lint;
struct HcaConfig;

struct Works {
  KeyTable* keys = nullptr;
  const Profile* profile = nullptr;
  const HcaConfig* config = nullptr;
  Journal* journal = nullptr;
  Lint* lint = nullptr;                           // null: off
  const prm::lint::RuleRow* objection = nullptr;  // why it refused the last receive WQE
  uint64_t now_ns = 0;  // CLOCK_MONOTONIC of this turn; completions carry it
  const ObjectTable<Srq>* srqs = nullptr;
  ReadyList* ready = nullptr;  // queues with work
  Translator translator;
  bool keeps_answers = false;              // short answers go to entry_data instead of to memory
  std::array<std::byte, 64> entry_data{};  // what the next completion carries, see in_entry.hh
  ErrorList in_error;  // their rings are looked at every turn, without doorbells
};

}  // namespace kilim::vhca
