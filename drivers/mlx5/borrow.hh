// SPDX-License-Identifier: BSD-3-Clause
// A Device in a caller's protection domain: context and domain stay the caller's, what is made in
// them goes with the Device. Who waits polls a completion queue of the Device's own, which runs a
// virtual adapter under the launcher; an adapter attached in process needs its thread, or polls
// that are hooked (vhca/entry/poll_hook.hh).
// Any thread; control path only. The caller keeps the domain until the Device is gone.
#pragma once

#include <memory>

#include <infiniband/verbs.h>

#include "kilim/base/result.hh"
#include "kilim/device/device.hh"

namespace kilim::mlx5 {

// EOPNOTSUPP: not an mlx5 adapter.
Result<std::unique_ptr<device::Device>> borrow(ibv_pd* pd);

}  // namespace kilim::mlx5
