// SPDX-License-Identifier: BSD-3-Clause
// The addresses of an adapter's port, and whether an address leads there. A value, fixed when the
// adapter is made: any thread.
#pragma once

#include <cstdint>

#include "kilim/prm/av_seg.hh"
#include "vhca/core/spec.hh"

namespace kilim::vhca {

struct Addresses {
  Mac mac{};         // of the port; the link-local GID follows from it
  Gid gid{};         // entry 1 of the GID table; all zero: none
  uint16_t lid = 0;  // of an InfiniBand port; 0: the port speaks RoCE
};

// The GID of index `index` of the port with this MAC: 0 is the link-local RoCE v2 one. False: none.
bool port_gid(const Mac&, uint32_t index, Gid&) noexcept;
// The same of an adapter's port: 1 is the one that was configured.
bool port_gid(const Addresses&, uint32_t index, Gid&) noexcept;
// Whether any entry of the port's GID table is this one.
bool is_own_gid(const Addresses&, const Gid&) noexcept;
// Whether an address, or a path, is this adapter's. InfiniBand goes by LID, and by GID where one is
// named.
bool leads_here(const Addresses&, const prm::AvSeg&) noexcept;
bool leads_here(const Addresses&, const QpAttr::Path&) noexcept;

}  // namespace kilim::vhca
