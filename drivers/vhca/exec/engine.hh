// SPDX-License-Identifier: BSD-3-Clause
// What executes: the adapter's queue pairs, those of them that have work or wait, and what every
// step needs at hand. Owner: the adapter, whose state begins with it; its lock held.
#pragma once

#include <cstdint>
#include <vector>

#include "vhca/core/journal.hh"
#include "vhca/core/object_table.hh"
#include "vhca/ethernet/state.hh"
#include "vhca/transport/roce_link.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/qp_list.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca::exec {

struct Engine {
  Engine(uint32_t first_qpn, uint32_t most_qps) : qps(first_qpn, most_qps) {}

  wq::EngineContext context;
  ObjectTable<wq::Qp> qps;
  ethernet::EthState eth;
  transport::RoceLink roce;
  wq::ReadyList ready;            // queues with work
  std::vector<wq::Qp*> waiting;   // for RNR and timeouts; create_qp reserves room for every queue
  wq::SendWqe scratch;            // the WQE under execution
  uint64_t work_since_clock = 0;  // in bytes, see below
  uint64_t fatal_at = 0;          // the adapter dies with this send request; 0: never
  bool executing = true;          // false: send requests complete and nothing else happens
  bool straight = true;           // false: all requests take the general way, for comparisons
  bool observed = false;          // the plain requests under way are told one by one (observed.hh)
};

// Whether a `--fault fatal@N` is due: N send requests have been taken up.
inline bool due_to_die(const Engine& e) noexcept {
  return e.fatal_at != 0 && !e.context.dead &&
         e.context.journal->count(Journal::Kind::wqe) >= e.fatal_at;
}

// Whether a fault is to strike a send request: they are counted one by one until then.
inline bool awaits_fault(const Engine& e) noexcept {
  return (e.fatal_at | e.context.failing.next) != 0;
}

// What a send request costs beside its bytes, roughly, in the time that so many bytes take.
inline constexpr uint64_t general_work = 4096, plain_work = 1024;
// Completions carry the time: after so much work of a turn it is asked for again.
inline constexpr uint64_t clock_work = 16 * general_work;

}  // namespace kilim::vhca::exec
