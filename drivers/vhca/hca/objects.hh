// SPDX-License-Identifier: BSD-3-Clause
// Makes and removes keys, completion queues and queue pairs for Hca's calls. Adapter's lock held;
// control path, allocates. Errors are negative errno values as mlx5_ib answers.
#pragma once

#include "vhca/hca/state.hh"

namespace kilim::vhca {

Result<MrKeys> reg_mr(HcaState&, const MrSpec&);
Result<Cqn> create_cq(HcaState&, const CqSpec&, EventSink*);
int destroy_cq(HcaState&, Cqn);
Result<Qpn> create_qp(HcaState&, const QpSpec&, EventSink*);
int destroy_qp(HcaState&, Qpn);

}  // namespace kilim::vhca
