// SPDX-License-Identifier: BSD-3-Clause
// PRM: "RST2INIT_QP ... 2RST_QP". Takes a queue pair from state to state. Adapter's lock held.
#pragma once

#include <cstdint>

#include "vhca/hca/state.hh"

namespace kilim::vhca {

// 0, or a negative errno as mlx5_ib answers; nothing is changed then.
int modify_qp(HcaState&, Qp&, const QpAttr&, uint32_t mask) noexcept;

}  // namespace kilim::vhca
