// SPDX-License-Identifier: BSD-3-Clause
// Makes calls of libibverbs and libmlx5 fail on purpose: the k-th ioctl on a device, the k-th
// allocation. After the first attachment of a virtual device; one thread.
#pragma once

#include <cstdint>

namespace kilim::test {

struct Faults {
  uint64_t ioctls = 0;       // seen since arm()
  uint64_t allocations = 0;  // likewise
  uint64_t fail_ioctl = 0;   // this one fails, counted from 1; 0: none
  int ioctl_error = 0;       // with this errno
  uint64_t fail_allocation = 0;
  uint64_t news = 0;      // of operator new, in the program and what is linked into it
  uint64_t fail_new = 0;  // likewise; only programs that replace it, through new_fails()
  bool hit = false;       // something failed
  // Runs before each ioctl.
  void (*before_ioctl)(void* arg) = nullptr;
  void* arg = nullptr;
};

// Redirects the calls; false where that is impossible.
bool place_faults();
// Counts anew and fails as `f` says; {} fails nothing.
void arm(const Faults& f);
const Faults& faults();
// For a program's operator new: whether this allocation fails. The device's own never do.
bool new_fails() noexcept;

}  // namespace kilim::test
