// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/port_interface.hh"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include <dirent.h>
#include <sys/stat.h>

#include "mlx5/firmware.hh"

namespace kilim::mlx5 {
namespace {

// The first word of a file, of at most 31 bytes; empty: there is none.
std::string read_word(const std::string& path) {
  char word[32] = "";
  if (std::FILE* f = std::fopen(path.c_str(), "re")) {
    if (std::fscanf(f, "%31s", word) != 1) word[0] = 0;
    (void)std::fclose(f);
  }
  return word;
}

bool is_folder(const std::string& path) {
  struct stat st;
  return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

// The only interface of the PCI function, or the only one that says to be of this port (Linux
// Documentation/ABI/testing/sysfs-class-net, dev_port, counted from 0; DPDK 22.11
// drivers/net/mlx5/linux/mlx5_ethdev_os.c, mlx5_get_ifname_sysfs()).
std::string interface_of_function(const std::string& function, uint8_t port) {
  const std::string all = function + "/net";
  const std::unique_ptr<DIR, int (*)(DIR*)> list{::opendir(all.c_str()), ::closedir};
  std::string only, of_port;
  unsigned here = 0, said = 0;
  for (const dirent* e; list != nullptr && (e = ::readdir(list.get())) != nullptr;) {
    if (e->d_name[0] == '.') continue;
    const std::string folder = all + "/" + e->d_name;
    only = folder;
    here++;
    if (read_word(folder + "/dev_port") != std::to_string(port - 1)) continue;
    of_port = folder;
    said++;
  }
  if (said == 1) return of_port;
  return here == 1 && said == 0 ? only : "";
}

// The MAC in a default GID: its low eight bytes are the MAC as a modified EUI-64 (RFC 4291,
// appendix A), that is with ff:fe in the middle and bit 1 of the first byte inverted.
std::optional<device::MacAddress> mac_of(const ibv_gid& gid) {
  const uint8_t* r = gid.raw;
  if (r[11] != 0xff || r[12] != 0xfe) return {};
  return device::MacAddress{static_cast<uint8_t>(r[8] ^ 2), r[9], r[10], r[13], r[14], r[15]};
}

std::optional<device::MacAddress> parse_mac(const std::string& text) {
  unsigned b[6];
  if (std::sscanf(text.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x", &b[0], &b[1], &b[2], &b[3], &b[4],
                  &b[5]) != 6)
    return {};
  device::MacAddress mac{};
  for (std::size_t i = 0; i < mac.size(); i++) mac[i] = static_cast<uint8_t>(b[i]);
  return mac;
}

}  // namespace

// The interface of the first GID (Linux drivers/infiniband/core/sysfs.c, show_port_gid_attr_ndev())
// comes first: with a bond it is the bond, which is none of the PCI function's.
std::string interface_folder(const std::string& sysfs, const std::string& device, uint8_t port) {
  const std::string folder = sysfs + "/class/infiniband/" + device;
  const std::string name =
      read_word(folder + "/ports/" + std::to_string(port) + "/gid_attrs/ndevs/0");
  if (name.empty()) return interface_of_function(folder + "/device", port);
  const std::string below = folder + "/device/net/" + name;
  return is_folder(below) ? below : sysfs + "/class/net/" + name;
}

uint32_t read_frame_mtu(const std::string& interface_folder) {
  if (interface_folder.empty()) return 0;
  return static_cast<uint32_t>(
      std::strtoul(read_word(interface_folder + "/mtu").c_str(), nullptr, 10));
}

device::MacAddress read_port_mac(ibv_context* context, uint8_t port,
                                 const std::string& interface_folder) {
  ibv_gid gid{};
  if (ibv_query_gid(context, port, 0, &gid) == 0)
    if (const auto mac = mac_of(gid)) return *mac;
  if (!interface_folder.empty())
    if (const auto mac = parse_mac(read_word(interface_folder + "/address"))) return *mac;
  return port == 1 ? query_vport_mac(context) : device::MacAddress{};
}

}  // namespace kilim::mlx5
