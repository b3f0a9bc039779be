// SPDX-License-Identifier: BSD-3-Clause
// Part of mlx5_device_ut. Completion channels: an armed queue has one event, at once where a CQE is
// there already, and one that was read asks anew under the next number.
#include <poll.h>

#include "mlx5_fixture.hh"
#include "rwq_cases.hh"

namespace event_cases_ut {
namespace {

using namespace kilim;
using test::config;
using test::VirtualDevice;

bool readable(const device::CqEvents& events) {
  pollfd p{events.fd, POLLIN, 0};
  return poll(&p, 1, 0) == 1;
}

// A queue pair whose receives complete in a queue with a channel; fail() brings a CQE for each.
struct Armed {
  VirtualDevice v;
  device::OwnedCq cq;
  device::OwnedQp qp;
  std::vector<uint64_t> ids;
  std::optional<queue::Cq> ring;
  std::optional<queue::Rq> rq;

  explicit Armed(const char* name) : v(config(name)) {
    CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
    auto made = device::create_cq(*v.device, {.entries = 64, .channel = true});
    CU_ASSERT_TRUE_FATAL(made.ok());
    cq = *std::move(made);
    device::QpRequest request{
        .send_cq = cq->handle, .recv_cq = cq->handle, .send_wqebbs = 64, .recv_wrs = 64};
    auto pair = device::create_raw_packet(*v.device, request, 1);
    CU_ASSERT_TRUE_FATAL(pair.ok());
    qp = *std::move(pair);
    ids.resize(qp->rq.wqe_count);
    ring.emplace(cq->geometry);
    rq.emplace(qp->rq, ids);
  }
  const device::CqEvents& events() const { return cq->events; }
  void arm() {
    ring->arm(events().read());
    v.device->progress();
  }
  // One CQE, a flushed receive's.
  void complete() {
    CU_ASSERT_TRUE(static_cast<bool>(rq->post(queue::Sge{}, 1)));
    rq->ring();
    v.device->progress();
  }
  void consume() {
    queue::Completion c[4];
    const uint32_t n = ring->poll(c);
    CU_ASSERT_TRUE(n != 0);
  }
};

void one_event_for_each_arming() {
  Armed a("ev0");
  CU_ASSERT_TRUE(a.v.device->fail(a.qp->handle).ok());
  a.complete();
  CU_ASSERT_FALSE(readable(a.events()));  // nobody asked
  a.consume();
  for (int i = 0; i < 9; i++) {  // more often than there are numbers
    a.arm();
    CU_ASSERT_FALSE(readable(a.events()));
    a.arm();  // asking again changes nothing
    a.complete();
    a.complete();
    CU_ASSERT_TRUE(readable(a.events()));
    EQUAL(a.events().read(), 1u);
    CU_ASSERT_FALSE(readable(a.events()));
    EQUAL(a.events().read(), 0u);  // and does not block
    a.ring->arm(1);
    a.v.device->progress();
    CU_ASSERT_TRUE(readable(a.events()));  // the CQEs are there still
    a.consume();
  }
}

void a_queue_without_a_channel() {
  VirtualDevice v{config("ev1")};
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
  auto cq = device::create_cq(*v.device, 16);
  CU_ASSERT_TRUE_FATAL(cq.ok());
  EQUAL((*cq)->events.fd, -1);
}

// Destroying a queue waits for events that were read and not acknowledged: there are none.
void goes_with_events_unread() {
  Armed a("ev2");
  CU_ASSERT_TRUE(a.v.device->fail(a.qp->handle).ok());
  a.arm();
  a.complete();
  CU_ASSERT_TRUE(readable(a.events()));
  a.qp.destroy();
  EQUAL(a.v.device->destroy_cq(a.cq->handle).ok(), true);
}

// No entry tells of a queue that ran over: the events do, and which queues they are about.
void an_overrun_is_told() {
  VirtualDevice v{config("ev3")};
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
  device::Device& d = *v.device;
  auto small = device::create_cq(d, 15), other = device::create_cq(d, 64);
  CU_ASSERT_TRUE_FATAL(small.ok());
  CU_ASSERT_TRUE_FATAL(other.ok());
  const auto make = [&d](device::CqHandle receives, device::CqHandle sends) {
    return device::create_raw_packet(
        d, {.send_cq = sends, .recv_cq = receives, .send_wqebbs = 64, .recv_wrs = 64}, 1);
  };
  auto qp = make((*small)->handle, (*other)->handle);
  auto good = make((*other)->handle, (*other)->handle);
  CU_ASSERT_TRUE_FATAL(qp.ok());
  CU_ASSERT_TRUE_FATAL(good.ok());
  CU_ASSERT_TRUE(d.events() == device::DeviceEvents{});
  std::vector<uint64_t> ids((*qp)->rq.wqe_count);
  queue::Rq rq((*qp)->rq, ids);
  for (int i = 0; i < 64; i++) CU_ASSERT_TRUE(static_cast<bool>(rq.post(queue::Sge{}, 1)));
  rq.ring();
  CU_ASSERT_TRUE(d.fail((*qp)->handle).ok());
  for (int i = 0; i < 10; i++) d.progress();
  const device::DeviceEvents told = d.events();
  EQUAL(told.cq_overruns, 1);
  EQUAL(told.queue_errors, 1);
  EQUAL(told.port_changes, 0);
  CU_ASSERT_TRUE(d.faulted((*small)->handle));
  CU_ASSERT_TRUE(!d.faulted((*other)->handle));
  CU_ASSERT_TRUE(d.faulted((*qp)->handle));
  CU_ASSERT_TRUE(!d.faulted((*good)->handle));
  CU_ASSERT_FALSE(d.lost());
  // A queue pair gets over it by RESET, a completion queue goes with it.
  CU_ASSERT_TRUE(d.reset((*qp)->handle).ok());
  CU_ASSERT_TRUE(!d.faulted((*qp)->handle));
  CU_ASSERT_TRUE(d.faulted((*small)->handle));
  const device::CqHandle gone = (*small)->handle;
  qp->destroy();
  small->destroy();
  CU_ASSERT_FALSE(d.faulted(gone));
  CU_ASSERT_TRUE(d.events() == told);
}

constexpr test::Case of_events[] = {
    {"a completion queue that ran over is told", an_overrun_is_told},
    {"an armed completion queue has one event", one_event_for_each_arming},
    {"a completion queue has a channel only where one is asked for", a_queue_without_a_channel},
    {"a completion queue goes with an event unread", goes_with_events_unread},
};

}  // namespace
}  // namespace event_cases_ut

std::span<const kilim::test::Case> kilim::test::event_cases() {
  return event_cases_ut::of_events;
}
