// SPDX-License-Identifier: BSD-3-Clause
// Send queues whose peer is on the wire. Adapter's lock held.
#include "vhca/exec/on_wire.hh"

#include "vhca/exec/steps.hh"
#include "vhca/transport/requester_wire.hh"
#include "vhca/transport/weak_wire.hh"

namespace kilim::vhca {

std::size_t run_on_wire(Engine& e, Qp& qp, std::size_t budget) noexcept {
  std::size_t done = 0;
  RoceLink& link = e.roce;
  if (link.full_until_ns != 0) {
    qp.rc->idle = true;
    link.blocked.push(qp);
    return 0;
  }
  qp.rc->idle = false;
  for (; done < budget && !due_to_die(e); done++) {
    RequesterStep step = send_next(link, qp);
    if (step == RequesterStep::sent) continue;
    bool goes_on = step == RequesterStep::local && run_one(e, qp);
    if (step == RequesterStep::local) after_local(qp);
    if (goes_on) continue;
    qp.rc->idle = true;
    break;
  }
  if (weak_on_wire(qp) != nullptr) [[unlikely]]
    change_keys(link, qp);
  if (link.full_until_ns != 0) {
    link.blocked.push(qp);
    link.first_has_sent = done > 0;
  }
  return done;
}

}  // namespace kilim::vhca
