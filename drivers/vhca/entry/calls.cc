// SPDX-License-Identifier: BSD-3-Clause
// Ours or the next one's, call by call.

#include "vhca/entry/calls.hh"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include <linux/netlink.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include "kilim/detail/base/memory_reserve.hh"
#include "vhca/entry/device_list.hh"
#include "vhca/entry/map_hook.hh"
#include "vhca/entry/netdev.hh"
#include "vhca/entry/open_files.hh"
#include "vhca/entry/raw.hh"
#include "vhca/entry/redirect.hh"
#include "vhca/memory/dma_guard.hh"
#include "vhca/tpt/page_events.hh"

namespace kilim::vhca::entry::calls {
namespace {

// A thread that blocks the two signals must let them through while the device looks at its memory.
class FaultsOpen {
 public:
  FaultsOpen() noexcept {
    sigset_t faults;
    sigemptyset(&faults);
    sigaddset(&faults, SIGSEGV);
    sigaddset(&faults, SIGBUS);
    pthread_sigmask(SIG_UNBLOCK, &faults, &before_);
  }
  ~FaultsOpen() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  FaultsOpen(const FaultsOpen&) = delete;
  FaultsOpen& operator=(const FaultsOpen&) = delete;

 private:
  sigset_t before_;
};

int fail(int error) noexcept {
  errno = error;
  return -1;
}

// A handler that the program has installed since would get the faults that are ours.
void keep_handler_on_top() noexcept {
  static std::atomic<bool> said{false};
  if (memory::dma::check_on_top() && !said.exchange(true)) {
    std::fprintf(stderr,
                 "kilim-vhca: the program has replaced the SIGSEGV or SIGBUS handler: ours is put "
                 "in front of it again\n");
  }
}

bool has_memory(const Device& device) noexcept {
  return memory_reserve::fill() &&
         (device.live() != nullptr || memory_reserve::has_room(memory_reserve::adapter_bytes));
}

int open_device(Device& device, int flags) {
  if (!has_memory(device)) return fail(ENOMEM);
  const memory_reserve::Scope scope;
  auto instance = device.instance();
  if (!instance.ok()) {
    std::fprintf(stderr, "kilim-vhca: %s: %s\n", device.config().attach.name.c_str(),
                 instance.error().what);
    return fail(instance.error().code);
  }
  auto file = std::make_unique<uverbs::DeviceFile>((*instance)->hca());
  const int fd = open_files::add(std::move(file), *instance, &device, (flags & O_CLOEXEC) != 0);
  hook_maps();
  return fd >= 0 ? fd : fail(-fd);
}

// "/dev/infiniband/rdma_cm", which is there as long as a device of ours is listed. It stands before
// a machine's own: one file serves all devices.
bool is_cm(const char* path) noexcept {
  if (path == nullptr || std::strcmp(path, "/dev/infiniband/rdma_cm") != 0) return false;
  for (std::size_t i = 0; i < device_list::count(); i++)
    if (!device_list::at(i)->hidden()) return true;
  return false;
}

// The kernel's has all devices from the start, so each adapter is made that is not yet there.
int open_cm(int flags) {
  if (!memory_reserve::fill()) return fail(ENOMEM);
  const memory_reserve::Scope scope;
  for (std::size_t i = 0; i < device_list::count(); i++) {
    Device& device = *device_list::at(i);
    if (device.hidden() || device.live() != nullptr) continue;
    if (!has_memory(device)) return fail(ENOMEM);
    if (auto made = device.instance(); !made.ok())
      std::fprintf(stderr, "kilim-vhca: %s: %s\n", device.config().attach.name.c_str(),
                   made.error().what);
  }
  Fd fd;
  auto file = rdmacm::CmFile::create((flags & O_CLOEXEC) != 0, fd);
  if (!file.ok()) return fail(file.error().code);
  if ((flags & O_NONBLOCK) != 0) (void)::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  redirect_rdmacm();
  const int number = open_files::add_cm(std::move(*file), std::move(fd));
  return number >= 0 ? number : fail(-number);
}

// Which file of rdma_cm a descriptor leads to, held until the call is over.
struct CmSearch {
  std::optional<OpenFileRef> held;
  static rdmacm::CmFile* find(void* context, int fd) noexcept {
    auto& search = *static_cast<CmSearch*>(context);
    search.held.emplace(fd);
    return *search.held ? (*search.held)->cm : nullptr;
  }
};

void describe_cm(struct stat* st) noexcept {
  st->st_mode = S_IFCHR | 0666;
  st->st_rdev = rdma_cm_rdev();
  st->st_size = 0;
}

ssize_t write_cm(rdmacm::CmFile& cm, const void* from, std::size_t count) noexcept {
  CmSearch search;
  const ssize_t result = cm.write(from, count, {&CmSearch::find, &search});
  for (std::size_t i = 0; i < device_list::count(); i++) {
    if (Instance* instance = device_list::at(i)->live()) instance->kick();
  }
  return result;
}

void report_unmapped(const void* at, std::size_t length) noexcept {
  if (length == 0 || !tpt::page_events::anybody()) return;
  const int saved = errno;
  tpt::page_events::invalidate(tpt::PageRange::of(reinterpret_cast<uintptr_t>(at), length));
  errno = saved;
}

// NOLINTNEXTLINE(readability-function-size): the parameters of mmap(), and one
void* map_plain(void* at, std::size_t length, int prot, int flags, int fd, int64_t offset,
                MapCall* next) noexcept {
  void* got = next != nullptr ? next(at, length, prot, flags, fd, offset)
                              : raw::map(at, length, prot, flags, fd, offset);
  if ((flags & MAP_FIXED) != 0 && got != MAP_FAILED) report_unmapped(got, length);
  return got;
}

// Whoever gets a device's descriptor can map its doorbells by the kernel alone.
void report_sent(const msghdr& message) noexcept {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(&message), part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const auto* bytes = reinterpret_cast<const std::byte*>(part);
    const auto* end = static_cast<const std::byte*>(message.msg_control) + message.msg_controllen;
    const std::size_t length =
        std::min<std::size_t>(part->cmsg_len, static_cast<std::size_t>(end - bytes));
    for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= length; at += sizeof(int)) {
      int sent;
      std::memcpy(&sent, bytes + at, sizeof(sent));
      if (const OpenFileRef open(sent); open && open->instance != nullptr) open->instance->shared();
    }
  }
}

void describe(const Device& device, struct stat* st) noexcept {
  st->st_mode = S_IFCHR | 0666;
  st->st_rdev = device.config().rdev();
  st->st_size = 0;
}

}  // namespace

std::optional<int> open(const char* path, int flags) noexcept {
  if (is_cm(path)) return open_cm(flags);
  Device* device = device_list::find_path(path);
  if (device == nullptr) return std::nullopt;
  return open_device(*device, flags);
}

std::optional<int> stat(const char* path, struct stat* st) noexcept {
  const Device* device = device_list::find_path(path);
  if (device == nullptr && !is_cm(path)) return std::nullopt;
  // Like the device folder, with what is a device's own.
  if (raw::stat_at(AT_FDCWD, "/dev", st, 0) != 0) return -1;
  device != nullptr ? describe(*device, st) : describe_cm(st);
  st->st_nlink = 1;
  return 0;
}

std::optional<int> access(const char* path, int mode) noexcept {
  if (device_list::find_path(path) == nullptr && !is_cm(path)) return std::nullopt;
  return (mode & X_OK) != 0 ? fail(EACCES) : 0;  // everybody's to read and write
}

int file_stat(int fd, struct stat* st, FileStatCall* next) noexcept {
  const OpenFileRef open(fd);
  if (!open) return next != nullptr ? next(fd, st) : raw::file_stat(fd, st);
  const int result = raw::file_stat(fd, st);
  if (result == 0) open->cm != nullptr ? describe_cm(st) : describe(*open->device, st);
  return result;
}

// With the kernel's RDMA netlink libibverbs would never look at sysfs, where our devices are.
int socket(int domain, int type, int protocol, SocketCall* next) noexcept {
  if (domain == AF_NETLINK && protocol == NETLINK_RDMA) return fail(EPROTONOSUPPORT);
  return next != nullptr ? next(domain, type, protocol) : raw::socket(domain, type, protocol);
}

int ioctl(int fd, unsigned long request, void* argument, IoctlCall* next) noexcept {
  const OpenFileRef open(fd);
  if (!open) {
    if (const auto answered = netdev::ioctl(request, argument))
      return *answered < 0 ? fail(-*answered) : *answered;
    const int result =
        next != nullptr ? next(fd, request, argument) : raw::ioctl(fd, request, argument);
    if (result == 0) netdev::changed_by_kernel(request, argument);
    return result;
  }
  if (open->cm != nullptr) return fail(ENOTTY);
  keep_handler_on_top();
  keep_maps_hooked();
  const FaultsOpen faults;
  const int result = open->file->ioctl(request, argument);
  open->instance->kick();
  return result < 0 ? fail(-result) : result;
}

ssize_t write(int fd, const void* from, std::size_t count, WriteCall* next) noexcept {
  const OpenFileRef open(fd);
  if (!open) return next != nullptr ? next(fd, from, count) : raw::write(fd, from, count);
  keep_handler_on_top();
  const FaultsOpen faults;
  ssize_t result = 0;
  if (open->cm != nullptr) {
    result = write_cm(*open->cm, from, count);
  } else {
    result = open->file->write(from, count);
    open->instance->kick();
  }
  return result < 0 ? fail(static_cast<int>(-result)) : result;
}

ssize_t send(int fd, const struct msghdr* message, int flags, SendCall* next) noexcept {
  if (message != nullptr && open_files::count() != 0) report_sent(*message);
  return next != nullptr ? next(fd, message, flags) : raw::send(fd, message, flags);
}

// NOLINTNEXTLINE(readability-function-size): the parameters of mmap(), and one
void* map(void* at, std::size_t length, int prot, int flags, int fd, int64_t offset,
          MapCall* next) noexcept {
  // Callers pass any descriptor with MAP_ANONYMOUS.
  if ((flags & MAP_ANONYMOUS) != 0) return map_plain(at, length, prot, flags, fd, offset, next);
  const OpenFileRef open(fd);
  if (!open) return map_plain(at, length, prot, flags, fd, offset, next);
  if (open->cm != nullptr) {
    errno = ENODEV;
    return MAP_FAILED;
  }
  uverbs::DeviceFile::Mapping mapping;
  const int result =
      open->file->mmap({static_cast<uint64_t>(offset), length, prot, flags, fd}, mapping);
  if (result < 0) {
    errno = -result;
    return MAP_FAILED;
  }
  void* page =
      raw::map(at, length, prot, flags, mapping.map_fd, static_cast<int64_t>(mapping.map_offset));
  if (page != MAP_FAILED && mapping.doorbells && (prot & PROT_WRITE) != 0)
    open->instance->mapped(page, length);
  return page;
}

int unmap(void* at, std::size_t length, UnmapCall* next) noexcept {
  const int result = next != nullptr ? next(at, length) : raw::unmap(at, length);
  if (result == 0) report_unmapped(at, length);
  return result;
}

int advise(void* at, std::size_t length, int advice, AdviseCall* next) noexcept {
  const int result = next != nullptr ? next(at, length, advice) : raw::advise(at, length, advice);
  const bool forgets = advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE;
  if (result == 0 && forgets) report_unmapped(at, length);
  return result;
}

// NOLINTNEXTLINE(readability-function-size): the parameters of mremap(), and one
void* remap(void* at, std::size_t from, std::size_t to, int flags, void* where,
            RemapCall* next) noexcept {
  void* got =
      next != nullptr ? next(at, from, to, flags, where) : raw::remap(at, from, to, flags, where);
  if (got == MAP_FAILED) return got;
  const bool moved = got != at;
  if (moved) {
    report_unmapped(at, from);
    report_unmapped(got, to);
  } else if (to < from) {
    report_unmapped(static_cast<char*>(at) + to, from - to);
  }
  return got;
}

int close(int fd, CloseCall* next) noexcept {
  OpenFileRef open(fd);
  if (open) return open_files::close(open.give_up(), fd);
  return next != nullptr ? next(fd) : raw::close(fd);
}

}  // namespace kilim::vhca::entry::calls
