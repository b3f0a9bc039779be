// SPDX-License-Identifier: BSD-3-Clause
// The list, what fork does to it, and what the end of the process does.

#include "vhca/entry/device_list.hh"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <pthread.h>
#include <unistd.h>

#include "vhca/entry/identity.hh"
#include "vhca/entry/netdev.hh"
#include "vhca/entry/odp_files.hh"
#include "vhca/entry/open_files.hh"
#include "vhca/entry/port_files.hh"
#include "vhca/memory/dma_guard.hh"
#include "vhca/rdmacm/cm_file.hh"
#include "vhca/rdmacm/state.hh"
#include "vhca/tpt/page_events.hh"

namespace kilim::vhca::entry {
namespace {

constexpr std::size_t max_devices = 4096;  // detached ones count
std::atomic<Device*> devices[max_devices];
std::atomic<std::size_t> device_count{0};
Lock list_lock;
bool end_watched = false;

// A program whose journal has gaps has not done what was asked of it, whatever it says: its status
// becomes an error, as a leak checker does it.
void at_end() noexcept {
  bool whole = true;
  rdmacm::end_all();
  for (std::size_t i = 0; i < device_list::count(); i++) {
    if (Instance* instance = device_list::at(i)->live(); instance != nullptr) {
      instance->settle();
      whole = instance->close_journal() && whole;
    }
  }
  if (whole) return;
  std::fflush(nullptr);
  ::_exit(Journal::exit_failed);
}

}  // namespace

Lock device_list::attach_lock;

// Around fork every lock of ours is held, in this order: who attaches, list, each adapter's as
// rdmacm::Locked takes them, the handlers'.
struct ForkHandlers {
  static void prepare() noexcept {
    device_list::attach_lock.lock();
    list_lock.lock();
    for (rdmacm::Adapter* a = rdmacm::first_adapter(); a != nullptr; a = a->next)
      for_each([a](Instance& i) {
        if (&i.hca() == &a->hca) i.before_fork();
      });
    rdmacm::before_fork();
    tpt::page_events::before_fork();
    memory::dma::before_fork();
  }
  static void parent() noexcept {
    memory::dma::after_fork_in_parent();
    rdmacm::after_fork_in_parent();
    for_each([](Instance& i) { i.after_fork_in_parent(); });
    list_lock.unlock();
    device_list::attach_lock.unlock();
  }
  // The parent's adapters are the parent's. Their copies here are left as they are, and the next
  // open makes new ones.
  static void child() noexcept {
    memory::dma::after_fork_in_child();
    tpt::page_events::after_fork_in_child();
    rdmacm::after_fork_in_child();
    for_each([](Instance& i) { i.after_fork_in_child(); });
    open_files::after_fork_in_child();
    for (std::size_t i = 0; i < device_list::count(); i++) {
      device_list::at(i)->live_.store(nullptr, std::memory_order_relaxed);
    }
    list_lock.unlock();
    device_list::attach_lock.unlock();
  }
  // Before anybody can hold a lock: a child forked while the first device is made knows them too.
  [[gnu::constructor]] static void install() noexcept { pthread_atfork(&prepare, &parent, &child); }

 private:
  template <typename F>
  static void for_each(F f) noexcept {
    for (std::size_t i = 0; i < device_list::count(); i++) {
      if (Instance* instance = device_list::at(i)->live(); instance != nullptr) f(*instance);
    }
  }
};

Result<Instance*> Device::instance(bool tells) {
  const LockGuard guard(list_lock);
  if (Instance* instance = live(); instance != nullptr) return instance;
  auto made = Instance::make(config_.attach, profile_, tells);
  if (!made.ok()) return made.error();
  if (!end_watched) std::atexit(&at_end);
  end_watched = true;
  Instance* instance = made->release();
  if (!config_.tree.empty()) {
    odp_files::connect(instance->hca(), config_.tree, config_);
    port_files::connect(instance->hca(), config_.tree, config_);
  }
  publish_identity(config_, instance->hca());
  netdev::use(config_, instance->hca());
  rdmacm::add_adapter(instance->hca());
  live_.store(instance, std::memory_order_release);
  return instance;
}

namespace device_list {

Result<Device*> add(DeviceConfig config) {
  auto profile = find_profile(config.attach.profile);
  if (!profile.ok()) return profile.error();
  if (profile->lid != 0 && !config.attach.wires.empty())
    return Error{EINVAL, "wires carry Ethernet frames: an InfiniBand port is loopback only"};
  const LockGuard guard(list_lock);
  const std::size_t n = count();
  if (n == max_devices)
    return Error{ENOSPC, "no more virtual devices can be attached to this process"};
  auto* device = new Device(std::move(config), *profile);
  devices[n].store(device, std::memory_order_relaxed);
  device_count.store(n + 1, std::memory_order_release);
  return device;
}

std::size_t count() noexcept {
  return device_count.load(std::memory_order_acquire);
}

Device* at(std::size_t i) noexcept {
  return devices[i].load(std::memory_order_relaxed);
}

Device* find_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < count(); i++) {
    if (!at(i)->hidden() && at(i)->config().attach.name == name) return at(i);
  }
  return nullptr;
}

Device* find_path(const char* path) noexcept {
  constexpr char prefix[] = "/dev/infiniband/uverbs";
  if (path == nullptr || std::strncmp(path, prefix, sizeof(prefix) - 1) != 0) return nullptr;
  char* end = nullptr;
  const unsigned long number = std::strtoul(path + sizeof(prefix) - 1, &end, 10);
  if (end == path + sizeof(prefix) - 1 || *end != '\0') return nullptr;
  for (std::size_t i = 0; i < count(); i++) {
    if (!at(i)->hidden() && at(i)->config().number == number) return at(i);
  }
  return nullptr;
}

}  // namespace device_list

}  // namespace kilim::vhca::entry
