// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_SRQ", "CREATE_XRC_SRQ", "ALLOC_XRCD". Makes and unmakes shared receive queues and
// XRC domains. Adapter's lock held.
#pragma once

#include "vhca/hca/state.hh"

namespace kilim::vhca {

Result<uint32_t> create_srq(HcaState&, const SrqSpec&, EventSink*);
int set_srq_limit(HcaState&, uint32_t srqn, uint32_t limit);
int destroy_srq(HcaState&, uint32_t srqn);

Result<uint32_t> open_xrcd(HcaState&, const XrcdSpec&);
int close_xrcd(HcaState&, uint32_t xrcd);

}  // namespace kilim::vhca
