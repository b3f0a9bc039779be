// SPDX-License-Identifier: BSD-3-Clause
// One open of /dev/infiniband/rdma_cm: what the kernel's rdma_ucm (drivers/infiniband/core/ucma.c)
// and rdma_cm (cma.c) would answer, over the connection managers of this process's adapters. Any
// thread may call, and must hold no adapter's lock. Everything that comes in is the client's and
// untrusted. Destroying it destroys every id of this open, as closing the last descriptor does.
#pragma once

#include <cstddef>
#include <memory>

#include <sys/types.h>

#include "kilim/detail/base/fd.hh"
#include "kilim/detail/base/result.hh"

namespace kilim::vhca::hca {
struct Hca;
}  // namespace kilim::vhca::hca

namespace kilim::vhca::rdmacm {

struct File;

// An adapter that the ids of this process may use from now on; it lives as long as the process.
void add_adapter(hca::Hca& hca);
// It is on no list any more: no id comes to it, those that have it keep it.
void hide_adapter(hca::Hca& hca) noexcept;

// The process ends, perhaps in a signal's handler: as the kernel closes what is open, ids go and
// their peers are told, unless another holds a lock for long.
void end_all() noexcept;

// Around fork, with the adapters' locks held. In the child the parent's ids are forgotten, and so
// are its adapters.
void before_fork() noexcept;
void after_fork_in_parent() noexcept;
void after_fork_in_child() noexcept;
class CmFile {
 public:
  // `client_fd` is the client's to close: readable while an event waits.
  static Result<std::unique_ptr<CmFile>> create(bool close_on_exec, Fd& client_fd);
  ~CmFile();
  CmFile(const CmFile&) = delete;
  CmFile& operator=(const CmFile&) = delete;

  // A descriptor on the same file as the client's, which is not the client's.
  [[nodiscard]] int own_descriptor() const noexcept;

  // Which file a descriptor of the client leads to, for moving an id; null: none of ours. Held
  // until release() if it is another than the one that is called.
  struct Finder {
    CmFile* (*find)(void* context, int fd) noexcept;
    void* context;
  };
  // write(2): bytes taken (all) or a negative errno. Waits for an event where the client
  // asks for one and O_NONBLOCK is not set.
  ssize_t write(const void* buffer, std::size_t count, const Finder& finder);

  // In a child after fork: every later call answers EIO, as a disassociated device does.
  void disown_after_fork() noexcept;

 private:
  explicit CmFile(std::unique_ptr<rdmacm::File> file);
  std::unique_ptr<rdmacm::File> file_;
};

}  // namespace kilim::vhca::rdmacm
