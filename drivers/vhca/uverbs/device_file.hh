// SPDX-License-Identifier: BSD-3-Clause
// One open of /dev/infiniband/uverbsN: what the kernel's ib_uverbs and mlx5_ib would answer. Any
// thread may call; each call takes the adapter's lock itself, so the caller must not hold it (and
// unmaps or closes nothing that the engine uses behind its back). Everything that comes in is the
// client's and untrusted. Destroying it releases every object of this open, as closing the last
// descriptor does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <sys/types.h>

namespace kilim::vhca::hca {
struct Hca;
}  // namespace kilim::vhca::hca

namespace kilim::vhca::uverbs {

struct Context;  // objects and event files of this open, private to uverbs/

// The arguments of mmap(2): the client's, untrusted.
struct MapRequest {
  uint64_t offset = 0;
  std::size_t length = 0;
  int prot = 0;
  int flags = 0;
  int fd = -1;  // a memfd that is this open's, and will hold its doorbell pages; -1: none
};

class DeviceFile {
 public:
  // open(2). The adapter outlives it.
  explicit DeviceFile(hca::Hca& hca);
  ~DeviceFile();
  DeviceFile(const DeviceFile&) = delete;
  DeviceFile& operator=(const DeviceFile&) = delete;

  // ioctl(2): 0 or a negative errno. `argument` is the client's pointer. As ib_uverbs_ioctl() in
  // the kernel's uverbs_ioctl.c.
  int ioctl(unsigned long request, void* argument);

  // write(2): the older command interface. Bytes taken (all) or a negative errno. As
  // ib_uverbs_write() in the kernel's uverbs_main.c.
  ssize_t write(const void* buffer, std::size_t count);

  // mmap(2): what to map in its place, with `map_fd` and `map_offset` and the client's own
  // address, length, protection and MAP_SHARED flags. The descriptor stays ours, or is the
  // request's.
  struct Mapping {
    int map_fd = -1;
    uint64_t map_offset = 0;  // bytes, a multiple of a page
    bool doorbells = false;   // stores there wake the engine
  };
  // 0 or a negative errno. As mlx5_ib_mmap() in main.c.
  int mmap(const MapRequest& request, Mapping& mapping);

  // The adapter that was opened.
  [[nodiscard]] hca::Hca& hca() noexcept;

  // In a child after fork: the objects belong to the parent's queues. Forgets them without touching
  // the adapter; every later call answers EIO, as a disassociated device does, but for
  // QUERY_DEVICE and those of device memory: the parent's is found and mapped, more is allocated.
  void disown_after_fork() noexcept;

 private:
  std::unique_ptr<Context> context_;
};

}  // namespace kilim::vhca::uverbs
