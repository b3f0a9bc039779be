// SPDX-License-Identifier: BSD-3-Clause
// On a machine with RDMA the two class folders exist and are covered. Else nothing can be made in
// sysfs: /sys/class is covered by a tmpfs that has them, and all others bound in again. The folder
// of debugfs that has the devices' statistics is made in the same way.

#include "sysfs_mount.hh"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kilim/detail/base/fd.hh"

namespace kilim::app {
namespace {

constexpr const char* names[] = {"infiniband", "infiniband_verbs"};
const std::string class_folder = "/sys/class";

bool write_text(const char* path, const std::string& text) {
  const Fd fd(::open(path, O_WRONLY | O_CLOEXEC));
  return fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

Status enter_namespace() {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || !map_ids(uid, gid)) {
      return Error{EPERM, "--sysfs mount needs root, or a kernel that gives users namespaces"};
    }
  }
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return Error{errno, "the mount namespace cannot be made private"};
  }
  return Done{};
}

bool bind(const std::string& from, const std::string& to) {
  return ::mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
}

// `old` is the folder as it was before the tmpfs covered it.
bool bind_others(DIR* folder, const std::string& old, const std::string& now) {
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] == '.' || entry->d_type == DT_REG) continue;
    const std::string to = now + "/" + entry->d_name;
    if (::mkdir(to.c_str(), 0755) != 0 || !bind(old + "/" + entry->d_name, to)) return false;
  }
  return true;
}

// By a tmpfs with what was there, files in the folder itself excepted.
Status cover(const std::string& path) {
  DIR* folder = ::opendir(path.c_str());
  if (folder == nullptr) return Error{errno, "a folder of /sys cannot be read"};
  const std::string old = "/proc/self/fd/" + std::to_string(::dirfd(folder));
  const bool ok =
      ::mount("tmpfs", path.c_str(), "tmpfs", 0, "mode=755") == 0 && bind_others(folder, old, path);
  const int error = errno;
  ::closedir(folder);
  if (!ok) return Error{error, "a folder of /sys cannot be covered"};
  return Done{};
}

// The tree has the machine's own functions beside the devices. A machine without a PCI bus has no
// place for them: it is made as the classes' is.
Status add_functions(const std::string& tree) {
  const std::string bus = "/sys/bus", devices = "/pci/devices";
  if (::access((bus + devices).c_str(), F_OK) != 0) {
    if (Status covered = cover(bus); !covered.ok()) return covered;
    ::mkdir((bus + "/pci").c_str(), 0755);
    ::mkdir((bus + devices).c_str(), 0755);
  }
  if (!bind(tree + "/bus" + devices, bus + devices))
    return Error{errno, "the devices cannot be mounted in /sys/bus/pci/devices"};
  return Done{};
}

// Beside those of real cards. A kernel without debugfs has no place for it: then they are missing.
Status add_debug_folders(const std::string& tree) {
  const std::string debug = "/sys/kernel/debug", cards = debug + "/mlx5";
  if (::access(debug.c_str(), F_OK) != 0) return Done{};
  const bool has_cards = ::access(cards.c_str(), F_OK) == 0;
  if (Status covered = cover(has_cards ? cards : debug); !covered.ok()) return covered;
  if (!has_cards) ::mkdir(cards.c_str(), 0755);
  const std::string ours = tree + "/kernel/debug/mlx5";
  DIR* folder = ::opendir(ours.c_str());
  bool ok = folder != nullptr;
  while (const dirent* entry = ok ? ::readdir(folder) : nullptr) {
    if (entry->d_name[0] == '.') continue;
    const std::string to = cards + "/" + entry->d_name;
    ok = ::mkdir(to.c_str(), 0755) == 0 && bind(ours + "/" + entry->d_name, to);
  }
  if (folder != nullptr) ::closedir(folder);
  if (!ok) return Error{EIO, "the devices' debug folders cannot be mounted in /sys/kernel/debug"};
  return Done{};
}

}  // namespace

bool map_ids(uid_t uid, gid_t gid) {
  const std::string u = std::to_string(uid), g = std::to_string(gid);
  return write_text("/proc/self/setgroups", "deny") &&
         write_text("/proc/self/uid_map", u + " " + u + " 1") &&
         write_text("/proc/self/gid_map", g + " " + g + " 1");
}

bool enter_user_namespace() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3]{};
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::syscall(SYS_capget, &header, sets) != 0) return false;
  if ((sets[CAP_SYS_ADMIN / 32].effective & 1u << CAP_SYS_ADMIN % 32) != 0) return false;
  return ::unshare(CLONE_NEWUSER) == 0 && map_ids(uid, gid);
}

void drop_rights() noexcept {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3]{};
  (void)::syscall(SYS_capset, &header, none);
}

Status mount_over_sysfs(const std::string& tree, bool functions) {
  if (Status entered = enter_namespace(); !entered.ok()) return entered;
  if (::access((class_folder + "/infiniband").c_str(), F_OK) != 0 ||
      ::access((class_folder + "/infiniband_verbs").c_str(), F_OK) != 0) {
    if (Status covered = cover(class_folder); !covered.ok()) return covered;
    for (const char* name : names) ::mkdir((class_folder + "/" + name).c_str(), 0755);
  }
  for (const char* name : names) {
    if (!bind(tree + "/class/" + name, class_folder + "/" + name)) {
      return Error{errno, "the device list cannot be mounted in /sys/class"};
    }
  }
  if (functions) {
    if (Status added = add_functions(tree); !added.ok()) return added;
  }
  return add_debug_folders(tree);
}

}  // namespace kilim::app
