// SPDX-License-Identifier: BSD-3-Clause
// What an adapter tells beside its completions (ibv_get_async_event(3)), counted since it was
// opened. Device::events() fills it. Pure values, any thread. The end of the adapter is no count:
// Device::lost().
#pragma once

#include <cstdint>

namespace kilim::inline v1::device {

struct DeviceEvents {
  // A completion queue ran over, or its memory is gone: IBV_EVENT_CQ_ERR. The adapter writes
  // nothing there any more, so its queues stay silent until it is made anew.
  uint64_t cq_overruns = 0;
  // Errors of queues: IBV_EVENT_QP_FATAL, QP_REQ_ERR, QP_ACCESS_ERR, SRQ_ERR, WQ_FATAL. Which ones:
  // Device::faulted().
  uint64_t queue_errors = 0;
  // Link, addresses or keys of a port changed: IBV_EVENT_PORT_ACTIVE, PORT_ERR, GID_CHANGE, ...
  uint64_t port_changes = 0;

  bool operator==(const DeviceEvents&) const = default;
};

}  // namespace kilim::inline v1::device
