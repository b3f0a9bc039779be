// SPDX-License-Identifier: BSD-3-Clause
// One virtual adapter of one process: its tables of objects and the engine that executes work
// requests. What is made of them, and asked, are functions on it: hca/objects.hh, hca/ports.hh,
// hca/commands.hh. Owner: the process that opened it. Everything here needs `lock` held, run()
// included, unless it says otherwise.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/result.hh"
#include "vhca/core/address.hh"
#include "vhca/core/core_clock.hh"
#include "vhca/core/lock.hh"
#include "vhca/core/object_table.hh"
#include "vhca/core/order.hh"
#include "vhca/core/port_ip.hh"
#include "vhca/core/profile.hh"
#include "vhca/core/spec.hh"
#include "vhca/ethernet/flow_counters.hh"
#include "vhca/ethernet/tir.hh"
#include "vhca/exec/engine.hh"
#include "vhca/explain/explainer.hh"
#include "vhca/hca/device_memory.hh"
#include "vhca/hca/devx_umem.hh"
#include "vhca/hca/reserved_qpns.hh"
#include "vhca/hca/uar.hh"
#include "vhca/lint/lint.hh"
#include "vhca/tpt/key_table.hh"
#include "vhca/tpt/paging.hh"
#include "vhca/wq/cq.hh"

namespace kilim::vhca::wire {
class Wire;
}  // namespace kilim::vhca::wire

namespace kilim::vhca::hca {

class Connections;

// Somebody above who has work in the engine's turns: the ids of the connection manager's clients.
// Adapter's lock held.
class TurnGuest {
 public:
  virtual ~TurnGuest() = default;
  virtual std::size_t turn(uint64_t now) noexcept = 0;  // what it did
  // When turn() has something to do next, CLOCK_MONOTONIC nanoseconds.
  [[nodiscard]] uint64_t deadline() const noexcept { return deadline_ns; }

 protected:
  uint64_t deadline_ns = 0;
};

struct HcaConfig {
  std::string name;         // "vhca0"
  Profile profile;          // capabilities and limits
  Mac mac{};                // of port 1
  Mac node{};               // of the adapter, for its GUID; all zero: the port's
  Gid gid{};                // entry 1 of the GID table; all zero: none
  std::vector<PortIp> ips;  // of port 1, at most `most_ips`: the next entries of the GID table
  uint64_t seed = 0;        // numbering of keys and queues depends on it
  std::optional<uint8_t> member;  // of the processes that are one adapter; see Addresses
  std::vector<std::unique_ptr<wire::Wire>>
      wires;                   // one a port; none: nothing leaves the adapter but loopback
  Journal* journal = nullptr;  // outlives the adapter; null: counts only
  lint::LintMode lint{};       // off; see lint/lint.hh
  Order order;                 // of the WQEs of a send queue: as they stand there
  bool explain = false;        // see explain/explainer.hh
  // The adapter dies when this many send requests have been taken up; 0: never.
  uint64_t fatal_at = 0;
  RequestFaults failing;  // send requests that fail by themselves
};

struct Pd {
  const EventSink* open = nullptr;  // whose it is; null: the adapter's own
  uint32_t users = 0;               // queues; keys are counted by the key table
};

struct Xrcd {
  uint32_t number = 0;
  uint32_t opens = 0;  // handles on it
  uint32_t users = 0;  // shared receive queues and targets
  bool by_file = false;
  uint64_t device = 0, inode = 0;
};

// Of an address to a queue: the general object as its creator wrote it, which QUERY tells again.
struct AvMapping {
  std::array<std::byte, 64> object{};
};

// Clients' transport domains, and the TISes of their send queues.
struct TransportDomain {
  const EventSink* open = nullptr;
  uint32_t users = 0;
};
struct Tis {
  const EventSink* open = nullptr;
  uint32_t domain = 0;
  uint32_t users = 0;
};

struct Hca : exec::Engine {
  static Result<std::unique_ptr<Hca>> create(HcaConfig config);
  ~Hca();
  Hca(const Hca&) = delete;
  Hca& operator=(const Hca&) = delete;

  // Runs whatever doorbells, wires and timers demand, at most `budget` work requests and frames;
  // what it did.
  std::size_t run(std::size_t budget = 256);
  // Something to wait for when idle: wires' descriptors, and the next timer (CLOCK_MONOTONIC
  // nanoseconds; UINT64_MAX: none).
  void wait_set(std::vector<int>& fds, uint64_t& deadline_ns);
  // Whether a turn would find nothing at all to look at. Without `lock`: any thread.
  bool idle() const noexcept;
  // Destroyed queues have left something to be sent: run() sends it.
  bool owes() const noexcept;
  // Stores into doorbell pages were stopped on their way: the next turn looks at every record that
  // they may announce. A client writes it before it rings (rdma-core, providers/mlx5/qp.c,
  // post_send_db), so the work is there although the store is not.
  void expect_stores() noexcept;
  // Writes the present time into the page of the clock, if anybody has it. Without `lock`: any
  // thread.
  void tick_core_clock() noexcept;
  // The linter judges as `mode` says from now on, also what is posted already and was not executed.
  // Allocates.
  void set_lint(lint::LintMode mode);
  // Who hears of the adapter's own events; owners of queues do anyway. The sink outlives its stay.
  void add_sink(EventSink*);
  void remove_sink(EventSink*);

  [[nodiscard]] bool pd_exists(Pdn pdn) const noexcept { return pds.at(pdn.value()) != nullptr; }

  HcaConfig config;
  Addresses addresses;
  Lock lock;
  std::unique_ptr<Journal> own_journal;  // where the config names none
  tpt::Paging paging;                    // regions of keys use it to the end
  tpt::KeyTable keys;
  ObjectTable<Pd> pds;
  ObjectTable<wq::Cq> cqs;
  ObjectTable<wq::Srq> srqs;
  ObjectTable<Xrcd> xrcds;
  ObjectTable<wq::Qp> rqs;  // receive queues of their own
  ObjectTable<ethernet::Rqt> rqts;
  ObjectTable<ethernet::Tir> tirs;
  ObjectTable<AvMapping> mappings{1, 1u << 16};
  ReservedQpns reserved_qpns;
  ObjectTable<TransportDomain> domains;
  ObjectTable<Tis> tises;
  std::map<uint32_t, uint32_t> sq_tis;  // of send queues that commands made
  ObjectTable<wq::QCounter> q_counters{1, Profile::max_q_counters};
  ethernet::FlowCounters flow_counters;  // whose handles their rules hold
  UmemTable umems;
  UarSet uars;
  bool stores_wait = false;  // expect_stores() was called since the last turn
  // How many looks at the pages have found a doorbell. Written with the lock held, read by any
  // thread.
  std::atomic<uint64_t> doorbells{0};
  CoreClock clock;
  DeviceMemory dm;
  std::unique_ptr<lint::Lint> lint;               // null: off
  std::unique_ptr<explain::Explainer> explainer;  // null: nobody asks why
  std::vector<wq::Cq*> moderated;                 // whose events may wait for a time
  std::vector<EventSink*> sinks;                  // see add_sink()
  // Of the ports; null: nobody has asked for it (hca/connections.hh).
  std::unique_ptr<Connections> connections;
  TurnGuest* guest = nullptr;  // not owned; null: nobody has anything to do
  bool managed = false;        // there are connections, or has been a guest: turns look at them

 private:
  explicit Hca(HcaConfig);
};

}  // namespace kilim::vhca::hca
