// SPDX-License-Identifier: BSD-3-Clause
// Puts a tree of virtual devices into this process's own view of /sys/class: a mount namespace, and
// for an ordinary user a user namespace. Called between fork and exec.
#pragma once

#include <string>

#include <sys/types.h>

#include "kilim/base/result.hh"

namespace kilim::app {

// In a new user namespace: the same user and group as outside.
bool map_ids(uid_t uid, gid_t gid);

Status mount_over_sysfs(const std::string& tree);

}  // namespace kilim::app
