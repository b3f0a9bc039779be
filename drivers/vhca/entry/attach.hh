// SPDX-License-Identifier: BSD-3-Clause
// Attaches a virtual adapter to the running process: afterwards libibverbs lists it under `name`
// beside the machine's own devices. Only libibverbs, libmlx5 and libnl-3 see the difference: their
// GOT entries are changed, the environment is not. Several devices by several calls, also after a
// first ibv_get_device_list(). Under kilim-vhca the launcher's device of that name is used.
// attach() and detach(): any thread, not concurrently with ibv_get_device_list().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kilim/base/result.hh"

namespace kilim::vhca {

struct Hca;
struct AttachedState;
struct ProgressCounts;  // progress_thread.hh

// Who runs the adapter. poller: whoever calls Attached::poll(), and empty completion queues that
// are polled. thread: a thread of the adapter, asleep while there is nothing to do.
enum class Progress : uint8_t { poller, thread };

struct AttachConfig {
  std::string name = "vhca0";  // as ibv_get_device_name() will give it; 1 to 32 of [A-Za-z0-9_.-]
  std::string profile = "cx6dx";   // see core/profile.hh
  std::vector<std::string> wires;  // wire specs, one a port; none: loopback only
  std::string
      mac;  // of port 1, "02:4b:4c:00:00:01"; empty: the wire's, else it follows from name and seed
  std::string gid;  // entry 1 of port 1's GID table, an IPv6 address like "fd00::1"; empty: none
  // IP addresses of port 1, "10.0.0.1/24" or "fd00::1/64", for the connection manager and the GID
  // table; beside those that its wire or interface has.
  std::vector<std::string> ips;
  // The processes that name the same folder as their one wire, unix:, are one adapter: they have
  // its addresses, and reach each other by them. At most 255 at a time.
  bool shared = false;
  uint64_t seed = 0;    // of the MAC and of the numbers at which objects begin
  std::string journal;  // a file to which every event is written; empty: counts only
  Progress progress = Progress::poller;
  // "off", "warn" or "error", see lint/lint.hh; empty: what the environment's KILIM_VHCA_LINT says,
  // else off.
  std::string lint;
  // "strict", "weak", "weak:SEED", ..., see core/order.hh; empty: what KILIM_VHCA_ORDER says, else
  // strict.
  std::string order;
  // The adapter dies (IBV_EVENT_DEVICE_FATAL) at this send request, counted from 1; 0: never.
  uint64_t fatal_at = 0;
  // Send requests that fail by themselves, "wqe@N" or "wqe@N+M" (core/request_faults.hh); empty:
  // none.
  std::string failing;
};

// What whoever runs an adapter by poll() waits for when it found nothing to do.
struct AdapterWait {
  static constexpr std::size_t most = 16;
  int fds[most];             // readable when something has come: the wires'
  std::size_t count = 0;     // of them
  uint64_t deadline_ns = 0;  // CLOCK_MONOTONIC: when the next timer is due; UINT64_MAX: none is
};

// An adapter that libibverbs lists. Lives as long as the process; any thread.
class Attached {
 public:
  // As ibv_get_device_name() gives it.
  const std::string& name() const noexcept;
  // The adapter; null under the launcher, whose library owns it, and in a forked child until it
  // opens the device.
  Hca* hca() noexcept;
  // Runs the adapter if nobody else does at this moment. Any thread; takes its lock by trying, so
  // never with the lock held. Returns what it did: work requests and frames.
  std::size_t poll(std::size_t budget = 256) noexcept;
  // Behind a poll() that did nothing: what to wait for. False: there is work. Doorbells of threads
  // that do not poll() themselves are not waited for. Any thread; takes the lock, never allocates.
  bool wait_for(AdapterWait& wait) noexcept;
  // What the adapter's thread has done; all zero: it has none, or it is the launcher's.
  ProgressCounts progress_counts() const noexcept;
  // Off: send requests of this adapter complete without being executed; the journal notes each.
  // Only for measuring what a client spends. EOPNOTSUPP where the adapter is the launcher's.
  Status set_executing(bool on) noexcept;
  // The linter from now on: "off", "warn" or "error", see lint/lint.hh; also of what is posted and
  // not executed yet. Waits for the adapter's lock. EINVAL: another word; EOPNOTSUPP: the launcher
  // is of another version, or the device is not open.
  Status set_lint(const std::string& mode);
  // The MTU of a port from now on: its raw packet queues get no frames that are longer than that
  // allows, with two tags. 0: what the wire carries comes in, as at first. Waits for the adapter's
  // lock. EINVAL: no such port; EOPNOTSUPP: as set_lint().
  Status set_mtu(uint32_t port, uint32_t mtu) noexcept;
  // Takes the name off the list. Contexts that are open keep working; the object stays valid.
  void detach() noexcept;

  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

 private:
  friend Result<Attached*> attach(const AttachConfig&);
  explicit Attached(AttachedState* state) noexcept : state_(state) {}
  ~Attached() = default;
  AttachedState* state_;
};

// What stands for /sys in this process's device list, after an attach or under the launcher; the
// devices' statistics lie there too. Empty: neither.
const std::string& sysfs_root() noexcept;

// Whether a wire of this spec may be made, before anything is: a sentence that says why not and
// what may; empty: it may. Opens nothing.
std::string refusal_of_wire(const std::string& spec);
// So for AttachConfig::failing; null: it is good.
const char* refusal_of_failing(std::string_view word);

// The adapter that this process attached under the name last; null: none.
Attached* find_attached(const std::string& name) noexcept;

// EEXIST: attached already; EINVAL: a bad name, profile or wire spec; ENOENT: no libibverbs or no
// libmlx5 to attach to. The object lives as long as the process.
Result<Attached*> attach(const AttachConfig& config);

}  // namespace kilim::vhca
