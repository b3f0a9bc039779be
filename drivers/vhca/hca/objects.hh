// SPDX-License-Identifier: BSD-3-Clause
// Makes and removes keys, completion queues and queue pairs for Hca's calls. Adapter's lock held;
// control path, allocates. Errors are negative errno values as mlx5_ib answers.
#pragma once

#include "vhca/hca/state.hh"

namespace kilim::vhca {

Result<MrKeys> reg_mr(HcaState&, const MrSpec&);
Result<MrKeys> reg_dm_mr(HcaState&, const DmMrSpec&);
int rereg_mr(HcaState&, MkeyIndex, const MrSpec&);
Result<Rkey> alloc_mw(HcaState&, Pdn, bool type2);

Result<Cqn> create_cq(HcaState&, const CqSpec&, EventSink*);
int resize_cq(HcaState&, Cqn, Va buf, uint32_t cqe_count);
int moderate_cq(HcaState&, Cqn, uint16_t count, uint16_t period_us);
int destroy_cq(HcaState&, Cqn);
Result<Qpn> create_qp(HcaState&, const QpSpec&, EventSink*);
int open_qp(HcaState&, Qpn, uint32_t xrcd, const QpHandle&);
// True: others are left, the queue pair stays.
bool close_qp_handle(HcaState&, Qpn, const void* owner);
int destroy_qp(HcaState&, Qpn);

}  // namespace kilim::vhca
