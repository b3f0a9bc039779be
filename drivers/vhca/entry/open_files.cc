// SPDX-License-Identifier: BSD-3-Clause
// The table: a fixed array of slots, found by inode.

#include "vhca/entry/open_files.hh"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "vhca/entry/raw.hh"

namespace kilim::vhca::entry::open_files {
namespace {

constexpr std::size_t max_open = 1024;
OpenFile slots[max_open];
std::atomic<std::size_t> slots_used{0};  // high-water mark
std::atomic<uint32_t> open_count{0};
// The kernel has one mount for all memfds, and one for all sockets; 0: none was opened yet.
std::atomic<dev_t> memfd_mount{0}, socket_mount{0};
std::atomic<pid_t> owner{0};  // the process whose opens these are

struct KernelDirent {
  uint64_t inode;
  int64_t offset;
  uint16_t length;
  uint8_t type;
  char name[256];
};

struct Identity {
  ino_t inode;
  dev_t mount;
  int own;  // not counted
};

bool same_file(int fd, Identity wanted) noexcept {
  struct stat st;
  return raw::file_stat(fd, &st) == 0 && st.st_ino == wanted.inode && st.st_dev == wanted.mount;
}

bool is_listed(int folder, Identity wanted) noexcept {
  alignas(KernelDirent) char buffer[4096];
  for (long n; (n = ::syscall(SYS_getdents64, folder, buffer, sizeof(buffer))) > 0;) {
    for (long at = 0; at < n;) {
      const auto* entry = reinterpret_cast<const KernelDirent*>(buffer + at);
      at += entry->length;
      const int fd = std::atoi(entry->name);
      if (entry->name[0] != '.' && fd != wanted.own && same_file(fd, wanted)) return true;
    }
  }
  return false;
}

// Every number that a descriptor may have. A program may have lowered its limit below numbers that
// it uses, so the hard limit counts; the kernel's own default keeps the look short.
bool has_number(Identity wanted) noexcept {
  constexpr rlim_t most = 1 << 20;
  rlimit limit{most, most};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const int end = static_cast<int>(std::min(limit.rlim_max, most));
  for (int fd = 0; fd < end; fd++) {
    if (fd != wanted.own && same_file(fd, wanted)) return true;
  }
  return false;
}

// Whether a descriptor refers to the file. Looks at all of the process's: this happens when a
// device is closed, not on a fast path.
bool has_descriptor(Identity wanted) noexcept {
  const int folder = raw::open_at(AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (folder < 0) return has_number(wanted);  // no number is left, or there is no /proc
  const bool found = is_listed(folder, wanted);
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
  const dev_t mount = open.mount.load(std::memory_order_relaxed);
  last = inode != 0 && !has_descriptor({inode, mount, open.own}) &&
         open.inode.compare_exchange_strong(inode, 0, std::memory_order_seq_cst);
  errno = error;
  return result;
}

// Frees the slot, which nobody uses any more.
void free_slot(OpenFile& open) noexcept {
  uverbs::DeviceFile* file = open.file;
  rdmacm::CmFile* cm = open.cm;
  open.cm = nullptr;
  open.file = nullptr;
  open.taken.store(false, std::memory_order_release);
  delete file;
  delete cm;
}

// Off the table, the open waits for the calls on their way; one of rdma_cm, which may wait for
// events for ever, is left to the last of them.
void end_open(OpenFile& open) noexcept {
  open_count.fetch_sub(1, std::memory_order_release);
  if (open.cm == nullptr) {
    while (open.users.load(std::memory_order_seq_cst) != 0) ::sched_yield();
    return free_slot(open);
  }
  open.ending.store(true, std::memory_order_seq_cst);
  if (open.users.load(std::memory_order_seq_cst) == 0 && open.ending.exchange(false))
    free_slot(open);
}

// A filled slot is found from now on.
void show(OpenFile& slot, const struct stat& st) noexcept {
  owner.store(::getpid(), std::memory_order_relaxed);
  slot.mount.store(st.st_dev, std::memory_order_relaxed);
  slot.inode.store(st.st_ino, std::memory_order_seq_cst);
  open_count.fetch_add(1, std::memory_order_release);
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

int add(std::unique_ptr<uverbs::DeviceFile> file, Instance* instance, Device* device,
        bool close_on_exec) noexcept {
  const int fd = static_cast<int>(::syscall(
      SYS_memfd_create, "kilim-uverbs", MFD_ALLOW_SEALING | (close_on_exec ? MFD_CLOEXEC : 0u)));
  if (fd < 0) return -errno;
  // It will hold pages that the adapter looks at.
  ::syscall(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_SHRINK);
  struct stat st;
  OpenFile* slot = raw::file_stat(fd, &st) == 0 ? claim_slot() : nullptr;
  if (slot == nullptr) {
    raw::close(fd);
    return -EMFILE;
  }
  memfd_mount.store(st.st_dev, std::memory_order_relaxed);
  slot->own = -1;
  slot->file = file.release();
  slot->instance = instance;
  slot->device = device;
  show(*slot, st);
  return fd;
}

int add_cm(std::unique_ptr<rdmacm::CmFile> file, Fd fd) noexcept {
  struct stat st;
  OpenFile* slot = raw::file_stat(fd.get(), &st) == 0 ? claim_slot() : nullptr;
  if (slot == nullptr) return -EMFILE;
  socket_mount.store(st.st_dev, std::memory_order_relaxed);
  slot->own = file->own_descriptor();
  slot->cm = file.release();
  slot->instance = nullptr;
  slot->device = nullptr;
  show(*slot, st);
  return fd.release();
}

OpenFile* acquire(int fd) noexcept {
  if (fd < 0 || open_count.load(std::memory_order_acquire) == 0) return nullptr;
  const int saved_errno = errno;
  struct stat st;
  const bool candidate = raw::file_stat(fd, &st) == 0 && st.st_ino != 0 &&
                         (st.st_dev == memfd_mount.load(std::memory_order_relaxed) ||
                          st.st_dev == socket_mount.load(std::memory_order_relaxed));
  errno = saved_errno;
  if (!candidate) return nullptr;
  const std::size_t used = slots_used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < used; i++) {
    OpenFile& slot = slots[i];
    if (slot.inode.load(std::memory_order_acquire) != st.st_ino ||
        slot.mount.load(std::memory_order_relaxed) != st.st_dev)
      continue;
    // Announce, then look again: close() clears the inode, then waits for the users.
    slot.users.fetch_add(1, std::memory_order_seq_cst);
    if (slot.inode.load(std::memory_order_seq_cst) == st.st_ino) return &slot;
    release(&slot);
  }
  return nullptr;
}

void release(OpenFile* open) noexcept {
  if (open->users.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
      open->ending.load(std::memory_order_seq_cst) && open->ending.exchange(false))
    free_slot(*open);
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
    if (slots[i].inode.load(std::memory_order_relaxed) == 0) continue;
    if (slots[i].file != nullptr) slots[i].file->disown_after_fork();
    if (slots[i].cm != nullptr) slots[i].cm->disown_after_fork();
  }
}

}  // namespace kilim::vhca::entry::open_files
