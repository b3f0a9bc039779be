// SPDX-License-Identifier: BSD-3-Clause
// librte_net_kilim.so, which EAL loads from its folder of plugins or by -d. It has no driver of its
// own: it makes the loader bring libkilim.so, whose constructor registers the driver.
#include "kilim/rte_pmd_kilim.h"

namespace {

// A reference to a symbol of libkilim.so, without which the linker would not record that library.
[[gnu::used]] const auto brought = &rte_pmd_kilim_count;

}  // namespace
