// SPDX-License-Identifier: BSD-3-Clause
// PRM: "RST2INIT_QP ... 2RST_QP". Takes a queue pair from state to state. Adapter's lock held.
#pragma once

#include <cstdint>

#include "kilim/prm/av_seg.hh"
#include "vhca/hca/state.hh"

namespace kilim::vhca {

// 0, or a negative errno as mlx5_ib answers; nothing is changed then.
int modify_qp(HcaState&, Qp&, const QpAttr&, uint32_t mask) noexcept;

// The GID of index `index` of the port with this MAC: 0 is the link-local RoCE v2 one. False: none.
bool port_gid(const Mac&, uint32_t index, Gid&) noexcept;
// The same of an adapter's port: 1 is the one that was configured.
bool port_gid(const HcaConfig&, uint32_t index, Gid&) noexcept;
bool is_own_gid(const HcaConfig&, const Gid&) noexcept;
// Whether an address is this adapter's. InfiniBand goes by LID, and by GID where one is named.
bool leads_here(const HcaConfig&, const prm::AvSeg&) noexcept;

}  // namespace kilim::vhca
