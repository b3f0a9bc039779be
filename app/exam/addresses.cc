// SPDX-License-Identifier: BSD-3-Clause
#include "addresses.hh"

#include <cstring>

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace kilim::exam {

std::optional<Mac> mac_of_interface(uint32_t ifindex) {
  ifreq r{};
  if (::if_indextoname(ifindex, r.ifr_name) == nullptr) return std::nullopt;
  const int s = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (s < 0) return std::nullopt;
  const bool known = ::ioctl(s, SIOCGIFHWADDR, &r) == 0;
  ::close(s);
  if (!known) return std::nullopt;
  Mac mac{};
  std::memcpy(mac.data(), r.ifr_hwaddr.sa_data, mac.size());
  return mac;
}

// RFC 4291, appendix A; nothing in an identifier that is not made so.
std::optional<Mac> mac_of_gid(const ibv_gid& gid) {
  const uint8_t* id = gid.raw + 8;
  if (id[3] != 0xff || id[4] != 0xfe) return std::nullopt;
  return Mac{static_cast<uint8_t>(id[0] ^ 2), id[1], id[2], id[5], id[6], id[7]};
}

Mac port_mac(const Device& device) {
  for (uint32_t i = 0; i < static_cast<uint32_t>(device.port.gid_tbl_len); i++) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(device.context, 1, i, &entry, 0) != 0) continue;
    if (const auto mac = mac_of_interface(entry.ndev_ifindex)) return *mac;
    if (const auto mac = mac_of_gid(entry.gid)) return *mac;
  }
  device.answer->not_run("the port's MAC address is not found: it has no GID that names one");
}

}  // namespace kilim::exam
