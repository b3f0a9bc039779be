// SPDX-License-Identifier: BSD-3-Clause
// The userfaultfd calls. The list of ranges changes under a lock that the progress thread takes
// before it sleeps and after it wakes, and only then.

#include "vhca/entry/write_protect.hh"

#include <cerrno>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vhca/entry/raw.hh"

namespace kilim::vhca::entry {
namespace {

constexpr unsigned user_mode_only = 1;  // UFFD_USER_MODE_ONLY
constexpr uint64_t wanted = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;

Fd open_descriptor() noexcept {
  constexpr int flags = O_CLOEXEC | O_NONBLOCK;
  Fd fd(static_cast<int>(::syscall(SYS_userfaultfd, flags | static_cast<int>(user_mode_only))));
  if (fd) return fd;
  const Fd device(raw::open_at(AT_FDCWD, "/dev/userfaultfd", O_RDWR | O_CLOEXEC, 0));
  if (!device) return Fd();
  return Fd(static_cast<int>(::syscall(SYS_ioctl, device.get(), USERFAULTFD_IOC_NEW, flags)));
}

}  // namespace

const char* WriteProtect::open() noexcept {
  Fd fd = open_descriptor();
  if (!fd) return "userfaultfd is refused";
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = wanted;
  if (raw::ioctl(fd.get(), UFFDIO_API, &api) != 0 || (api.features & wanted) != wanted) {
    return "the kernel cannot write-protect shared memory through userfaultfd";
  }
  fd_ = OwnFd(std::move(fd));
  return nullptr;
}

void WriteProtect::lose_descriptor() noexcept {
  pthread_mutex_lock(&lock_);
  fd_.reset();
  ranges_.clear();
  pthread_mutex_unlock(&lock_);
}

bool WriteProtect::add(void* page, std::size_t length) noexcept {
  const Range range{reinterpret_cast<uintptr_t>(page), length};
  uffdio_register reg{};
  reg.range = {range.start, range.length};
  reg.mode = UFFDIO_REGISTER_MODE_WP;
  pthread_mutex_lock(&lock_);
  const bool ok = fd_ && raw::ioctl(fd_.get(), UFFDIO_REGISTER, &reg) == 0;
  if (ok) {
    std::erase_if(ranges_, [&](const Range& r) { return r.start == range.start; });
    ranges_.push_back(range);
  }
  pthread_mutex_unlock(&lock_);
  return ok;
}

// A range that the client has unmapped since answers ENOENT and is forgotten.
uint32_t WriteProtect::apply(unsigned long long mode) noexcept {
  uint32_t calls = 0;
  pthread_mutex_lock(&lock_);
  std::erase_if(ranges_, [&](const Range& r) {
    uffdio_writeprotect wp{};
    wp.range = {r.start, r.length};
    wp.mode = mode;
    int result;
    do {
      result = raw::ioctl(fd_.get(), UFFDIO_WRITEPROTECT, &wp);
      calls++;
    } while (result != 0 && errno == EAGAIN);
    return result != 0 && errno == ENOENT;
  });
  pthread_mutex_unlock(&lock_);
  return calls;
}

uint32_t WriteProtect::protect() noexcept {
  return apply(UFFDIO_WRITEPROTECT_MODE_WP);
}

// A read that does not fill its room has taken all. A page that is not protected any more lets all
// its stores go that are in the kernel's list, those that are not read here too. The kernel puts a
// store into it and then looks whether the page may be written (fs/userfaultfd.c,
// handle_userfault(), userfaultfd_must_wait(): pte_write()), which behind the release of a shared
// page needs one more fault: a store that comes into the list behind the release waits.
WriteProtect::Released WriteProtect::release() noexcept {
  uffd_msg messages[16];
  Released released;
  if (!has_descriptor()) return {0, 1, true};
  const ssize_t n = ::read(fd_.get(), messages, sizeof(messages));
  if (n > 0) released.traps = static_cast<uint32_t>(static_cast<std::size_t>(n) / sizeof(uffd_msg));
  released.system_calls = 2 + apply(0);
  return released;
}

void WriteProtect::after_fork_in_child() noexcept {
  pthread_mutex_init(&lock_, nullptr);
  fd_.reset();
  ranges_.clear();
}

}  // namespace kilim::vhca::entry
