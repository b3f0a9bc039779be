// SPDX-License-Identifier: BSD-3-Clause
// Puts a tree of virtual devices into this process's own view of /sys: a mount namespace, and for
// an ordinary user a user namespace. Called between fork and exec, but for what says otherwise.
#pragma once

#include <string>

#include <sys/types.h>

#include "kilim/result.hh"

namespace kilim::app {

// In a new user namespace: the same user and group as outside.
bool map_ids(uid_t uid, gid_t gid);

// In the launcher, before it makes anything: where this user may mount nothing, into a user
// namespace that it shares with its command. The command reads files of the launcher's in /proc,
// which a kernel refuses to who is in another one (Linux, kernel/ptrace.c, ptrace_may_access()).
// True: it is in one of its own now.
bool enter_user_namespace();
// In the launcher, once the command is started, for the same reason: the command has fewer rights
// in the namespace as soon as it has become another program (capabilities(7)).
void drop_rights() noexcept;

// `functions`: /sys/bus/pci/devices has the devices too.
Status mount_over_sysfs(const std::string& tree, bool functions);

}  // namespace kilim::app
