// SPDX-License-Identifier: BSD-3-Clause
// A virtual device opened through drivers/mlx5, with one reliable connection to itself and Kilim's
// own queues on it. One thread; everything is released by the destructors.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kilim/detail/device/owned.hh"
#include "kilim/detail/queue/cq.hh"
#include "kilim/detail/queue/rq.hh"
#include "kilim/detail/queue/sq.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "mlx5/open.hh"
#include "vhca/core/journal.hh"
#include "vhca/entry/attach.hh"
#include "vhca/hca/hca.hh"

namespace kilim::test {

// What a virtual device of this name and profile is attached with.
inline DeviceSpec config(const std::string& name, const char* profile = "cx6dx") {
  DeviceSpec c;
  c.name = name;
  c.profile = profile;
  return c;
}

// Attaches a virtual device of this name and opens it; null where either fails.
struct VirtualDevice {
  vhca::entry::Attached* attached = nullptr;
  std::unique_ptr<device::Device> device;

  explicit VirtualDevice(const DeviceSpec& config) {
    Result<vhca::entry::Attached*> a = vhca::entry::attach(config);
    if (!a) return;
    attached = *a;
    auto run = [](void* arg) { static_cast<vhca::entry::Attached*>(arg)->poll(); };
    auto d =
        mlx5::open(config.name.c_str(), {.run = run, .arg = attached}, vhca::entry::sysfs_root());
    if (d) device = *std::move(d);
  }
  [[nodiscard]] const vhca::Journal& journal() const { return *attached->hca()->context.journal; }
};

// A loopback connection for UMR and traffic.
struct Loop {
  device::Device& device;
  device::OwnedCq scq, rcq;
  device::OwnedQp qp;
  std::vector<uint64_t> send_ids, recv_ids;
  std::optional<queue::Cq> send_cq, recv_cq;
  std::optional<queue::Sq> sq;
  std::optional<queue::Rq> rq;

  explicit Loop(device::Device& d, uint32_t access, bool umr = true) : device(d) {
    Result<device::OwnedCq> a = device::create_cq(d, 256);
    Result<device::OwnedCq> b = device::create_cq(d, 256);
    if (!a || !b) return;
    scq = *std::move(a);
    rcq = *std::move(b);
    device::RcRequest request;
    request.queues = {.send_cq = scq->handle,
                      .recv_cq = rcq->handle,
                      .send_wqebbs = 256,
                      .recv_wrs = 64,
                      .max_recv_sge = 1,
                      .inline_receive = device::InlineReceive::off};
    request.umr = umr;
    request.access = access;
    Result<device::OwnedQp> q = device::create_rc_loopback(d, request);
    if (!q) return;
    qp = *std::move(q);
    send_ids.resize(qp->sq.wqebb_count);
    recv_ids.resize(qp->rq.wqe_count);
    send_cq.emplace(scq->geometry);
    recv_cq.emplace(rcq->geometry);
    sq.emplace(qp->sq, send_ids);
    rq.emplace(qp->rq, recv_ids);
  }
  [[nodiscard]] bool ok() const { return static_cast<bool>(qp); }

  // Lets the device work until `cq` has a completion; none after 2000 turns.
  std::optional<queue::Completion> wait(queue::Cq& cq) {
    queue::Completion c[1];
    for (int turn = 0; turn < 2000; turn++) {
      if (cq.poll(c) == 1) return c[0];
      device.progress();
    }
    return std::nullopt;
  }
  // Everything that is posted comes back; then both queues start over.
  bool recover() {
    if (!device.fail(qp->handle)) return false;
    queue::Completion c[16];
    for (int turn = 0; turn < 100; turn++) {
      device.progress();
      while (send_cq->poll(c) != 0 || recv_cq->poll(c) != 0) {
      }
    }
    if (!device.reset(qp->handle)) return false;
    sq->reset();
    rq->reset([](uint64_t) {});
    return true;
  }
};

}  // namespace kilim::test
