// SPDX-License-Identifier: BSD-3-Clause
// Makes a Device in a caller's protection domain. Context and domain stay the caller's; the objects
// made in them are destroyed with the Device. Device::progress() polls an empty completion queue,
// which runs a virtual adapter under the launcher; an adapter attached in process needs its own
// thread, or hooked polls (vhca/entry/poll_hook.hh). Any thread; control path only. The domain
// outlives the Device.
#pragma once

#include <memory>

#include <infiniband/verbs.h>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/device/device.hh"

namespace kilim::mlx5 {

// EOPNOTSUPP: it is no mlx5 adapter; or the error of a verbs call.
Result<std::unique_ptr<device::Device>> borrow(ibv_pd* pd);

}  // namespace kilim::mlx5
