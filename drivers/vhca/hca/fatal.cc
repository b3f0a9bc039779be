// SPDX-License-Identifier: BSD-3-Clause
// Adapter's lock held. die() allocates, once in an adapter's life.
#include "vhca/hca/fatal.hh"

#include <algorithm>
#include <vector>

#include "kilim/prm/cmd.hh"
#include "vhca/hca/journal.hh"
#include "vhca/hca/scheduler.hh"
#include "vhca/hca/state.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca {

void die(HcaState& h) {
  if (h.dead) return;
  h.dead = true;
  h.qps.for_each([&](Qp& qp) {
    if (qp.state == QpState::reset) return;
    forget_work(h, qp);
    to_error(h.works, qp);
  });
  // Each client once: those that announced themselves, and owners of queues that did not.
  std::vector<EventSink*> sinks = h.sinks;
  h.qps.for_each([&](Qp& qp) { sinks.push_back(qp.sink); });
  h.cqs.for_each([&](Cq& cq) { sinks.push_back(cq.sink); });
  std::sort(sinks.begin(), sinks.end());
  sinks.erase(std::unique(sinks.begin(), sinks.end()), sinks.end());
  h.works.journal->async(event::device_fatal, 0);
  for (EventSink* sink : sinks) {
    if (sink != nullptr) sink->async(event::device_fatal, nullptr);
  }
}

bool due_to_die(const HcaState& h) noexcept {
  return h.config.fatal_at != 0 && !h.dead &&
         h.works.journal->count(Journal::Kind::wqe) >= h.config.fatal_at;
}

bool must_stop(const HcaState& h) noexcept {
  return !h.dead && (due_to_die(h) || h.works.journal->failed());
}

bool done_by_the_dead(uint16_t opcode) noexcept {
  return opcode == prm::cmd::destroy_mkey || opcode == prm::cmd::dealloc_pd ||
         opcode == prm::cmd::destroy_general_object;
}

}  // namespace kilim::vhca
