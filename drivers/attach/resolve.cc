// SPDX-License-Identifier: BSD-3-Clause
#include "attach/resolve.hh"

#include <cerrno>
#include <deque>
#include <mutex>
#include <utility>

#include <sys/eventfd.h>

#include "kilim/detail/base/fd.hh"
#include "kilim/detail/base/memory_reserve.hh"
#include "mlx5/open.hh"
#include "vhca/entry/attach.hh"
#include "vhca/entry/device_words.hh"

namespace kilim::inline v1::attach {
namespace {

constexpr std::string_view virtual_prefix = "vhca";

// A virtual adapter that workers run. Lives as long as the process, as the adapter does.
struct Polled {
  vhca::entry::Attached* adapter = nullptr;
  Fd nudge;  // eventfd: somebody runs the adapter no more
};

Polled* keep(Polled polled) {
  static auto* all = new std::deque<Polled>;
  static std::mutex lock;
  const std::lock_guard guard(lock);
  return &all->emplace_back(std::move(polled));
}

uint32_t run_adapter(void* context, uint32_t budget) noexcept {
  return static_cast<uint32_t>(static_cast<Polled*>(context)->adapter->poll(budget));
}

// A nudge is for the sleep that was; one that comes from here on ends the next.
void forget_nudges(void* context) noexcept {
  eventfd_t n;
  (void)!eventfd_read(static_cast<Polled*>(context)->nudge.get(), &n);
}

bool watch_adapter(void* context, worker::WaitSet& set) noexcept {
  auto& p = *static_cast<Polled*>(context);
  vhca::entry::AdapterWait wait;
  if (!p.adapter->wait_for(wait)) return false;
  set.add(p.nudge.get());
  for (std::size_t i = 0; i < wait.count; i++) set.add(wait.fds[i]);
  set.until(wait.deadline_ns);
  return true;
}

// The wires wake who asked last, which the one that leaves may have been, and its last turn may
// have left work.
void leave_adapter(void* context) noexcept {
  (void)!eventfd_write(static_cast<Polled*>(context)->nudge.get(), 1);
}

constexpr worker::Waiting adapter_waiting{forget_nudges, watch_adapter, leave_adapter};

void progress_adapter(void* context) {
  static_cast<vhca::entry::Attached*>(context)->poll();
}

// A virtual adapter that this process has attached.
struct Slot {
  DeviceSpec spec;
  vhca::entry::Attached* adapter;
  Polled* polled;  // null: it has a thread
  bool idle = false;
};

// Never destroyed, as EAL's clean-up may come after static destructors.
std::deque<Slot>& slots() {
  static auto* all = new std::deque<Slot>;
  return *all;
}

Slot* slot_of(const std::string& name) noexcept {
  for (Slot& s : slots())
    if (s.spec.name == name) return &s;
  return nullptr;
}

Result<Attachment> open_in(Slot& slot) {
  mlx5::Progress progress;
  if (slot.polled != nullptr) progress = {progress_adapter, slot.adapter};
  auto device = mlx5::open(slot.spec.name.c_str(), progress, vhca::entry::sysfs_root());
  if (!device) return device.error();
  slot.idle = false;
  Attachment a;
  a.device = *std::move(device);
  if (slot.polled != nullptr) a.poller = {run_adapter, slot.polled, "vhca", &adapter_waiting};
  return a;
}

Result<Attachment> resolve_virtual(const DeviceSpec& spec) {
  if (Slot* const slot = slot_of(spec.name); slot != nullptr && slot->idle) {
    if (slot->spec == spec) return open_in(*slot);
    return Error{EEXIST, "the virtual device is there already, with another wire or other devargs"};
  }
  Fd nudge(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!nudge) return Error{errno, "no eventfd for a virtual device"};
  auto attached = vhca::entry::attach(spec);
  if (!attached) return attached.error();
  const bool threaded = spec.progress == Progress::thread;
  Slot slot{spec, *attached, threaded ? nullptr : keep({*attached, std::move(nudge)})};
  auto opened = open_in(slot);
  if (!opened) {
    (*attached)->detach();
    if (slot.polled != nullptr) slot.polled->nudge.reset();
    return opened.error();
  }
  slots().push_back(std::move(slot));
  return opened;
}

}  // namespace

bool is_virtual_name(std::string_view name) noexcept {
  if (!name.starts_with(virtual_prefix) || name.size() == virtual_prefix.size()) return false;
  return name.substr(virtual_prefix.size()).find_first_not_of("0123456789") ==
         std::string_view::npos;
}

std::vector<Word> device_words() {
  std::vector<Word> all;
  for (const vhca::entry::DeviceWord& w : vhca::entry::device_words())
    all.push_back({w.name, w.range, w.repeats});
  return all;
}

std::string read_word(DeviceSpec& spec, std::string_view word, const std::string& value) {
  return vhca::entry::find_device_word(word)->read(spec, value);
}

// One with a thread of its own stays, and is there again for the same devargs.
void give_back(const std::string& name) noexcept {
  const memory_reserve::Scope memory;
  Slot* const slot = slot_of(name);
  if (slot == nullptr) return;
  slot->idle = true;
  if (slot->polled == nullptr) return;
  slot->adapter->detach();
  slot->polled->nudge.reset();
  std::erase_if(slots(), [&](const Slot& s) { return s.spec.name == name; });
}

Status set_lint(const std::string& name, const std::string& mode) {
  vhca::entry::Attached* adapter = vhca::entry::find_attached(name);
  if (adapter == nullptr) return Error{ENODEV, "it is no virtual device: a card has no linter"};
  return adapter->set_lint(mode);
}

Status set_mtu(const std::string& name, uint32_t port, uint32_t mtu) {
  vhca::entry::Attached* adapter = vhca::entry::find_attached(name);
  if (adapter == nullptr) return Error{ENODEV, "it is no virtual device"};
  return adapter->set_mtu(port, mtu);
}

Result<Attachment> resolve(const DeviceSpec& spec) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (is_virtual_name(spec.name)) return resolve_virtual(spec);
  for (const vhca::entry::DeviceWord& word : vhca::entry::device_words())
    if (word.is_set(spec)) return Error{EINVAL, word.not_of_cards};
  auto device = mlx5::open(spec.name.c_str());
  if (!device) return device.error();
  Attachment a;
  a.device = *std::move(device);
  return a;
}

}  // namespace kilim::inline v1::attach
