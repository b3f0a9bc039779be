// SPDX-License-Identifier: BSD-3-Clause
// The table: a fixed array of slots, found by inode.

#include "vhca/entry/open_files.hh"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <dirent.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "vhca/entry/raw.hh"

namespace kilim::vhca::open_files {
namespace {

constexpr std::size_t max_open = 1024;
OpenFile slots[max_open];
std::atomic<std::size_t> slots_used{0};  // high-water mark
std::atomic<uint32_t> open_count{0};
std::atomic<dev_t> memfd_device{0};  // the kernel has one mount for all of them
std::atomic<pid_t> owner{0};         // the process whose opens these are

struct KernelDirent {
  uint64_t inode;
  int64_t offset;
  uint16_t length;
  uint8_t type;
  char name[256];
};

bool same_file(int fd, ino_t inode) noexcept {
  struct stat st;
  return raw::file_stat(fd, &st) == 0 && st.st_ino == inode &&
         st.st_dev == memfd_device.load(std::memory_order_relaxed);
}

bool is_listed(int folder, ino_t inode) noexcept {
  alignas(KernelDirent) char buffer[4096];
  for (long n; (n = ::syscall(SYS_getdents64, folder, buffer, sizeof(buffer))) > 0;) {
    for (long at = 0; at < n;) {
      const auto* entry = reinterpret_cast<const KernelDirent*>(buffer + at);
      at += entry->length;
      if (entry->name[0] != '.' && same_file(std::atoi(entry->name), inode)) return true;
    }
  }
  return false;
}

// Every number that a descriptor may have. A program may have lowered its limit below numbers that
// it uses, so the hard limit counts; the kernel's own default keeps the look short.
bool has_number(ino_t inode) noexcept {
  constexpr rlim_t most = 1 << 20;
  rlimit limit{most, most};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const int end = static_cast<int>(std::min(limit.rlim_max, most));
  for (int fd = 0; fd < end; fd++) {
    if (same_file(fd, inode)) return true;
  }
  return false;
}

// Whether a descriptor refers to the file. Looks at all of the process's: this happens when a
// device is closed, not on a fast path.
bool has_descriptor(ino_t inode) noexcept {
  const int folder = raw::open_at(AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (folder < 0) return has_number(inode);  // no number is left, or there is no /proc
  const bool found = is_listed(folder, inode);
  raw::close(folder);
  return found;
}

// What close(2) answers; `last`: no descriptor is left, and this call took the open off the table.
// The look comes second: of two threads that close the last two descriptors the later one finds
// none, or both do and one of them takes it. And the close has freed a number for the look.
int close_and_look(OpenFile& open, int fd, bool& last) noexcept {
  ino_t inode = open.inode.load(std::memory_order_relaxed);
  const int result = raw::close(fd);
  const int error = errno;
  last = inode != 0 && !has_descriptor(inode) &&
         open.inode.compare_exchange_strong(inode, 0, std::memory_order_seq_cst);
  errno = error;
  return result;
}

// Waits for the calls on their way, then frees the slot.
void end_open(OpenFile& open) noexcept {
  open_count.fetch_sub(1, std::memory_order_release);
  while (open.users.load(std::memory_order_seq_cst) != 0) ::sched_yield();
  DeviceFile* file = open.file;
  open.file = nullptr;
  open.taken.store(false, std::memory_order_release);
  delete file;
}

OpenFile* claim_slot() noexcept {
  for (std::size_t i = 0; i < max_open; i++) {
    bool free = false;
    if (!slots[i].taken.compare_exchange_strong(free, true, std::memory_order_acq_rel)) continue;
    std::size_t used = slots_used.load(std::memory_order_relaxed);
    while (used < i + 1 &&
           !slots_used.compare_exchange_weak(used, i + 1, std::memory_order_release)) {
    }
    return &slots[i];
  }
  return nullptr;
}

}  // namespace

int add(std::unique_ptr<DeviceFile> file, Instance* instance, Device* device,
        bool close_on_exec) noexcept {
  const int fd = static_cast<int>(
      ::syscall(SYS_memfd_create, "kilim-uverbs", close_on_exec ? MFD_CLOEXEC : 0u));
  if (fd < 0) return -errno;
  struct stat st;
  OpenFile* slot = raw::file_stat(fd, &st) == 0 ? claim_slot() : nullptr;
  if (slot == nullptr) {
    raw::close(fd);
    return -EMFILE;
  }
  memfd_device.store(st.st_dev, std::memory_order_relaxed);
  owner.store(::getpid(), std::memory_order_relaxed);
  slot->file = file.release();
  slot->instance = instance;
  slot->device = device;
  slot->inode.store(st.st_ino, std::memory_order_seq_cst);
  open_count.fetch_add(1, std::memory_order_release);
  return fd;
}

OpenFile* acquire(int fd) noexcept {
  if (fd < 0 || open_count.load(std::memory_order_acquire) == 0) return nullptr;
  const int saved_errno = errno;
  struct stat st;
  const bool candidate = raw::file_stat(fd, &st) == 0 && st.st_ino != 0 &&
                         st.st_dev == memfd_device.load(std::memory_order_relaxed);
  errno = saved_errno;
  if (!candidate) return nullptr;
  const std::size_t used = slots_used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < used; i++) {
    OpenFile& slot = slots[i];
    if (slot.inode.load(std::memory_order_acquire) != st.st_ino) continue;
    // Announce, then look again: close() clears the inode, then waits for the users.
    slot.users.fetch_add(1, std::memory_order_seq_cst);
    if (slot.inode.load(std::memory_order_seq_cst) == st.st_ino) return &slot;
    slot.users.fetch_sub(1, std::memory_order_release);
  }
  return nullptr;
}

void release(OpenFile* open) noexcept {
  open->users.fetch_sub(1, std::memory_order_release);
}

int close(OpenFile* open, int fd) noexcept {
  // A child of vfork() closes its own descriptors, but this memory is its parent's.
  if (owner.load(std::memory_order_relaxed) != ::getpid()) {
    release(open);
    return raw::close(fd);
  }
  bool last = false;
  const int result = close_and_look(*open, fd, last);
  const int error = errno;
  release(open);
  if (last) end_open(*open);
  errno = error;
  return result;
}

std::size_t count() noexcept {
  return open_count.load(std::memory_order_acquire);
}

void after_fork_in_child() noexcept {
  owner.store(::getpid(), std::memory_order_relaxed);
  const std::size_t used = slots_used.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < used; i++) {
    slots[i].users.store(0, std::memory_order_relaxed);
    if (slots[i].inode.load(std::memory_order_relaxed) != 0) slots[i].file->disown_after_fork();
  }
}

}  // namespace kilim::vhca::open_files
