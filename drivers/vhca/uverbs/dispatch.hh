// SPDX-License-Identifier: BSD-3-Clause
// RDMA_VERBS_IOCTL: finds the method and hands it its checked attributes. Adapter's lock held.
#pragma once

#include "kilim/detail/base/ident.hh"
#include "vhca/uverbs/context.hh"

namespace kilim::vhca::uverbs {

// 0 or a negative errno; `header` is the client's ib_uverbs_ioctl_hdr.
int run_ioctl(Context& context, Va header);

}  // namespace kilim::vhca::uverbs
