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

#include "kilim/detail/base/device_spec.hh"
#include "kilim/detail/base/result.hh"

namespace kilim::vhca {
struct Order;
struct RequestFaults;
}  // namespace kilim::vhca

namespace kilim::vhca::hca {
struct Hca;
}  // namespace kilim::vhca::hca

namespace kilim::vhca::entry {

struct AttachedState;
struct ProgressCounts;  // progress_thread.hh

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
  hca::Hca* hca() noexcept;
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
  // Faults from now on, in the place of those before: with the `fatal_in`-th send request from here
  // the adapter dies, 0: never; `failing` is counted from here too. EOPNOTSUPP: the adapter is the
  // launcher's.
  Status set_faults(uint64_t fatal_in, const RequestFaults& failing) noexcept;
  // The order of send queues that are made from now on. EOPNOTSUPP: as set_faults().
  Status set_order(const Order& order) noexcept;
  // A line for each of the linter's rules that was broken since it was off: its name, how many
  // times, a sentence. EOPNOTSUPP: as set_faults().
  Result<std::string> lint_report();
  // The adapter's profile; null: the reason is set_faults()'s.
  const char* profile_name() noexcept;
  // Takes the name off the list. Contexts that are open keep working; the object stays valid.
  void detach() noexcept;

  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

 private:
  friend Result<Attached*> attach(const DeviceSpec&);
  explicit Attached(AttachedState* state) noexcept : state_(state) {}
  ~Attached() = default;
  AttachedState* state_;
};

// What stands for /sys in this process's device list, after an attach or under the launcher; the
// devices' statistics lie there too. Empty: neither.
const std::string& sysfs_root() noexcept;

// The adapter that this process attached under the name last; null: none.
Attached* find_attached(const std::string& name) noexcept;

// EEXIST: attached already; EINVAL: a bad name, profile or wire spec, or words where the launcher
// describes the device; ENOENT: no libibverbs or no libmlx5 to attach to. The object lives as long
// as the process.
Result<Attached*> attach(const DeviceSpec& config);

}  // namespace kilim::vhca::entry
