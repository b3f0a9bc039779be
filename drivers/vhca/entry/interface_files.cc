// SPDX-License-Identifier: BSD-3-Clause
// The names of the files and what is in them: Linux, Documentation/ABI/testing/sysfs-class-net and
// net/core/net-sysfs.c.
#include "vhca/entry/interface_files.hh"

#include <cstdio>
#include <cstdlib>

#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kilim/detail/base/fd.hh"
#include "vhca/entry/netdev.hh"
#include "vhca/entry/raw.hh"
#include "vhca/entry/tree_folders.hh"
#include "vhca/wire/make.hh"

namespace kilim::vhca::entry::interface_files {

namespace {

std::string text_of(const Mac& m) {
  char text[3 * sizeof(Mac)];
  std::snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", unsigned{m[0]}, unsigned{m[1]},
                unsigned{m[2]}, unsigned{m[3]}, unsigned{m[4]}, unsigned{m[5]});
  return text;
}

// The number of an interface as /sys shows it; 0: it shows none of this name.
unsigned shown_index(const std::string& name) {
  char text[16] = {};
  const Fd file(raw::open_at(AT_FDCWD, ("/sys/class/net/" + name + "/ifindex").c_str(),
                             O_RDONLY | O_CLOEXEC, 0));
  if (!file || ::read(file.get(), text, sizeof(text) - 1) <= 0) return 0;
  return static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

// An interface that the launcher made may be another network namespace's than the one that /sys
// shows, or the kernel may have none: then these files stand for it, as it is when it is made.
bool write_files(const std::string& folder, const DeviceConfig& d) {
  const unsigned index =
      d.netdev_answered ? netdev::answered_index(d) : ::if_nametoindex(d.netdev.c_str());
  const std::string number = std::to_string(index);
  const struct {
    const char* name;
    std::string text;
  } files[] = {
      {"addr_len", "6"},
      {"address", text_of(mac_of(d.attach))},
      {"broadcast", "ff:ff:ff:ff:ff:ff"},
      {"carrier", "1"},
      {"dev_id", "0x0"},
      {"dev_port", "0"},
      {"duplex", "full"},
      {"flags", "0x1003"},  // IFF_UP, IFF_BROADCAST, IFF_MULTICAST
      {"ifindex", number},
      {"iflink", number},
      {"mtu", "1500"},
      {"operstate", "up"},
      {"speed", "100000"},
      {"type", std::to_string(ARPHRD_ETHER)},
  };
  if (!make_folders(folder)) return false;
  for (const auto& file : files)
    if (!write_file(folder + "/" + file.name, file.text)) return false;
  return true;
}

}  // namespace

std::string name_of(const DeviceConfig& d) {
  if (!d.attach.netdev.empty()) return d.attach.netdev;
  if (!d.netdev.empty() || d.attach.wires.empty()) return d.netdev;
  return std::string(wire::interface_of_wire(d.attach.wires.front()));
}

// A tap: is made by whoever opens the device: until then the link leads nowhere.
bool write(const std::string& function, const DeviceConfig& d) {
  const std::string name = name_of(d);
  if (name.empty()) return true;
  const std::string to = function + "/net/" + name;
  const bool made = !d.netdev.empty();
  const bool shown = !made || (!d.netdev_answered && !d.netdev_hidden && shown_index(name) != 0 &&
                               shown_index(name) == ::if_nametoindex(name.c_str()));
  if (!shown) return write_files(to, d);
  return make_folders(function + "/net") &&
         ::symlink(("/sys/class/net/" + name).c_str(), to.c_str()) == 0;
}

void set_address(const DeviceConfig& d, const Mac& mac) noexcept {
  if (d.tree.empty() || d.netdev.empty()) return;
  const std::string folder =
      d.tree + "/class/infiniband/" + d.attach.name + "/device/net/" + d.netdev;
  struct stat st;
  if (::lstat(folder.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) return;
  (void)write_file(folder + "/address", text_of(mac));
}

}  // namespace kilim::vhca::entry::interface_files
