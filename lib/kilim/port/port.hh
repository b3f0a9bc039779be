// SPDX-License-Identifier: BSD-3-Clause
// One Ethernet port: a device's port with its queues, the packet arena under the device's key, and
// the bursts chosen for it. The control lcore configures, starts and stops it; between start() and
// stop() each queue belongs to one worker, which calls rx() and tx() for it; revive() takes a
// failed one away for a moment. Owns the device and everything made on it; stashes and arena belong
// to the caller and outlive a started port.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kilim/base/result.hh"
#include "kilim/burst/select.hh"
#include "kilim/device/owned.hh"
#include "kilim/mr/registrar.hh"
#include "kilim/pool/pool.hh"
#include "kilim/port/device_counter.hh"
#include "kilim/port/queues.hh"
#include "kilim/worker/poller.hh"
#include "kilim/worker/quiescence.hh"

namespace kilim::port {

struct PortParts {
  std::string name;  // of the vdev
  std::unique_ptr<device::Device> device;
  worker::Poller poller;  // runs the device; without a function where it runs by itself
  uint8_t number = 1;     // of the device's port
  QueueSizes defaults;
};

struct PortStats {
  uint64_t rx_packets = 0, rx_bytes = 0;
  uint64_t tx_packets = 0, tx_bytes = 0;
  uint64_t tx_completed = 0;
  uint64_t rx_errors = 0;     // completions with an error
  uint64_t rx_too_long = 0;   // of them, frames longer than a packet buffer
  uint64_t rx_missed = 0;     // frames that found no receive request, as the device says (missed())
  uint64_t rx_no_buffer = 0;  // refills that found the pool dry: frames waited or were lost
  uint64_t tx_errors = 0;     // completions with an error
  uint64_t keys_woven = 0, weave_errors = 0;
  uint64_t keys_ended = 0;   // invalidations that completed
  uint64_t recoveries = 0;   // times that revive() brought a queue back
  uint64_t queues_down = 0;  // queue numbers that do no work now because of an error

  PortStats& operator+=(const PortStats& o) noexcept;
};

class Port {
 public:
  // Reads the port's address; the device is open.
  static Result<std::unique_ptr<Port>> create(PortParts parts);
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  ~Port();

  [[nodiscard]] const std::string& name() const noexcept { return parts_.name; }
  [[nodiscard]] device::Device& device() noexcept { return *parts_.device; }
  [[nodiscard]] const device::PortInfo& info() const noexcept { return info_; }
  [[nodiscard]] const QueueSizes& defaults() const noexcept { return parts_.defaults; }
  [[nodiscard]] const QueueSizes& sizes() const noexcept { return sizes_; }
  [[nodiscard]] const worker::Poller& poller() const noexcept { return parts_.poller; }
  [[nodiscard]] bool started() const noexcept { return started_; }

  // Stopped ports only. Registers the arena with the device.
  Status configure(const QueueSizes& sizes, const pool::ArenaMemory& arena);
  // Stops the port and forgets arena and stashes, which may go away afterwards.
  void unconfigure() noexcept;
  // Says who serves a queue. Configured and stopped ports only.
  Status set_rx(uint32_t queue, const RxSetup& setup);
  Status set_tx(uint32_t queue, const TxSetup& setup);

  // Makes the queues, fills the receive rings, lets frames in. On an error nothing is left.
  Status start();
  // No worker serves the port any more. Every buffer goes back to the stash of its queue.
  void stop() noexcept;

  // The queue's worker. rx() hands packets over; tx() takes the handles it returns the count of.
  uint32_t rx(uint32_t queue, std::span<pool::Handle> out) noexcept {
    RxSlot& s = rx_[queue];
    return s.burst(*s.queue, out);
  }
  uint32_t tx(uint32_t queue, std::span<const pool::Handle> in) noexcept {
    TxSlot& s = tx_[queue];
    return s.burst(*s.queue, in);
  }
  // Sees transmit completions without sending.
  uint32_t reclaim(uint32_t queue) noexcept {
    TxSlot& s = tx_[queue];
    return s.reclaim(*s.queue);
  }
  // Packets of one piece that tx() surely takes.
  [[nodiscard]] uint32_t tx_room(uint32_t queue) const noexcept {
    return burst::tx_room(*tx_[queue].queue);
  }
  burst::TxQueue& tx_queue(uint32_t queue) noexcept { return *tx_[queue].queue; }
  // Null in builds without asserts.
  const diag::DoorbellLint* tx_lint(uint32_t queue) noexcept { return tx_[queue].lint.get(); }
  // Null where the queue was set up without keys.
  Weaver* weaver(uint32_t queue) noexcept { return tx_[queue].weaver.get(); }

  // Control lcore, every now and then while the port is started: queues that an error ended are
  // taken from their workers, drained, reset and given back, a step a call; their packets are lost.
  // `workers` says when the workers keep away; null: the caller serves the queues itself. A queue
  // that the device does not take back stays down until stop().
  void revive(worker::Quiescence* workers) noexcept;

  // Frames that the device dropped since the port was created because no receive request was there,
  // whoever uses the device; 0 too where it does not say. Control lcore; reads a file.
  [[nodiscard]] uint64_t missed();
  // Any thread while nobody starts or stops the port. Counts since it was created, without
  // missed().
  [[nodiscard]] PortStats stats() const noexcept;

 private:
  explicit Port(PortParts parts) noexcept : parts_(std::move(parts)) {}
  Status make_queues();
  Status make_pair(uint32_t index);
  void drop_queues() noexcept;
  [[nodiscard]] bool down(std::size_t index) const noexcept;
  void hold(std::size_t index, bool on) noexcept;
  Status revive_one(std::size_t index) noexcept;
  Status revive_pair(std::size_t index, pool::Stash& stash, pool::Stash& headers) noexcept;
  void restart_rx(RxSlot& rx, pool::Stash& stash) noexcept;
  [[nodiscard]] PortStats live() const noexcept;

  PortParts parts_;
  device::PortInfo info_;
  QueueSizes sizes_;
  std::optional<mr::Mr> region_;
  pool::Arena arena_;
  std::vector<RxSlot> rx_;
  std::vector<TxSlot> tx_;
  std::optional<device::FlowHandle> flow_;
  Counter recoveries_;
  DeviceCounter missed_;
  PortStats before_;  // of queues that are gone
  bool started_ = false;
};

}  // namespace kilim::port
