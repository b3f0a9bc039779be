// SPDX-License-Identifier: BSD-3-Clause
// Port: one Ethernet port of a device, with its queues, the packet arena under the device's key,
// the burst functions chosen for them, and the rules that lead frames to them. Owns the device and
// everything made on it; caches and arena belong to the caller and outlive a started port. Threads:
// the control lcore configures, starts and stops it. Between start() and stop() each queue belongs
// to one worker, which calls rx() and tx() for it; revive() and stop_rx() take queues away
// meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/burst/select.hh"
#include "kilim/detail/device/owned.hh"
#include "kilim/detail/flow/filter.hh"
#include "kilim/detail/flow/rule.hh"
#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/pool/pool.hh"
#include "kilim/detail/port/loss_counters.hh"
#include "kilim/detail/port/queues.hh"
#include "kilim/detail/port/stats.hh"
#include "kilim/detail/port/steering.hh"
#include "kilim/detail/port/view.hh"
#include "kilim/detail/queue/error_log.hh"
#include "kilim/detail/worker/poller.hh"
#include "kilim/detail/worker/quiescence.hh"

namespace kilim::inline v1::port {

// What a port is made of.
struct PortParts {
  std::string name;  // of the vdev
  std::unique_ptr<device::Device> device;
  worker::Poller poller;  // runs a virtual device that is polled; empty: the device runs by itself
  uint8_t number = 1;     // of the device's port
  QueueSizes defaults;
  // Lets a port of the device of this name drop longer frames than `mtu` allows; 0: no more.
  // attach::set_mtu() does. Null: nothing does.
  Status (*limit_frames)(const std::string& device, uint32_t port, uint32_t mtu) = nullptr;
  // The device may write packets in another order than they came (PCIe relaxed ordering): a
  // completion still comes behind its packet.
  bool relaxed_ordering = true;
};

// The last error of a port's receives, of its sends, and of the binds of its keys. Each is read by
// any thread (queue::ErrorLog::read()); they stay when queues go.
struct LastErrors {
  queue::ErrorLog received, sent, keys;
};

// Names a flow rule of a port; never used again.
using RuleId = Ident<struct RuleIdTag, uint32_t>;

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
  // Number of the device's port, from 1.
  [[nodiscard]] uint8_t number() const noexcept { return parts_.number; }
  [[nodiscard]] const device::PortInfo& info() const noexcept { return info_; }
  [[nodiscard]] const QueueSizes& defaults() const noexcept { return parts_.defaults; }
  [[nodiscard]] const QueueSizes& sizes() const noexcept { return sizes_; }
  [[nodiscard]] const worker::Poller& poller() const noexcept { return parts_.poller; }
  [[nodiscard]] bool started() const noexcept { return started_; }
  // The arena under the device's key; null: the port is not configured.
  [[nodiscard]] const mr::Region* region() const noexcept {
    return region_ ? &region_->region() : nullptr;
  }
  // The arena of a configured port.
  [[nodiscard]] const pool::Arena& arena() const noexcept { return arena_; }

  // Stopped ports only (EBUSY). Registers the arena with the device. EINVAL: sizes out of range, or
  // an arena of several page sizes; EOPNOTSUPP: the device has one receive queue a port; or an
  // error of the registrar.
  Status configure(const QueueSizes& sizes, const pool::ArenaMemory& arena) {
    return configure(sizes, arena.arena());
  }
  // Configures the port with any arena over mapped memory with pages of one size, such as that of a
  // MbufPool.
  Status configure(const QueueSizes& sizes, const pool::Arena& arena);
  // Stops the port and deregisters the arena; arena and caches may be destroyed afterwards.
  void unconfigure() noexcept;
  // Sets a queue's cache, burst and offloads. Configured ports, and stopped ones only (EBUSY).
  // EINVAL; EOPNOTSUPP: the device has no such offload.
  Status set_rx(uint32_t queue, const RxSetup& setup);
  Status set_tx(uint32_t queue, const TxSetup& setup);

  // Makes the queues, fills the receive rings and steers frames to them; after an error nothing of
  // it remains.
  Status start();
  // Starts the port for queues that the caller made on device() and serves itself, such as an
  // ethdev's: the port makes none, leads frames to these and keeps rules, filter and spreading for
  // them; rx(), tx() and statistics of queues are not the port's then. stop() ends it, before the
  // queues go. With `reads_tunnels` the caller takes CQEs that tell of the headers inside tunnels,
  // which those of frames have that a rule with a tunnel, or spreading by inner headers, leads.
  // EBUSY: started already; EINVAL: no queues; or as set_filter() and set_rss().
  Status start_for(std::span<const RxTarget> queues, const flow::Filter& filter,
                   const flow::Rss& rss, bool reads_tunnels = false);
  // Destroys the queues and flow rules, when no worker serves the port any more; buffers return to
  // their queue's cache.
  void stop() noexcept;

  // One receive queue of a started port. stop_rx() takes it from its worker: `workers` tells when
  // the workers have left it (null: the caller serves it), and it waits for that, at most a second
  // (ETIMEDOUT: try again). Frames for a stopped queue are dropped by the device; its buffers are
  // free. Stopping a stopped queue and starting a started one does nothing. EOPNOTSUPP: the only
  // queue of a port without set_rss().
  Status stop_rx(uint32_t queue, worker::Quiescence* workers);
  Status start_rx(uint32_t queue);
  // Another worker, with this cache, serves a started queue from now on; the one before it has left
  // it (Worker::remove()), and frames go on coming. EINVAL: no such queue, or a cache of another
  // pool.
  Status hand_rx(uint32_t queue, pool::BufferCache& cache);
  // Also under traffic, where the queue is a work queue. EOPNOTSUPP.
  Status strip_vlan(uint32_t queue, bool on);

  // How frames are spread over the receive queues and which frames are received, if no flow rule
  // says otherwise: kept over stop() and start(), and changed under traffic without losing or
  // doubling a frame. After an error everything is as before; `why` names the field.
  Status set_rss(const flow::Rss& rss, flow::RuleError* why = nullptr);
  Status set_filter(const flow::Filter& filter, flow::RuleError* why = nullptr);
  // On: the port has no rules of its own, so it receives what flow rules lead to it and nothing
  // else, and what they leave goes on to the kernel's network interface (rte_flow_isolate()).
  // Filter and spreading are kept for when it is off again, as at first. Also under traffic; kept
  // over stop() and start(). Control lcore. Errors of the device: everything is as before.
  Status set_isolated(bool on);
  [[nodiscard]] bool isolated() const noexcept { return isolated_; }
  // Frames to this address are the port's own from now on, as if the device had told it at first.
  Status set_address(const device::MacAddress& mac);
  [[nodiscard]] const flow::Rss& rss() const noexcept { return rss_; }
  [[nodiscard]] const flow::Filter& filter() const noexcept { return filter_; }

  // The longest frames that the port takes: of `mtu` bytes behind an Ethernet header and up to two
  // VLAN tags (22 bytes on top). From start() to stop() longer ones are dropped by the device and
  // counted (PortStats::rx_oversize). Kept over both; under traffic it counts from the next frame
  // on. 0, as at first: none is dropped for its length alone. Control lcore. EINVAL: not 0 and not
  // 68 to 9,978, or such a frame does not fit into a receive of a queue that is set up; ENODEV: no
  // virtual device: a card's limit is the MTU of its interface, which other programs share.
  Status set_mtu(uint32_t mtu);
  // 0: there is none; 1,500 is no default.
  [[nodiscard]] uint32_t mtu() const noexcept { return mtu_; }

  // Flow rules of a started port; stop() removes them. EINVAL with the field; EOPNOTSUPP: the
  // device has no such match or action; ENOSPC.
  Result<RuleId> add_rule(const flow::Rule& rule, flow::RuleError* why = nullptr);
  Status remove_rule(RuleId rule);
  // EINVAL: the rule does not count.
  [[nodiscard]] Result<flow::Count> query_rule(RuleId rule) const;

  // The queue's worker. rx() fills `out` with received packets and returns how many handles; where
  // a packet may take several (RxSetup::segments()) these are chains of whole packets, and `out`
  // has room for the longest. tx() sends packets from the front of `in` and returns how many
  // handles it took; the caller keeps the rest.
  uint32_t rx(uint32_t queue, std::span<pool::Handle> out) noexcept {
    RxSlot& s = rx_[queue];
    return std::atomic_ref(s.burst).load(std::memory_order_acquire)(*s.queue, out);
  }
  uint32_t tx(uint32_t queue, std::span<const pool::Handle> in) noexcept {
    TxSlot& s = tx_[queue];
    return std::atomic_ref(s.burst).load(std::memory_order_acquire)(*s.queue, in);
  }
  // The queue's worker, where RxSetup::events, before it sleeps (worker::Waiting): asks the device
  // for an event with the next frame; adds the descriptor where it arrives. A queue that is down or
  // stopped has none: the worker looks for its return every few milliseconds.
  void arm_rx(uint32_t queue) noexcept;
  void watch_rx(uint32_t queue, worker::WaitSet& set) const noexcept;
  // Shows what rx() and tx() handle to `tap` from now on, also when the port is stopped and started
  // again. Control lcore, under traffic. EBUSY: there is a tap.
  Status set_tap(const Tap& tap);
  [[nodiscard]] bool has_tap() const noexcept { return tap_ != nullptr; }
  // The tap is not called any more when it returns: it waits until the workers have left it, as
  // stop_rx() does. ETIMEDOUT: ask again before the tap goes.
  Status clear_tap(worker::Quiescence* workers);
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
  // cannot be reset stays down and is tried again, each time after a longer pause (port/retry.hh),
  // unless the device is lost. It also reads the device's events: a queue whose error an event
  // tells is recovered likewise, and info() follows the port's link and MTU.
  void revive(worker::Quiescence* workers) noexcept;

  // What the device tells of frames that were lost since the port was created, of all users of the
  // device: the members of PortStats that stats() leaves at 0; 0 also where the device does not
  // report it. Any thread; reads sysfs files and waits as view() does.
  [[nodiscard]] PortStats losses();
  [[nodiscard]] uint64_t missed() { return losses().rx_missed; }
  // stats() and losses(). Any thread, also while the control lcore starts or stops the port.
  [[nodiscard]] PortStats all_stats();
  // Any thread while nobody starts or stops the port. Counts since it was created, without
  // losses().
  [[nodiscard]] PortStats stats() const noexcept;
  // All that there is to tell, as a value. Any thread, also while the control lcore starts, stops
  // or changes the port: one waits for the other.
  [[nodiscard]] PortView view();
  // What one queue has counted since the port was started.
  [[nodiscard]] RxQueueStats rx_stats(uint32_t queue) const noexcept;
  [[nodiscard]] TxQueueStats tx_stats(uint32_t queue) const noexcept;
  [[nodiscard]] LastErrors& last_errors() noexcept { return last_errors_; }
  // The queue's worker: frames that wait to be received; handles whose completion was not seen.
  [[nodiscard]] uint32_t rx_depth(uint32_t queue) const noexcept;
  [[nodiscard]] uint32_t tx_depth(uint32_t queue) const noexcept {
    return tx_[queue].queue->sent.held();
  }

 private:
  explicit Port(PortParts parts) noexcept : parts_(std::move(parts)) {}
  void end() noexcept;
  void insert_tap(const Tap* tap) noexcept;
  // Waits until no worker is in a burst that began before; false: one did not report in time.
  bool left_by(worker::Quiescence* workers) noexcept;
  // Whether frames of this MTU fit into the receives of every queue that is set up.
  [[nodiscard]] bool holds_frames_of(uint32_t mtu) const noexcept;
  void limit_frames(uint32_t mtu) noexcept;
  Status begin_mtu() noexcept;
  void end_mtu() noexcept;
  Status make_queues();
  Status make_pair(uint32_t index);
  Status make_tx(uint32_t index);
  Status make_rx();
  Status create_rwq(RxSlot& rx);
  void drop_queues() noexcept;
  void drop_rules() noexcept;
  [[nodiscard]] bool wants_rwqs() const noexcept;
  [[nodiscard]] bool with_rwqs() const noexcept { return !rx_targets_.empty(); }
  // The receive queue that a transmit queue's pair carries; null: none.
  [[nodiscard]] RxSlot* carried_by(std::size_t index) noexcept;
  Status run_rx(RxSlot& rx, RxCaches caches) noexcept;
  Status halt_rx(RxSlot& rx, RxCaches caches) noexcept;
  void revive_pairs(worker::Quiescence* workers) noexcept;
  void revive_rwqs(worker::Quiescence* workers) noexcept;
  void heed_events() noexcept;
  [[nodiscard]] flow::RuleLimits rule_limits() const noexcept;
  [[nodiscard]] Destinations destinations() noexcept;
  [[nodiscard]] flow::RuleError check_rss(const flow::Rss& rss) noexcept;
  Result<RuleSet> try_own_rules(const flow::Filter& filter, const flow::Rss& rss, uint16_t set);
  Result<RuleSet> lay_own_rules(const flow::Filter& filter, const flow::Rss& rss, uint16_t set);
  Status change_own_rules(const flow::Filter& filter, const flow::Rss& rss);
  Result<RuleId> add_ingress_rule(const flow::Rule& rule, flow::RuleError* why);
  Result<RuleId> add_egress_rule(const flow::Rule& rule, flow::RuleError* why);
  RuleId keep_rule(RuleSet rules);
  [[nodiscard]] bool down(std::size_t index) const noexcept;
  [[nodiscard]] bool may_try(const Revival& r) noexcept;
  void tried(Revival& r, bool back) noexcept;
  void hold(std::size_t index, bool on) noexcept;
  Status revive_one(std::size_t index) noexcept;
  Status revive_pair(std::size_t index, pool::BufferCache& cache,
                     pool::BufferCache& headers) noexcept;
  void restart_rx(RxSlot& rx, RxCaches caches) noexcept;
  [[nodiscard]] PortStats live() const noexcept;
  [[nodiscard]] PortStats counts();  // all_stats(), under the lock

  PortParts parts_;
  device::PortInfo info_;
  QueueSizes sizes_;
  std::optional<mr::Mr> region_;
  pool::Arena arena_;
  std::vector<RxSlot> rx_;
  std::vector<TxSlot> tx_;
  std::vector<RxTarget> rx_targets_;  // of rx_; empty: a pair carries the only queue
  std::optional<device::Lro> lro_;    // what all of them take
  flow::Filter filter_;
  flow::Rss rss_;
  bool rss_asked_ = false;  // by set_rss()
  // Rules lead to queues, so they go before them.
  std::optional<RuleSet> own_rules_;
  uint16_t own_set_ = 0;        // which of flow::own_sets the port's own rules are
  bool few_places_ = false;     // the kernel has 8 priorities, as its refusal told
  uint8_t last_priority_ = 0;   // of the rules that were added since there was none
  bool reads_tunnels_ = false;  // of start_for()
  bool isolated_ = false;       // of set_isolated()
  std::unordered_map<uint32_t, RuleSet> rules_;
  uint32_t next_rule_ = 1;
  uint32_t mtu_ = 0;  // of set_mtu()
  Counter recoveries_;
  device::DeviceEvents heeded_;  // what revive() has read
  Counter cq_overruns_, queue_events_, port_changes_;
  LossCounters losses_;
  const Tap* tap_ = nullptr;
  PortStats before_;  // of queues that are gone
  LastErrors last_errors_;
  bool started_ = false;
  // Held while queues or rules come and go, and by view(). Not in bursts, nor while waiting for a
  // worker.
  std::mutex shape_;
};

}  // namespace kilim::inline v1::port
