// SPDX-License-Identifier: BSD-3-Clause
// Send queues whose peer is on the wire. Adapter's lock held.
#include "vhca/exec/on_wire.hh"

#include "vhca/exec/steps.hh"
#include "vhca/transport/requester_wire.hh"
#include "vhca/transport/weak_wire.hh"

namespace kilim::vhca::exec {

std::size_t run_on_wire(Engine& e, wq::Qp& qp, std::size_t budget) noexcept {
  std::size_t done = 0;
  transport::RoceLink& link = e.roce;
  if (link.full_until_ns != 0) {
    qp.rc->idle = true;
    link.blocked.push(qp);
    return 0;
  }
  qp.rc->idle = false;
  for (; done < budget && !due_to_die(e); done++) {
    transport::RequesterStep step = transport::send_next(link, qp);
    if (step == transport::RequesterStep::sent) continue;
    bool goes_on = step == transport::RequesterStep::local && run_one(e, qp);
    if (step == transport::RequesterStep::local) transport::after_local(qp);
    if (goes_on) continue;
    qp.rc->idle = true;
    break;
  }
  if (transport::weak_on_wire(qp) != nullptr) [[unlikely]]
    transport::change_keys(link, qp);
  if (link.full_until_ns != 0) {
    link.blocked.push(qp);
    link.first_has_sent = done > 0;
  }
  return done;
}

}  // namespace kilim::vhca::exec
