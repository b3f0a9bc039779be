// SPDX-License-Identifier: BSD-3-Clause
// Port: one Ethernet port of a device, with its queues, the packet arena under the device's key,
// and the burst functions chosen for them. Owns the device and everything made on it; caches and
// arena belong to the caller and outlive a started port. Threads: the control lcore configures,
// starts and stops it. Between start() and stop() each queue belongs to one worker, which calls
// rx() and tx() for it; revive() takes failed queues away meanwhile.
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

// What a port is made of.
struct PortParts {
  std::string name;  // of the vdev
  std::unique_ptr<device::Device> device;
  worker::Poller poller;  // runs a virtual device that is polled; empty: the device runs by itself
  uint8_t number = 1;     // of the device's port
  QueueSizes defaults;
};

// Counts of all queues of a port.
struct PortStats {
  uint64_t rx_packets = 0, rx_bytes = 0;
  uint64_t tx_packets = 0, tx_bytes = 0;
  uint64_t tx_completed = 0;  // packets whose completion was seen
  uint64_t rx_errors = 0;     // completions with an error
  uint64_t rx_too_long = 0;   // how many of them: frames longer than a packet buffer
  uint64_t rx_missed = 0;     // frames that the device dropped for lack of a receive WQE: missed()
  uint64_t rx_no_buffer = 0;  // refills that found the pool empty: frames wait or are dropped
  uint64_t tx_errors = 0;     // completions with an error
  uint64_t keys_bound = 0, bind_errors = 0;
  uint64_t keys_ended = 0;   // invalidations that completed
  uint64_t recoveries = 0;   // queues that revive() has recovered
  uint64_t queues_down = 0;  // queues that are out of work now because of an error

  PortStats& operator+=(const PortStats& o) noexcept;
};

class Port {
 public:
  // Control lcore. Takes over the open device and reads the port's MAC address. EOPNOTSUPP: it is
  // no Ethernet port, or has no raw packet queues; EINVAL: default sizes out of range.
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

  // Stopped ports only (EBUSY). Registers the arena with the device. EINVAL: sizes out of range, or
  // an arena of several page sizes; or an error of the registrar.
  Status configure(const QueueSizes& sizes, const pool::ArenaMemory& arena);
  // Stops the port and deregisters the arena; arena and caches may be destroyed afterwards.
  void unconfigure() noexcept;
  // Sets a queue's cache, burst and offloads. Configured and stopped ports only. EINVAL.
  Status set_rx(uint32_t queue, const RxSetup& setup);
  Status set_tx(uint32_t queue, const TxSetup& setup);

  // Makes the queues, fills the receive rings and steers frames to them; after an error nothing of
  // it remains.
  Status start();
  // Destroys the queues, when no worker serves the port any more; buffers return to their queue's
  // cache.
  void stop() noexcept;

  // The queue's worker. rx() fills `out` with received packets and returns how many. tx() sends
  // packets from the front of `in` and returns how many handles it took; the caller keeps the rest.
  uint32_t rx(uint32_t queue, std::span<pool::Handle> out) noexcept {
    RxSlot& s = rx_[queue];
    return s.burst(*s.queue, out);
  }
  uint32_t tx(uint32_t queue, std::span<const pool::Handle> in) noexcept {
    TxSlot& s = tx_[queue];
    return s.burst(*s.queue, in);
  }
  // Handles transmit completions without sending; returns how many handles it freed.
  uint32_t reclaim(uint32_t queue) noexcept {
    TxSlot& s = tx_[queue];
    return s.reclaim(*s.queue);
  }
  // How many packets of one piece tx() is sure to take.
  [[nodiscard]] uint32_t tx_room(uint32_t queue) const noexcept {
    return burst::tx_room(*tx_[queue].queue);
  }
  burst::TxQueue& tx_queue(uint32_t queue) noexcept { return *tx_[queue].queue; }
  // Null in builds without asserts.
  const diag::DoorbellLint* tx_lint(uint32_t queue) noexcept { return tx_[queue].lint.get(); }
  // Null where the queue was set up without keys.
  PacketGather* packet_gather(uint32_t queue) noexcept { return tx_[queue].gather.get(); }

  // Control lcore, now and then while the port is started: recovers failed queues, one step a call:
  // it takes them from their workers, drains and resets them; their packets are lost. `workers`
  // tells when the workers keep away; null: the caller serves the queues itself. A queue that
  // cannot be reset stays down until stop().
  void revive(worker::Quiescence* workers) noexcept;

  // Frames that the device dropped for lack of receive WQEs since the port was created, of all
  // users of the device; 0 also where the device does not report it. Control lcore; reads a sysfs
  // file.
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
  Status revive_pair(std::size_t index, pool::BufferCache& cache,
                     pool::BufferCache& headers) noexcept;
  void restart_rx(RxSlot& rx, pool::BufferCache& cache) noexcept;
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
