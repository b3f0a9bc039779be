// SPDX-License-Identifier: BSD-3-Clause
// Which descriptors are opens of a virtual device, or of rdma_cm. A device descriptor is a memfd,
// one of rdma_cm a socket, and its inode is its identity: dup(), F_DUPFD and fork() need no
// bookkeeping, a number that was closed behind our back and given out again is not mistaken for
// ours. Any thread; looking up a foreign descriptor takes no lock and writes nothing; while no
// device is open it is one load.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <sys/types.h>

#include "kilim/detail/base/fd.hh"
#include "kilim/detail/base/result.hh"
#include "vhca/rdmacm/cm_file.hh"
#include "vhca/uverbs/device_file.hh"

namespace kilim::vhca::entry {

class Instance;
class Device;

// One open file description. Slots are never freed, so that a reader may look at any of them.
struct OpenFile {
  std::atomic<ino_t> inode{0};     // 0: free, or being filled
  std::atomic<dev_t> mount{0};     // where that inode is
  std::atomic<uint32_t> users{0};  // calls on their way through
  std::atomic<bool> taken{false};
  // Of rdma_cm: closed while a call waits in it, which ends the open when it comes back, as the
  // kernel's files do (fput()).
  std::atomic<bool> ending{false};
  int own = -1;  // a descriptor of ours on the same file, which is none of the client's; -1: none
  uverbs::DeviceFile* file = nullptr;  // of a device, or
  rdmacm::CmFile* cm = nullptr;        // of rdma_cm, which belongs to no device
  Instance* instance = nullptr;
  Device* device = nullptr;
};

namespace open_files {

// Makes a descriptor for a new open, which keeps `file`. Negative errno: EMFILE and what
// memfd_create answers.
int add(std::unique_ptr<uverbs::DeviceFile> file, Instance* instance, Device* device,
        bool close_on_exec) noexcept;

// The same of rdma_cm; `fd` becomes the table's until it is closed. EMFILE.
int add_cm(std::unique_ptr<rdmacm::CmFile> file, Fd fd) noexcept;

// The open behind `fd`, held until release(); null: not ours. errno is kept.
OpenFile* acquire(int fd) noexcept;
void release(OpenFile* open) noexcept;

// close(2) of `fd`, which leads to `open`; the caller holds that, and releases it by this. With the
// last descriptor of this process that refers to it the open goes, when the calls on their way are
// back. The result and errno are the kernel's.
int close(OpenFile* open, int fd) noexcept;

// How many opens there are.
std::size_t count() noexcept;

// In a child after fork, alone: no call is on its way; every file is disowned.
void after_fork_in_child() noexcept;

}  // namespace open_files

// Holds an open for the length of a call.
class OpenFileRef {
 public:
  explicit OpenFileRef(int fd) noexcept : open_(open_files::acquire(fd)) {}
  ~OpenFileRef() {
    if (open_ != nullptr) open_files::release(open_);
  }
  OpenFileRef(const OpenFileRef&) = delete;
  OpenFileRef& operator=(const OpenFileRef&) = delete;
  explicit operator bool() const noexcept { return open_ != nullptr; }
  OpenFile* operator->() const noexcept { return open_; }
  OpenFile* give_up() noexcept {
    OpenFile* open = open_;
    open_ = nullptr;
    return open;
  }

 private:
  OpenFile* open_;
};

}  // namespace kilim::vhca::entry
