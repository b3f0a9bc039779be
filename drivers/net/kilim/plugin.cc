// SPDX-License-Identifier: BSD-3-Clause
// librte_net_kilim.so, which EAL finds in its folder of plugins or by -d: no driver of its own, it
// brings libkilim.so, whose constructor registers the one there is.
#include "net/kilim/rte_pmd_kilim.h"

namespace {

// Without a symbol that is used the linker would leave libkilim.so out.
[[gnu::used]] const auto brought = &rte_pmd_kilim_count;

}  // namespace
