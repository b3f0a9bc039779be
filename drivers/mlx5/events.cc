// SPDX-License-Identifier: BSD-3-Clause
// The adapter's asynchronous events: each one is counted, and where it names a queue that is ours
// the queue is remembered until it is reset. Part of Mlx5Device; control path only.
#include <algorithm>

#include <poll.h>

#include "mlx5/mlx5_device.hh"

namespace kilim::mlx5 {

// The handle of the queue that an event names; 0: none of this device's.
uint32_t Mlx5Device::handle_of(const ibv_async_event& event) const noexcept {
  const auto number = [](const auto& list, const auto& is_it) -> uint32_t {
    const auto at = std::find_if(list.begin(), list.end(), is_it);
    return at == list.end() ? 0 : at->first;
  };
  if (event.event_type == IBV_EVENT_CQ_ERR)
    return number(cqs_, [&](const auto& c) { return c.second.verbs.get() == event.element.cq; });
  if (event.event_type == IBV_EVENT_WQ_FATAL)
    return number(rwqs_, [&](const auto& r) { return r.second.get() == event.element.wq; });
  return number(qps_, [&](const auto& q) { return q.second.verbs.get() == event.element.qp; });
}

void Mlx5Device::heed(const ibv_async_event& event) noexcept {
  switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL:
      lost_ = true;
      return;
    case IBV_EVENT_SRQ_ERR:
      events_.queue_errors++;
      return;
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_WQ_FATAL:
      (event.event_type == IBV_EVENT_CQ_ERR ? events_.cq_overruns : events_.queue_errors)++;
      if (const uint32_t handle = handle_of(event); handle != 0) faulted_.insert(handle);
      return;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
      events_.port_changes++;
      return;
    default:  // of connections: COMM_EST, SQ_DRAINED, path migration; limits of shared queues
      return;
  }
}

// In a lent context the events are the caller's to read.
void Mlx5Device::read_events() noexcept {
  if (lent_) return;
  pollfd ready{context_->async_fd, POLLIN, 0};
  ibv_async_event event{};
  while (!lost_ && ::poll(&ready, 1, 0) == 1 && (ready.revents & POLLIN) != 0 &&
         ibv_get_async_event(context_.get(), &event) == 0) {
    heed(event);
    ibv_ack_async_event(&event);
  }
}

bool Mlx5Device::lost() noexcept {
  read_events();
  return lost_;
}

device::DeviceEvents Mlx5Device::events() noexcept {
  read_events();
  return events_;
}

}  // namespace kilim::mlx5
