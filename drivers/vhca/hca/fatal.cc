// SPDX-License-Identifier: BSD-3-Clause
// Adapter's lock held. die() allocates, once in an adapter's life.
#include "vhca/hca/fatal.hh"

#include <algorithm>
#include <vector>

#include "kilim/prm/cmd.hh"
#include "vhca/core/journal.hh"
#include "vhca/hca/hca.hh"
#include "vhca/hca/scheduler.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::hca {

void die(Hca& h) {
  if (h.context.dead) return;
  h.context.dead = true;
  h.qps.for_each([&](wq::Qp& qp) {
    if (qp.state == QpState::reset) return;
    forget_work(h, qp);
    wq::to_error(h.context, qp);
  });
  h.rqs.for_each([&](wq::Qp& rq) {
    if (rq.state != QpState::reset) wq::to_error(h.context, rq);
  });
  // Each client once: those that announced themselves, and owners of queues that did not.
  std::vector<EventSink*> sinks = h.sinks;
  h.qps.for_each([&](wq::Qp& qp) { sinks.push_back(qp.sink); });
  h.rqs.for_each([&](wq::Qp& rq) { sinks.push_back(rq.sink); });
  h.cqs.for_each([&](wq::Cq& cq) { sinks.push_back(cq.sink); });
  std::sort(sinks.begin(), sinks.end());
  sinks.erase(std::unique(sinks.begin(), sinks.end()), sinks.end());
  h.context.journal->async(wq::event::device_fatal, 0);
  for (EventSink* sink : sinks) {
    if (sink != nullptr) sink->async(wq::event::device_fatal, nullptr);
  }
}

bool done_by_the_dead(uint16_t opcode) noexcept {
  constexpr uint16_t done[] = {prm::cmd::destroy_mkey, prm::cmd::destroy_psv,
                               prm::cmd::dealloc_pd,   prm::cmd::destroy_general_object,
                               prm::cmd::qp_2err,      prm::cmd::qp_2rst};
  return std::find(std::begin(done), std::end(done), opcode) != std::end(done);
}

}  // namespace kilim::vhca::hca
