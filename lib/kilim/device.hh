// SPDX-License-Identifier: BSD-3-Clause
// attach::resolve() opens an adapter by its name: a card's, such as mlx5_0, or vhcaN, a virtual one
// that it attaches to this process first. device::Device is the open adapter: what it can do
// (caps()), its queues and keys, and the registrar for memory; create_cq(), create_rc() and the
// others of their kind make queues that destroy themselves. A Device outlives everything made on
// it.
//
// Threads: set-up only. Any thread may call a Device, one at a time; bursts never do. Attachment's
// poller runs a virtual device: each worker that uses the device adds it.
//
// Errors: ENODEV: there is no such device; EOPNOTSUPP: the device has no such object; EINVAL,
// ENOMEM, EPERM as the verb gives them. Device::lost() says that the adapter is dead.
//
// Example:
//   #include <cstdio>
//   int main() {
//     auto adapter = kilim::attach::resolve({.name = "vhca0"});
//     if (!adapter) return adapter.error().code;
//     kilim::device::Device& device = *adapter->device;
//     auto cq = kilim::device::create_cq(device, 64);
//     if (!cq) return cq.error().code;
//     std::printf("%s: a queue of %u completions\n", device.name(), (*cq)->geometry.cqe_count);
//     return 0;
//   }
#pragma once

#include "attach/resolve.hh"
#include "kilim/detail/device/device.hh"
#include "kilim/detail/device/inline_arbiter.hh"
#include "kilim/detail/device/owned.hh"
#include "kilim/detail/device/recovery.hh"
