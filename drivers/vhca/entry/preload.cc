// SPDX-License-Identifier: BSD-3-Clause
// libkilim-vhca.so (preload.hh): calls by descriptor, signals, and libibverbs's own. Any thread.

#include "vhca/entry/preload.hh"

#include <cerrno>
#include <cstdarg>
#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kilim/detail/base/memory_reserve.hh"
#include "vhca/entry/calls.hh"
#include "vhca/entry/device_list.hh"
#include "vhca/entry/launched.hh"
#include "vhca/entry/netdev.hh"
#include "vhca/entry/next.hh"
#include "vhca/entry/poll_hook.hh"
#include "vhca/entry/raw.hh"
#include "vhca/hca/hca.hh"
#include "vhca/hca/ports.hh"
#include "vhca/lint/lint.hh"
#include "vhca/memory/dma_guard.hh"
#include "vhca/rdmacm/cm_file.hh"

namespace kilim::vhca::entry {
namespace {

void add_launched_devices() {
  memory_reserve::serve_everybody();
  (void)memory_reserve::fill();  // what a list of devices takes comes before any of its calls
  const LaunchConfig config = find_in_environment();
  if (config.tree.empty()) return;
  for (uint32_t k = 0; k < config.devices; k++) {
    if (!device_list::add(config.device(k)).ok()) return;
  }
}

// The function that would have been called without us. A library that was loaded privately (an
// extension of an interpreter) is not among "the next ones".
template <typename F>
F* next_by_name(F*, const char* name, const char* library) noexcept {
  void* symbol = ::dlsym(RTLD_NEXT, name);
  if (symbol == nullptr && library != nullptr) {
    if (void* loaded = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD); loaded != nullptr) {
      symbol = ::dlsym(loaded, name);
    }
  }
  return reinterpret_cast<F*>(symbol);
}

bool device_is_open() noexcept {
  for (std::size_t i = 0; i < device_list::count(); i++) {
    if (device_list::at(i)->live() != nullptr) return true;
  }
  return false;
}

void* find_device(const char* name) {
  check_environment_once();
  Device* device = device_list::find_name(name);
  return device != nullptr && device->instance().ok() ? device : nullptr;
}

std::size_t poll_device(void* device, std::size_t budget) {
  Instance* instance = static_cast<Device*>(device)->live();
  return instance == nullptr ? 0 : instance->poll(budget);
}

int set_device_lint(void* device, const char* mode) {
  Instance* instance = static_cast<Device*>(device)->live();
  const Result<lint::LintMode> found = lint::find_lint_mode(mode);
  if (instance == nullptr || !found.ok()) return EINVAL;
  const LockGuard guard(instance->hca().lock);
  instance->hca().set_lint(*found);
  return 0;
}

int set_device_mtu(void* device, uint32_t port, uint32_t mtu) {
  Instance* instance = static_cast<Device*>(device)->live();
  if (instance == nullptr) return EINVAL;
  const LockGuard guard(instance->hca().lock);
  if (!hca::has_port(instance->hca(), port)) return EINVAL;
  hca::set_mtu(instance->hca(), port, mtu);
  return 0;
}

}  // namespace

void check_environment_once() noexcept {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, &add_launched_devices);
}

}  // namespace kilim::vhca::entry

using namespace kilim::vhca;
using namespace kilim::vhca::entry;

KILIM_INTERPOSED const KilimVhcaLaunched* kilim_vhca_launched() {
  static constexpr KilimVhcaLaunched table{3, &find_device, &poll_device, &set_device_lint,
                                           &set_device_mtu};
  check_environment_once();
  return device_list::count() == 0 ? nullptr : &table;
}

// Descriptors.

KILIM_INTERPOSED int socket(int domain, int type, int protocol) {
  if (domain == AF_NETLINK) check_environment_once();
  SocketCall* next = Next<"socket", SocketCall>::get();
  if (device_list::count() != 0) return calls::socket(domain, type, protocol, next);
  return next != nullptr ? next(domain, type, protocol) : raw::socket(domain, type, protocol);
}
KILIM_INTERPOSED int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (netdev::is_about_interfaces(request)) check_environment_once();
  return calls::ioctl(fd, request, argument, Next<"ioctl", IoctlCall>::get());
}
KILIM_INTERPOSED unsigned if_nametoindex(const char* name) {
  check_environment_once();
  if (const auto ours = netdev::index_of(name)) return *ours;
  return next_by_name(&if_nametoindex, "if_nametoindex", nullptr)(name);
}
KILIM_INTERPOSED char* if_indextoname(unsigned index, char* name) {
  check_environment_once();
  if (netdev::name_of(index, name)) return name;
  return next_by_name(&if_indextoname, "if_indextoname", nullptr)(index, name);
}
// NOLINTNEXTLINE(readability-function-size): six parameters, as mmap() has them
KILIM_INTERPOSED void* mmap(void* at, size_t length, int prot, int flags, int fd, off_t offset) {
  return calls::map(at, length, prot, flags, fd, offset, Next<"mmap", MapCall>::get());
}
// NOLINTNEXTLINE(readability-function-size): six parameters, as mmap() has them
KILIM_INTERPOSED void* mmap64(void* at, size_t length, int prot, int flags, int fd,
                              off64_t offset) {
  return calls::map(at, length, prot, flags, fd, offset, Next<"mmap64", MapCall>::get());
}
KILIM_INTERPOSED ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  return calls::send(fd, message, flags, Next<"sendmsg", SendCall>::get());
}
KILIM_INTERPOSED int munmap(void* at, size_t length) {
  return calls::unmap(at, length, Next<"munmap", UnmapCall>::get());
}
KILIM_INTERPOSED int madvise(void* at, size_t length, int advice) {
  return calls::advise(at, length, advice, Next<"madvise", AdviseCall>::get());
}
KILIM_INTERPOSED void* mremap(void* at, size_t from, size_t to, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  void* where = (flags & MREMAP_FIXED) != 0 ? va_arg(arguments, void*) : nullptr;
  va_end(arguments);
  return calls::remap(at, from, to, flags, where, Next<"mremap", RemapCall>::get());
}
KILIM_INTERPOSED int close(int fd) {
  return calls::close(fd, Next<"close", CloseCall>::get());
}

// An end without exit(3), of a child for example: peers of its connections are told all the same.
KILIM_INTERPOSED void _exit(int status) {
  rdmacm::end_all();
  for (;;) ::syscall(SYS_exit_group, status);
}
KILIM_INTERPOSED void _Exit(int status) {
  _exit(status);
}

// Signals: once a device is open, a handler for bad memory accesses goes behind ours.

KILIM_INTERPOSED int sigaction(int sig, const struct sigaction* act, struct sigaction* old) {
  if ((sig == SIGSEGV || sig == SIGBUS) && device_is_open()) {
    return memory::dma::client_sigaction(sig, act, old);
  }
  const auto libc = next_by_name(&sigaction, "sigaction", nullptr);
  return libc(sig, act, old);
}

KILIM_INTERPOSED sighandler_t signal(int sig, sighandler_t handler) {
  if ((sig == SIGSEGV || sig == SIGBUS) && handler != SIG_ERR && device_is_open()) {
    struct sigaction act, old;
    std::memset(&act, 0, sizeof(act));
    act.sa_handler = handler;
    act.sa_flags = SA_RESTART;
    return memory::dma::client_sigaction(sig, &act, &old) == 0 ? old.sa_handler : SIG_ERR;
  }
  const auto libc = next_by_name(&signal, "signal", nullptr);
  return libc(sig, handler);
}

// libibverbs and libmlx5: what opens a device or makes an extended completion queue.

KILIM_INTERPOSED ibv_context* ibv_open_device(ibv_device* device) {
  const auto library = next_by_name(&ibv_open_device, "ibv_open_device", "libibverbs.so.1");
  return hook_polls(library(device));
}
KILIM_INTERPOSED ibv_context* ibv_import_device(int fd) {
  const auto library = next_by_name(&ibv_import_device, "ibv_import_device", "libibverbs.so.1");
  return hook_polls(library(fd));
}

struct mlx5dv_context_attr;
struct mlx5dv_cq_init_attr;

KILIM_INTERPOSED ibv_context* mlx5dv_open_device(ibv_device* device, mlx5dv_context_attr* attr) {
  const auto library = next_by_name(&mlx5dv_open_device, "mlx5dv_open_device", "libmlx5.so.1");
  return hook_polls(library(device, attr));
}
KILIM_INTERPOSED ibv_cq_ex* mlx5dv_create_cq(ibv_context* context, ibv_cq_init_attr_ex* attr,
                                             mlx5dv_cq_init_attr* mlx5_attr) {
  const auto library = next_by_name(&mlx5dv_create_cq, "mlx5dv_create_cq", "libmlx5.so.1");
  return hook_polls(library(context, attr, mlx5_attr));
}
