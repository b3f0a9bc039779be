// SPDX-License-Identifier: BSD-3-Clause
// What the launcher's library offers to a program that also attaches in process: its devices, so
// that there is one adapter and not two. Found by name at run time; a plain C table, because the
// two were compiled apart. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct KilimVhcaLaunched {
  uint32_t version;  // 3
  // The launcher's device of this name; null: none.
  void* (*find)(const char* name);
  // Runs its adapter if nobody else does; what it did.
  std::size_t (*poll)(void* device, std::size_t budget);
  // Since version 2. Its linter's mode from now on: off, warn, error; 0 or an errno.
  int (*set_lint)(void* device, const char* mode);
  // Since version 3. The MTU of its port from now on, 0 for none; 0 or an errno.
  int (*set_mtu)(void* device, uint32_t port, uint32_t mtu);
};

// The one symbol besides the interposed calls that libkilim-vhca.so exports.
const KilimVhcaLaunched* kilim_vhca_launched();
}
