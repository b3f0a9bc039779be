// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Unreliable Datagram". Executes one send WQE of a datagram queue pair: to a queue of the
// same adapter, or to all of them that joined a multicast group. Adapter's lock held. Never
// allocates.
#pragma once

#include "vhca/hca/state.hh"
#include "vhca/transport/outcome.hh"

namespace kilim::vhca {

// What nobody takes is lost without a word: the sender's completion says that it was sent.
Outcome exec_ud(HcaState&, Qp&, const SendWqe&) noexcept;

}  // namespace kilim::vhca
