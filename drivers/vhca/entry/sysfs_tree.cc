// SPDX-License-Identifier: BSD-3-Clause
// Makes, fills and removes the folder. A write that fails fails the whole: a half device would be
// an unexplained absence.

#include "vhca/entry/sysfs_tree.hh"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "vhca/entry/identity.hh"
#include "vhca/entry/interface_files.hh"
#include "vhca/entry/odp_files.hh"
#include "vhca/entry/port_files.hh"
#include "vhca/entry/raw.hh"
#include "vhca/entry/tree_folders.hh"

namespace kilim::vhca::entry {
namespace {

constexpr const char* classes[] = {"infiniband_verbs", "infiniband"};

struct File {
  const char* path;
  std::string text;
};

bool write_files(const std::string& folder, std::initializer_list<File> files) {
  for (const File& file : files) {
    const std::string path = folder + "/" + file.path;
    if (!make_folders(path.substr(0, path.rfind('/'))) || !write_file(path, file.text)) {
      return false;
    }
  }
  return true;
}

template <typename... A>
std::string text(const char* format, A... a) {
  char buffer[128];
  std::snprintf(buffer, sizeof(buffer), format, a...);
  return buffer;
}

std::string modalias(const Profile& p) {
  return text("pci:v%08Xd%08Xsv%08Xsd00000007bc02sc00i00", unsigned{p.pci_vendor},
              unsigned{p.pci_device}, unsigned{p.pci_vendor});
}

// A function of the root complex, as in /sys/devices (Linux, Documentation/PCI/sysfs-pci.rst): an
// address that neither the machine nor another device of the tree has.
std::string free_pci_folder(const std::string& root, uint32_t number) {
  constexpr uint32_t first_bus = 0x81, buses = 0x100 - first_bus;
  for (;; number++) {
    const uint32_t domain = number / buses;
    const std::string address = text("%04x:%02x:00.0", domain, first_bus + number % buses);
    std::string folder = root + text("/devices/pci%04x:00/", domain);
    folder += address;
    if (::access(("/sys/bus/pci/devices/" + address).c_str(), F_OK) != 0 &&
        ::access(folder.c_str(), F_OK) != 0)
      return folder;
  }
}

// Where whoever looks for PCI functions finds it (DPDK 22.11, lib/pci and
// drivers/bus/pci/linux/pci.c, pci_scan_one(): links to folders by address).
bool link_to_bus(const std::string& root, const std::string& folder) {
  const std::string to = root + "/bus/pci/devices/" + folder.substr(folder.rfind('/') + 1);
  return ::symlink(folder.c_str(), to.c_str()) == 0;
}

bool write_pci_folder(const std::string& folder, const DeviceConfig& d, const Profile& p) {
  const std::string address = folder.substr(folder.rfind('/') + 1);
  // No BAR can be mapped: seven regions of nothing (Linux, pci-sysfs.c, resource_show()).
  constexpr const char* nothing = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
  std::string regions;
  for (int i = 0; i < 7; i++) regions += nothing;
  const bool written =
      write_files(folder, {{"modalias", modalias(p)},
                           {"uevent", "DRIVER=mlx5_core\nPCI_SLOT_NAME=" + address},
                           {"vendor", text("0x%04x", unsigned{p.pci_vendor})},
                           {"device", text("0x%04x", unsigned{p.pci_device})},
                           {"subsystem_vendor", text("0x%04x", unsigned{p.pci_vendor})},
                           {"subsystem_device", "0x0007"},
                           {"class", "0x020000"},
                           {"current_link_speed", "16.0 GT/s PCIe"},
                           {"current_link_width", "16"},
                           {"resource", regions},
                           {"numa_node", "-1"}});
  return written &&
         ::symlink("../../../bus/pci/drivers/mlx5_core", (folder + "/driver").c_str()) == 0 &&
         interface_files::write(folder, d);
}

bool write_device_folder(const std::string& folder, const Profile& p) {
  const bool ib = p.lid != 0;
  return write_files(folder, {{"node_type", "1: CA"},
                              {"node_desc", "kilim virtual HCA"},
                              {"board_id", p.board_id},
                              {"fw_ver", p.fw_ver},
                              {"hw_rev", text("%x", p.hw_ver)},
                              {"hca_type", text("MT%u", unsigned{p.pci_device})},
                              {"ports/1/state", "4: ACTIVE"},
                              {"ports/1/phys_state", "5: LinkUp"},
                              {"ports/1/link_layer", ib ? "InfiniBand" : "Ethernet"},
                              {"ports/1/rate", "100 Gb/sec (4X EDR)"},
                              {"ports/1/lid", text("0x%x", unsigned{p.lid})},
                              {"ports/1/lid_mask_count", "0"},
                              {"ports/1/sm_lid", text("0x%x", unsigned{p.lid})},
                              {"ports/1/sm_sl", "0"},
                              {"ports/1/cap_mask", ib ? "0x00010000" : "0x04010000"},
                              {"ports/1/pkeys/0", "0xffff"},
                              {"ports/1/gid_attrs/types/0", ib ? "IB/RoCE v1" : "RoCE v2"}});
}

// Behind the first entry of the GID table.
bool write_gid_types(const std::string& folder, const DeviceConfig& d) {
  const std::size_t count = identity_of(d.attach).gids.size();
  for (std::size_t i = 1; i < count; i++) {
    const std::string path = "ports/1/gid_attrs/types/" + std::to_string(i);
    if (!write_files(folder, {{path.c_str(), "RoCE v2"}})) return false;
  }
  return true;
}

// The interface of each GID (Linux, drivers/infiniband/core/sysfs.c, show_port_gid_attr_ndev):
// there is no such file where there is no interface, and reading it fails on a card.
bool write_interfaces(const std::string& folder, const DeviceConfig& d) {
  const std::string interface = interface_files::name_of(d);
  if (interface.empty()) return true;
  const std::size_t count = identity_of(d.attach).gids.size();
  for (std::size_t i = 0; i < count; i++) {
    const std::string path = "ports/1/gid_attrs/ndevs/" + std::to_string(i);
    if (!write_files(folder, {{path.c_str(), interface}})) return false;
  }
  return true;
}

// An object of a class: a folder of the PCI function, to which the class has a link.
bool link_to_class(const std::string& folder, const std::string& in_class) {
  const std::string function = folder.substr(0, folder.rfind('/', folder.rfind('/') - 1));
  const std::string address = function.substr(function.rfind('/') + 1);
  return ::symlink(("../../../" + address).c_str(), (folder + "/device").c_str()) == 0 &&
         ::symlink(folder.c_str(), in_class.c_str()) == 0;
}

}  // namespace

Result<SysfsTree> SysfsTree::make() {
  const std::string base = base_folder();
  sweep(base);
  for (int attempt = 0; attempt < 8; attempt++) {
    std::string path = base + "/" + tree_prefix + "XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
      return Error{errno, "cannot make a folder for the device list in XDG_RUNTIME_DIR or /tmp"};
    }
    Fd lock(::open((path + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    struct stat st;
    // Between open and flock another process may have taken the folder for a leftover: it may even
    // stop while it removes it.
    if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 || ::fstat(lock.get(), &st) != 0 ||
        st.st_nlink == 0) {
      continue;
    }
    SysfsTree tree(std::move(path), std::move(lock));
    Status linked = tree.link_real_devices();
    if (linked.ok()) return tree;
    tree.erase();
    return linked.error();
  }
  return Error{EAGAIN, "cannot keep a folder for the device list"};
}

// By their real paths: the class folders themselves may be covered by ours (launcher, --sysfs
// mount).
Status SysfsTree::link_real_devices() {
  for (const char* name : classes) {
    const std::string real = std::string("/sys/class/") + name;
    const std::string ours = path_ + "/class/" + name;
    if (!make_folders(ours)) return Error{errno, "cannot write the device list"};
    DIR* dir = ::opendir(real.c_str());
    while (const dirent* entry = dir == nullptr ? nullptr : ::readdir(dir)) {
      if (entry->d_name[0] == '.' || std::strcmp(entry->d_name, "abi_version") == 0) continue;
      char target[PATH_MAX];
      if (::realpath((real + "/" + entry->d_name).c_str(), target) == nullptr) continue;
      if (::symlink(target, (ours + "/" + entry->d_name).c_str()) != 0) continue;
      uint32_t number = 0;
      if (std::sscanf(entry->d_name, "uverbs%" SCNu32, &number) == 1 && number >= first_free_) {
        first_free_ = number + 1;
      }
    }
    if (dir != nullptr) ::closedir(dir);
  }
  const dev_t cm = rdma_cm_rdev();
  if (!write_file(path_ + "/class/infiniband_verbs/abi_version", "6") ||
      !make_folders(path_ + "/bus/pci/drivers/mlx5_core") ||
      !write_files(path_ + "/class/misc/rdma_cm",
                   {{"abi_version", "4"}, {"dev", text("%u:%u", major(cm), minor(cm))}})) {
    return Error{errno, "cannot write the device list"};
  }
  return link_real_functions();
}

// Of the PCI bus, as of the classes.
Status SysfsTree::link_real_functions() {
  const std::string real = "/sys/bus/pci/devices", ours = path_ + real.substr(4);
  if (!make_folders(ours)) return Error{errno, "cannot write the device list"};
  DIR* dir = ::opendir(real.c_str());
  while (const dirent* entry = dir == nullptr ? nullptr : ::readdir(dir)) {
    char target[PATH_MAX];
    if (entry->d_name[0] == '.' ||
        ::realpath((real + "/" + entry->d_name).c_str(), target) == nullptr)
      continue;
    (void)!::symlink(target, (ours + "/" + entry->d_name).c_str());
  }
  if (dir != nullptr) ::closedir(dir);
  return Done{};
}

// Links of a class are absolute: with --sysfs mount the class folder is seen in another place.
Status SysfsTree::add(const DeviceConfig& device, const Profile& profile) {
  const std::string uverbs = "uverbs" + std::to_string(device.number);
  const std::string verbs_class = path_ + "/class/infiniband_verbs/" + uverbs;
  const std::string device_class = path_ + "/class/infiniband/" + device.attach.name;
  const dev_t rdev = device.rdev();
  struct stat st;
  if (::lstat(device_class.c_str(), &st) == 0) {
    return Error{EEXIST, "a device of this name is there already"};
  }
  const std::string pci = free_pci_folder(path_, device.number);
  const std::string folder = pci + "/infiniband/" + device.attach.name;
  const std::string verbs_folder = pci + "/infiniband_verbs/" + uverbs;
  const bool written =
      write_pci_folder(pci, device, profile) && link_to_bus(path_, pci) &&
      write_device_folder(folder, profile) && write_identity(folder, identity_of(device.attach)) &&
      write_gid_types(folder, device) && write_interfaces(folder, device) &&
      link_to_class(folder, device_class) &&
      write_files(verbs_folder, {{"ibdev", device.attach.name},
                                 {"abi_version", "1"},
                                 {"dev", text("%u:%u", major(rdev), minor(rdev))}}) &&
      link_to_class(verbs_folder, verbs_class) && odp_files::write(mapped_, path_, device) &&
      port_files::write(mapped_, path_, device);
  if (!written) {
    const Error error{errno, "cannot write the device list"};
    remove(device);
    remove_all(pci);
    return error;
  }
  return Done{};
}

void SysfsTree::remove(const DeviceConfig& device) noexcept {
  const std::string device_class = path_ + "/class/infiniband/" + device.attach.name;
  odp_files::remove(mapped_, path_, device);
  port_files::remove(mapped_, path_, device);
  char pci[PATH_MAX];
  const bool found = ::realpath((device_class + "/device").c_str(), pci) != nullptr;
  ::unlink((path_ + "/class/infiniband_verbs/uverbs" + std::to_string(device.number)).c_str());
  ::unlink(device_class.c_str());
  if (!found) return;
  ::unlink((path_ + "/bus/pci/devices" + std::strrchr(pci, '/')).c_str());
  remove_all(pci);
}

void SysfsTree::used_by(pid_t program) noexcept {
  char text[64];
  const int n = std::snprintf(text, sizeof(text), "%d %llu\n", program, start_of(program));
  (void)!::pwrite(lock_.get(), text, static_cast<std::size_t>(n), 0);
}

void SysfsTree::erase() noexcept {
  remove_all(path_);
  lock_.reset();
}

}  // namespace kilim::vhca::entry
