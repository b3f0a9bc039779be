// SPDX-License-Identifier: BSD-3-Clause
// The calls that DPDK's driver makes (22.11, drivers/net/mlx5/linux/mlx5_ethdev_os.c,
// mlx5_get_mac(), mlx5_get_mtu(), mlx5_set_flags(), mlx5_link_update()).
#include "vhca/entry/netdev.hh"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "kilim/detail/base/fd.hh"
#include "vhca/core/lock.hh"
#include "vhca/entry/device_list.hh"
#include "vhca/entry/ethtool.hh"
#include "vhca/entry/interface_files.hh"
#include "vhca/entry/raw.hh"
#include "vhca/hca/ports.hh"
#include "vhca/memory/dma.hh"
#include "vhca/memory/dma_guard.hh"

namespace kilim::vhca::entry::netdev {

namespace {

constexpr int least_mtu = 68, most_mtu = 65535, first_mtu = 1500;

// What the program has set; of a device by its place in the list.
struct Interface {
  std::atomic<int> mtu{0};  // 0: it is what a new interface has, and the port takes longer frames
  std::atomic<short> flags{IFF_UP | IFF_BROADCAST | IFF_RUNNING | IFF_MULTICAST};
};
constexpr std::size_t most = 64;  // the launcher makes 32
Interface interfaces[most];

Va va_of(const void* p) noexcept {
  return Va{reinterpret_cast<uint64_t>(p)};
}

bool any_answered() noexcept {
  for (std::size_t i = 0; i < device_list::count(); i++) {
    if (device_list::at(i)->config().netdev_answered) return true;
  }
  return false;
}

std::optional<std::size_t> place_of(std::string_view name) noexcept {
  for (std::size_t i = 0; i < std::min(device_list::count(), most); i++) {
    const DeviceConfig& c = device_list::at(i)->config();
    if (c.netdev_answered && !c.netdev.empty() && c.netdev == name) return i;
  }
  return std::nullopt;
}

// Of an interface that the launcher made, answered here or the kernel's.
std::optional<std::size_t> place_of_made(std::string_view name) noexcept {
  for (std::size_t i = 0; i < std::min(device_list::count(), most); i++) {
    const DeviceConfig& c = device_list::at(i)->config();
    if (!c.netdev.empty() && c.netdev == name) return i;
  }
  return std::nullopt;
}

// What the program has set so far; 0: nothing.
uint32_t mtu_of(const DeviceConfig& config) noexcept {
  const auto place = place_of_made(config.netdev);
  return place ? static_cast<uint32_t>(interfaces[*place].mtu.load()) : 0;
}

Mac mac_at(std::size_t place) noexcept {
  Device& device = *device_list::at(place);
  Instance* live = device.live();
  if (live == nullptr) return mac_of(device.config().attach);
  const LockGuard guard(live->hca().lock);
  const Result<PortAttr> port = hca::query_port(live->hca(), 1);
  return port ? port->mac : mac_of(device.config().attach);
}

// Of a device's interface, and of the port behind it.
void keep_mtu(std::size_t place, int mtu) noexcept {
  interfaces[place].mtu = mtu;
  Instance* const live = device_list::at(place)->live();
  if (live == nullptr) return;  // use() tells the port
  const LockGuard guard(live->hca().lock);
  hca::set_mtu(live->hca(), 1, static_cast<uint32_t>(mtu));
}

int change_mtu(std::size_t place, int mtu) noexcept {
  if (mtu < least_mtu || mtu > most_mtu) return -EINVAL;
  keep_mtu(place, mtu);
  return 0;
}

int link_settings(void* data) noexcept {
  ethtool_cmd command{};
  if (!memory::dma::copy_in(&command, va_of(data), sizeof command.cmd)) return -EFAULT;
  if (command.cmd != ETHTOOL_GSET) return -EOPNOTSUPP;
  command.duplex = DUPLEX_FULL;
  command.port = PORT_FIBRE;
  ::ethtool_cmd_speed_set(&command, SPEED_100000);
  return memory::dma::copy_out(va_of(data), &command, sizeof command) ? 0 : -EFAULT;
}

int answer(std::size_t place, unsigned long request, ifreq& r) noexcept {
  Interface& i = interfaces[place];
  switch (request) {
    case SIOCGIFINDEX:
      r.ifr_ifindex = static_cast<int>(answered_index(device_list::at(place)->config()));
      return 0;
    case SIOCGIFHWADDR: {
      const Mac mac = mac_at(place);
      r.ifr_hwaddr.sa_family = ARPHRD_ETHER;
      std::memcpy(r.ifr_hwaddr.sa_data, mac.data(), mac.size());
      return 0;
    }
    case SIOCGIFMTU:
      r.ifr_mtu = i.mtu != 0 ? i.mtu.load() : first_mtu;
      return 0;
    case SIOCSIFMTU:
      return change_mtu(place, r.ifr_mtu);
    case SIOCGIFFLAGS:
      r.ifr_flags = i.flags;
      return 0;
    case SIOCSIFFLAGS: {
      const auto kept = static_cast<short>(r.ifr_flags & ~IFF_RUNNING);
      i.flags = static_cast<short>((kept & IFF_UP) != 0 ? kept | IFF_RUNNING : kept);
      return 0;
    }
    case SIOCETHTOOL:
      return link_settings(r.ifr_data);
    default:
      return -EOPNOTSUPP;
  }
}

}  // namespace

void use(const DeviceConfig& config, hca::Hca& hca) noexcept {
  if (interface_files::name_of(config).empty()) return;
  Mac mac{};
  {
    const LockGuard guard(hca.lock);
    hca::count_casts(hca);
    if (config.attach.netdev.empty())
      hca::set_mtu(hca, 1, mtu_of(config));  // else it follows by itself
    const Result<PortAttr> port = hca::query_port(hca, 1);
    if (!port) return;
    mac = port->mac;
  }
  interface_files::set_address(config, mac);
  if (config.netdev.empty() || config.netdev_answered) return;
  const Fd socket(raw::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  config.netdev.copy(request.ifr_name, IFNAMSIZ - 1);
  if (!socket || raw::ioctl(socket.get(), SIOCGIFHWADDR, &request) != 0) return;
  if (std::memcmp(request.ifr_hwaddr.sa_data, mac.data(), mac.size()) == 0) return;
  std::memcpy(request.ifr_hwaddr.sa_data, mac.data(), mac.size());
  (void)raw::ioctl(socket.get(), SIOCSIFHWADDR, &request);
}

// They lie between these (linux/sockios.h).
bool is_about_interfaces(unsigned long request) noexcept {
  return request >= SIOCGIFNAME && request <= SIOCETHTOOL;
}

std::optional<int> ioctl(unsigned long request, void* argument) noexcept {
  const bool statistics = request == SIOCETHTOOL && device_list::count() != 0;
  if (!is_about_interfaces(request) || (!statistics && !any_answered())) return std::nullopt;
  if (!memory::dma::install()) return std::nullopt;  // perhaps no device is open yet
  ifreq r{};
  if (!memory::dma::copy_in(&r, va_of(argument), sizeof r)) return std::nullopt;
  if (request == SIOCGIFNAME) {
    if (!name_of(static_cast<unsigned>(r.ifr_ifindex), r.ifr_name)) return std::nullopt;
    return memory::dma::copy_out(va_of(argument), &r, sizeof r) ? 0 : -EFAULT;
  }
  r.ifr_name[IFNAMSIZ - 1] = '\0';
  if (statistics) {
    if (const auto told = ethtool::answer(r.ifr_name, r.ifr_data)) return told;
  }
  const auto place = place_of(r.ifr_name);
  if (!place) return std::nullopt;
  const int result = answer(*place, request, r);
  if (result != 0) return result;
  return memory::dma::copy_out(va_of(argument), &r, sizeof r) ? 0 : -EFAULT;
}

void changed_by_kernel(unsigned long request, const void* argument) noexcept {
  ifreq r{};
  if (request != SIOCSIFMTU || device_list::count() == 0 || !memory::dma::install() ||
      !memory::dma::copy_in(&r, va_of(argument), sizeof r))
    return;
  r.ifr_name[IFNAMSIZ - 1] = '\0';
  if (const auto place = place_of_made(r.ifr_name)) keep_mtu(*place, r.ifr_mtu);
}

std::optional<unsigned> index_of(const char* name) noexcept {
  const auto place = place_of(name);
  if (!place) return std::nullopt;
  return answered_index(device_list::at(*place)->config());
}

bool name_of(unsigned index, char* name) noexcept {
  for (std::size_t i = 0; i < std::min(device_list::count(), most); i++) {
    const DeviceConfig& c = device_list::at(i)->config();
    if (!c.netdev_answered || c.netdev.empty() || answered_index(c) != index) continue;
    std::memset(name, 0, IF_NAMESIZE);
    c.netdev.copy(name, IF_NAMESIZE - 1);
    return true;
  }
  return false;
}

}  // namespace kilim::vhca::entry::netdev
