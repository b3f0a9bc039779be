// SPDX-License-Identifier: BSD-3-Clause
// The way in for programs that know Kilim: attaches devices by their configuration, and keeps the
// tree that stands for the two class folders of sysfs.

#include "vhca/entry/attach.hh"

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include <dlfcn.h>
#include <unistd.h>

#include "kilim/detail/base/memory_reserve.hh"
#include "vhca/entry/device_list.hh"
#include "vhca/entry/device_words.hh"
#include "vhca/entry/identity.hh"
#include "vhca/entry/launched.hh"
#include "vhca/entry/odp_files.hh"
#include "vhca/entry/port_files.hh"
#include "vhca/entry/redirect.hh"
#include "vhca/entry/sysfs_tree.hh"
#include "vhca/hca/ports.hh"
#include "vhca/hca/unplug.hh"
#include "vhca/lint/lint.hh"
#include "vhca/rdmacm/cm_file.hh"

namespace kilim::vhca::entry {

struct AttachedState {
  std::string name;
  Device* device = nullptr;                     // ours, or
  const KilimVhcaLaunched* launched = nullptr;  // the launcher's
  void* launched_device = nullptr;
  Attached* attached = nullptr;
  AttachedState* before = nullptr;  // all are kept in a chain: they live as long as the process
};

namespace {

// Made at the first attach, and anew at the first one of a forked child; never destroyed.
SysfsTree* tree = nullptr;
pid_t tree_owner = 0;
AttachedState* all_attached = nullptr;

// With the lock.
AttachedState* keep(AttachedState state) {
  state.before = all_attached;
  all_attached = new AttachedState(std::move(state));
  return all_attached;
}

void erase_tree() noexcept {
  if (::getpid() == tree_owner) tree->erase();
}

Status prepare_tree() {
  if (tree != nullptr && tree_owner == ::getpid()) return Done{};
  auto made = SysfsTree::make();
  if (!made.ok()) return made.error();
  if (tree == nullptr) std::atexit(&erase_tree);
  tree = new SysfsTree(std::move(*made));
  tree_owner = ::getpid();
  for (std::size_t i = 0; i < device_list::count(); i++) {
    const Device& device = *device_list::at(i);
    if (device.hidden()) continue;
    if (Status added = tree->add(device.config(), device.profile()); !added.ok()) return added;
  }
  return redirect_libraries();
}

// The launcher's library, where it has been loaded before us.
const KilimVhcaLaunched* find_launcher() noexcept {
  void* symbol = ::dlsym(RTLD_DEFAULT, "kilim_vhca_launched");
  if (symbol == nullptr) return nullptr;
  const auto* launched = reinterpret_cast<decltype(&kilim_vhca_launched)>(symbol)();
  return launched != nullptr && launched->version >= 1 ? launched : nullptr;
}

Result<AttachedState*> find_launched(const KilimVhcaLaunched* launched, const DeviceSpec& config) {
  // Who runs it is no part of what it is.
  for (const DeviceWord& word : device_words())
    if (word.is_set(config) && word.name != std::string_view("progress"))
      return Error{EINVAL,
                   "under kilim-vhca a virtual device is described by the launcher's options "
                   "(--wire, --lint, --order, --profile, ...), not by the program"};
  void* device = launched->find(config.name.c_str());
  if (device == nullptr) return Error{ENOENT, "the launcher has no virtual device of this name"};
  return keep({config.name, nullptr, launched, device});
}

Result<AttachedState*> attach_here(const DeviceSpec& config) {
  if (Status prepared = prepare_tree(); !prepared.ok()) return prepared.error();
  const auto number = static_cast<uint32_t>(tree->first_free_number() + device_list::count());
  auto device = device_list::add({config, number, tree->path()});
  if (!device.ok()) return device.error();
  // Made now: a bad wire is the caller's to know, not the one's who opens the device.
  auto instance = (*device)->instance(false);
  Status listed = instance.ok() ? tree->add((*device)->config(), (*device)->profile())
                                : Status(instance.error());
  if (!listed.ok()) {
    (*device)->hide();
    return listed.error();
  }
  // The tree was not there yet when the adapter took its wire's address.
  publish_identity((*device)->config(), (*instance)->hca());
  odp_files::connect((*instance)->hca(), tree->path(), (*device)->config());
  port_files::connect((*instance)->hca(), tree->path(), (*device)->config());
  return keep({config.name, *device});
}

Result<AttachedState*> attach_by_config(const DeviceSpec& config) {
  if (!name_is_valid(config.name)) {
    return Error{EINVAL, "a device name is 1 to 32 letters, digits, '_', '-' or '.'"};
  }
  if (!memory_reserve::fill() || !memory_reserve::has_room(memory_reserve::adapter_bytes))
    return Error{ENOMEM, "the process has no memory for an adapter"};
  const memory_reserve::Scope scope;
  if (const KilimVhcaLaunched* launched = find_launcher(); launched != nullptr) {
    return find_launched(launched, config);
  }
  if (device_list::find_name(config.name) != nullptr) {
    return Error{EEXIST, "a virtual device of this name is attached already"};
  }
  return attach_here(config);
}

}  // namespace

const std::string& Attached::name() const noexcept {
  return state_->name;
}

hca::Hca* Attached::hca() noexcept {
  Instance* instance = state_->device == nullptr ? nullptr : state_->device->live();
  return instance == nullptr ? nullptr : &instance->hca();
}

std::size_t Attached::poll(std::size_t budget) noexcept {
  if (state_->launched != nullptr) return state_->launched->poll(state_->launched_device, budget);
  Instance* instance = state_->device->live();
  return instance == nullptr ? 0 : instance->poll(budget);
}

// The launcher runs a thread for its adapter: nothing to wait for here.
bool Attached::wait_for(AdapterWait& wait) noexcept {
  wait = {.fds = {}, .count = 0, .deadline_ns = UINT64_MAX};
  Instance* instance = state_->device == nullptr ? nullptr : state_->device->live();
  return instance == nullptr || instance->wait_for(wait);
}

ProgressCounts Attached::progress_counts() const noexcept {
  const Instance* instance = state_->device == nullptr ? nullptr : state_->device->live();
  return instance == nullptr ? ProgressCounts{} : instance->progress_counts();
}

Status Attached::set_executing(bool on) noexcept {
  hca::Hca* adapter = hca();
  if (adapter == nullptr) return Error{EOPNOTSUPP, "the adapter is not this process's own"};
  const LockGuard guard(adapter->lock);
  adapter->executing = on;
  return Done{};
}

Status Attached::set_lint(const std::string& mode) {
  const Result<lint::LintMode> found = lint::find_lint_mode(mode);
  if (!found) return found.error();
  if (state_->launched != nullptr) {
    if (state_->launched->version < 2)
      return Error{EOPNOTSUPP, "this kilim-vhca's linter is asked for by its option --lint alone"};
    const int error = state_->launched->set_lint(state_->launched_device, mode.c_str());
    if (error == 0) return Done{};
    return Error{error, "the launcher's device takes no linter now"};
  }
  hca::Hca* adapter = hca();
  if (adapter == nullptr) return Error{EOPNOTSUPP, "the virtual device is not open"};
  const LockGuard guard(adapter->lock);
  adapter->set_lint(*found);
  return Done{};
}

Status Attached::set_mtu(uint32_t port, uint32_t mtu) noexcept {
  constexpr Error no_port{EINVAL, "the virtual device has no such port"};
  if (state_->launched != nullptr) {
    if (state_->launched->version < 3)
      return Error{EOPNOTSUPP, "the ports of this kilim-vhca have no MTU"};
    if (state_->launched->set_mtu(state_->launched_device, port, mtu) != 0) return no_port;
    return Done{};
  }
  hca::Hca* adapter = hca();
  if (adapter == nullptr) return Error{EOPNOTSUPP, "the virtual device is not open"};
  const LockGuard guard(adapter->lock);
  if (!hca::has_port(*adapter, port)) return no_port;
  vhca::hca::set_mtu(*adapter, port, mtu);
  return Done{};
}

void Attached::detach() noexcept {
  if (state_->device == nullptr || state_->device->hidden()) return;
  const memory_reserve::Scope scope;
  const LockGuard guard(device_list::attach_lock);
  state_->device->hide();
  Instance* live = state_->device->live();
  if (live != nullptr) rdmacm::hide_adapter(live->hca());
  tree->remove(state_->device->config());
  // A thread of the adapter may be waiting on its wires just now.
  if (live == nullptr || state_->device->config().attach.progress != Progress::poller) return;
  live->settle();
  const LockGuard lock(live->hca().lock);
  (void)hca::unplug(live->hca());
}

const std::string& sysfs_root() noexcept {
  static const std::string launched = find_in_environment().tree;
  return tree != nullptr ? tree->path() : launched;
}

Result<Attached*> attach(const DeviceSpec& config) {
  const LockGuard guard(device_list::attach_lock);
  auto state = attach_by_config(config);
  if (!state.ok()) return state.error();
  return (*state)->attached = new Attached(*state);
}

Attached* find_attached(const std::string& name) noexcept {
  const LockGuard guard(device_list::attach_lock);
  for (const AttachedState* s = all_attached; s != nullptr; s = s->before)
    if (s->name == name) return s->attached;
  return nullptr;
}

}  // namespace kilim::vhca::entry
