// SPDX-License-Identifier: BSD-3-Clause
// One virtual adapter of one process: its tables of objects and the engine that executes work
// requests. Owner: the process that opened it. Every call below needs lock() held, run() included,
// unless it says otherwise. Untrusted: everything a client passes is checked; errors are negative
// errno values as mlx5_ib answers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kilim/base/result.hh"
#include "vhca/core/lock.hh"
#include "vhca/core/order.hh"
#include "vhca/core/port_counters.hh"
#include "vhca/core/profile.hh"
#include "vhca/core/spec.hh"

namespace kilim::vhca {

class DmBlock;
class Journal;
class OdpStats;
class Wire;
enum class LintMode : uint8_t;
struct HcaState;  // tables and engine, private to hca/
struct QpHandle;  // wq/qp.hh

struct HcaConfig {
  std::string name;   // "vhca0"
  Profile profile;    // capabilities and limits
  Mac mac{};          // of port 1
  Mac node{};         // of the adapter, for its GUID; all zero: the port's
  Gid gid{};          // entry 1 of the GID table; all zero: none
  uint64_t seed = 0;  // numbering of keys and queues depends on it
  std::vector<std::unique_ptr<Wire>>
      wires;                   // one a port; none: nothing leaves the adapter but loopback
  Journal* journal = nullptr;  // outlives the adapter; null: counts only
  LintMode lint{};             // off; see lint/lint.hh
  Order order;                 // of the WQEs of a send queue: as they stand there
  // The adapter dies when this many send requests have been taken up; 0: never.
  uint64_t fatal_at = 0;
};

struct Advice {
  Pdn pd;
  uint32_t advice = 0;  // IB_UVERBS_ADVISE_MR_ADVICE_*
  bool flush = false;
  struct Range {
    uint64_t address;
    uint32_t bytes;
    uint32_t lkey;
  };
  std::span<const Range> list;
};

class Hca {
 public:
  static Result<std::unique_ptr<Hca>> create(HcaConfig config);
  ~Hca();
  Hca(const Hca&) = delete;
  Hca& operator=(const Hca&) = delete;

  Lock& lock() noexcept;
  const Profile& profile() const noexcept;
  const std::string& name() const noexcept;
  Journal& journal() noexcept;
  HcaState& state() noexcept;  // for hca/commands.cc and tests of the engine

  // Protection domains, keys.
  Result<Pdn> alloc_pd();
  int dealloc_pd(Pdn);
  Result<MrKeys> reg_mr(const MrSpec&);  // EFAULT: not mapped or not writable as asked
  // Changes what a region's key stands for, the key stays; a refused change leaves it as it was.
  int rereg_mr(MkeyIndex, const MrSpec&);
  int dereg_mr(MkeyIndex);
  // Advice on regions with on-demand paging: 0 or a negative errno.
  int advise_mr(const Advice&);
  // Memory windows; what they show is bound on send queues.
  Result<Rkey> alloc_mw(Pdn, bool type2);
  int dealloc_mw(MkeyIndex);

  // The adapter's own memory, in blocks of an open of the device; see hca/device_memory.hh.
  uint32_t enter_dm() noexcept;
  void leave_dm(uint32_t open) noexcept;
  Result<DmBlock> alloc_dm(uint64_t bytes, uint32_t log_alignment, uint32_t open);
  void free_dm(DmBlock&, uint32_t open) noexcept;
  Result<MrKeys> reg_dm_mr(const DmMrSpec&);

  // Completion queues. `sink` gets their events and outlives them.
  Result<Cqn> create_cq(const CqSpec&, EventSink* sink);
  // The entries not yet read stay in the old ring, for the client to carry over.
  int resize_cq(Cqn, Va buf, uint32_t cqe_count);
  // An event waits for `count` entries or `period_us`, whichever comes first; 0: not for that.
  int moderate_cq(Cqn, uint16_t count, uint16_t period_us);
  int destroy_cq(Cqn);

  // Queue pairs.
  Result<Qpn> create_qp(const QpSpec&, EventSink* sink);
  int modify_qp(Qpn, const QpAttr&, uint32_t mask);
  Result<QpAttr> query_qp(Qpn);
  // One more handle on an XRC target of that domain. EINVAL: there is none.
  int open_qp(Qpn, uint32_t xrcd, const QpHandle&);
  // With its last handle the queue pair goes.
  int destroy_qp(Qpn, const void* owner = nullptr);

  // Shared receive queues, XRC domains, multicast groups.
  Result<uint32_t> create_srq(const SrqSpec&, EventSink* sink);
  int set_srq_limit(uint32_t srqn, uint32_t limit);
  Result<uint32_t> query_srq_limit(uint32_t srqn);
  int destroy_srq(uint32_t srqn);
  Result<uint32_t> open_xrcd(const XrcdSpec&);
  int close_xrcd(uint32_t);
  int join_group(Qpn, const Gid&);
  int leave_group(Qpn, const Gid&);
  void leave_groups(Qpn);
  // Such a queue pair cannot be destroyed.
  [[nodiscard]] bool in_group(Qpn) const;

  // Steering of raw packet queue pairs; a rule's number is returned.
  Result<uint32_t> create_flow(Qpn, const FlowSpec&);
  int destroy_flow(uint32_t);

  // Ports and addresses.
  Result<PortAttr> query_port(uint32_t port);
  PortCounters port_counters(uint32_t port);  // all zero: no such port
  // Port 1's frames without a receive request count there too, and show in `text`
  // (OdpStats::text_bytes). Both outlive the adapter.
  void show_out_of_buffer(std::atomic<uint64_t>& sum, char* text) noexcept;
  Result<Gid> query_gid(uint32_t port, uint32_t index);  // ENODATA: no such entry
  // The address of a neighbour that told the port's wire of this GID. Opens files.
  std::optional<Mac> find_neighbour(uint32_t port, const Gid&);

  // UAR pages: anonymous shared memory of 4096 bytes that the client maps or is given; page numbers
  // start at 1.
  struct UarPage {
    uint32_t index;
    int fd;  // memory to map, owned by the adapter
    uint64_t offset;
  };
  Result<UarPage> alloc_uar();
  int free_uar(uint32_t index);

  // The clock that stamps completions, as a page to map for reading; -1: no memory for it.
  int core_clock_page();
  // Writes the present time there. Without lock(): any thread.
  void tick_core_clock() noexcept;

  // A firmware command (PRM "Command Interface") of a DevX client: status and syndrome are in
  // `out`. Returns 0, or a negative errno where mlx5_ib itself refuses.
  int command(std::span<const std::byte> in, std::span<std::byte> out);

  // Runs whatever doorbells, wires and timers demand, at most `budget` work requests and frames;
  // what it did.
  std::size_t run(std::size_t budget = 256);
  // Off: send requests are decoded and complete without being executed, each noted in the journal.
  // For measurements of what a client spends; never what a client sees otherwise.
  void set_executing(bool on) noexcept;
  // Something to wait for when idle: wires' descriptors, and the next timer in nanoseconds (or
  // UINT64_MAX).
  void wait_set(std::vector<int>& fds, uint64_t& deadline_ns) const;
  // Whether a doorbell has been stored that run() has not seen. Without lock(): any thread.
  bool doorbell_pending() const noexcept;
  // Stores into doorbell pages were stopped on their way: the next turn looks at every record that
  // they may announce. A client writes it before it rings (rdma-core, providers/mlx5/qp.c,
  // post_send_db), so the work is there although the store is not.
  void stores_wait() noexcept;
  // How many looks at the pages have found a doorbell. Without lock(): any thread.
  uint64_t doorbells_seen() const noexcept;
  // Whether a turn would find nothing at all to look at. Without lock(): any thread.
  bool idle() const noexcept;
  // Destroyed queues have left something to be sent: run() sends it.
  bool owes() const noexcept;
  // The UAR pages as the engine sees them, for write protection while idle.
  std::span<const std::span<std::byte>> uar_pages() const noexcept;

  // Statistics of on-demand paging. Reading: without lock(), any thread.
  OdpStats& odp_stats() noexcept;
  // Writes what was invalidated since the last turn into the journal.
  void note_invalidations() noexcept;

  // Who hears of the adapter's own events; owners of queues do anyway. The sink outlives its stay.
  void add_sink(EventSink*);
  void remove_sink(EventSink*);

  // The adapter dies: async event DEVICE_FATAL, every queue to error, what is posted is flushed.
  // From then on calls that make, change or ask answer EIO, those that undo something succeed.
  void fatal();
  [[nodiscard]] bool is_dead() const noexcept;

 private:
  explicit Hca(std::unique_ptr<HcaState>);
  std::unique_ptr<HcaState> state_;
};

}  // namespace kilim::vhca
