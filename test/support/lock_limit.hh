// SPDX-License-Identifier: BSD-3-Clause
// What a process may lock, changed in a forked child: neither the limit nor the capability can be
// had back. The parent waits; the child ends by itself at the latest after a minute.
#pragma once

#include <cstdint>
#include <cstdlib>

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "in_child.hh"

namespace kilim::test {

// The soft limit, in pages of 4096 bytes.
inline bool may_lock(uint64_t pages) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return false;
  limit.rlim_cur = pages * 4096;
  return ::setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
}

// From now on the limit counts for this thread, whatever the environment says.
inline bool give_up_lock_capability() {
  ::unsetenv("KILIM_VHCA_MEMLOCK");
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3]{};
  if (::syscall(SYS_capget, &head, data) != 0) return false;
  data[0].effective &= ~(1u << CAP_IPC_LOCK);
  return ::syscall(SYS_capset, &head, data) == 0;
}

}  // namespace kilim::test
