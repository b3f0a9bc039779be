// SPDX-License-Identifier: BSD-3-Clause
// What each command returns: Linux, net/ethtool/ioctl.c. The names, and what each counts: Linux,
// Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst; DPDK looks for those
// of drivers/net/mlx5/linux/mlx5_ethdev_os.c, mlx5_counters_init. Counters of groups that a port
// without a PCI bus and without buffers of its own has not (outbound_pci_*, rx_prio*_discard) are
// left out, as they are for a card that lacks the group (en_stats.c).
#include "vhca/entry/ethtool.hh"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include <linux/ethtool.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "vhca/core/lock.hh"
#include "vhca/entry/device_list.hh"
#include "vhca/entry/interface_files.hh"
#include "vhca/hca/ports.hh"
#include "vhca/memory/dma.hh"

namespace kilim::vhca::entry::ethtool {

namespace {

using Counters = hca::InterfaceCounters;

struct Statistic {
  const char* name;
  uint64_t (*value)(const Counters&);
};

// A card's port counts its frames' check sequences too: "including Ethernet header and FCS"
// (counters.rst, rx_bytes_phy). No wire carries them here.
constexpr uint64_t fcs_bytes = 4;

uint64_t none(const Counters&) {
  return 0;
}

constexpr Statistic statistics[] = {
    {"rx_vport_unicast_packets", [](const Counters& c) { return c.rx.unicast.packets; }},
    {"rx_vport_unicast_bytes", [](const Counters& c) { return c.rx.unicast.bytes; }},
    {"tx_vport_unicast_packets", [](const Counters& c) { return c.tx.unicast.packets; }},
    {"tx_vport_unicast_bytes", [](const Counters& c) { return c.tx.unicast.bytes; }},
    {"rx_vport_multicast_packets", [](const Counters& c) { return c.rx.multicast.packets; }},
    {"rx_vport_multicast_bytes", [](const Counters& c) { return c.rx.multicast.bytes; }},
    {"tx_vport_multicast_packets", [](const Counters& c) { return c.tx.multicast.packets; }},
    {"tx_vport_multicast_bytes", [](const Counters& c) { return c.tx.multicast.bytes; }},
    {"rx_vport_broadcast_packets", [](const Counters& c) { return c.rx.broadcast.packets; }},
    {"rx_vport_broadcast_bytes", [](const Counters& c) { return c.rx.broadcast.bytes; }},
    {"tx_vport_broadcast_packets", [](const Counters& c) { return c.tx.broadcast.packets; }},
    {"tx_vport_broadcast_bytes", [](const Counters& c) { return c.tx.broadcast.bytes; }},
    {"rx_out_of_buffer", [](const Counters& c) { return c.port.rx_out_of_buffer; }},
    {"rx_steer_missed_packets", [](const Counters& c) { return c.port.rx_no_rule; }},
    // Of the kernel's own queues, which the interface has none of.
    {"rx_wqe_err", none},
    {"tx_packets_phy", [](const Counters& c) { return c.wire.tx_frames; }},
    {"rx_packets_phy", [](const Counters& c) { return c.wire.rx_frames; }},
    {"tx_bytes_phy",
     [](const Counters& c) { return c.wire.tx_bytes + c.wire.tx_frames * fcs_bytes; }},
    {"rx_bytes_phy",
     [](const Counters& c) { return c.wire.rx_bytes + c.wire.rx_frames * fcs_bytes; }},
    // Wires carry no check sequences and no symbols: nothing of them can be wrong.
    {"rx_crc_errors_phy", none},
    {"rx_symbol_err_phy", none},
    {"rx_in_range_len_errors_phy", [](const Counters& c) { return c.wire.rx_malformed; }},
    {"rx_oversize_pkts_phy", [](const Counters& c) { return c.port.rx_oversize; }},
    {"rx_discards_phy", [](const Counters& c) { return c.wire.rx_kernel_drops; }},
    {"tx_discards_phy", [](const Counters& c) { return c.wire.tx_lost; }},
    {"tx_errors_phy", [](const Counters& c) { return c.wire.tx_bad_length; }},
};
constexpr auto count = static_cast<uint32_t>(std::size(statistics));

// Where the program's structure lies.
struct Place {
  uint64_t at;

  template <typename T>
  [[nodiscard]] bool read(T& to) const noexcept {
    return memory::dma::copy_in(&to, Va{at}, sizeof(to));
  }
  [[nodiscard]] int write(const void* from, std::size_t bytes, std::size_t to = 0) const noexcept {
    return memory::dma::copy_out(Va{at + to}, from, bytes) ? 0 : -EFAULT;
  }
};

// The interface of the launcher's is the port's whether the device is open or not; one that is the
// machine's own is the kernel's until then.
Device* find(std::string_view interface) noexcept {
  for (std::size_t i = 0; i < device_list::count(); i++) {
    Device& device = *device_list::at(i);
    const DeviceConfig& c = device.config();
    const bool made = !c.netdev.empty() && c.netdev == interface;
    const bool wire =
        c.netdev.empty() && device.live() != nullptr && interface_files::name_of(c) == interface;
    if (!device.hidden() && (made || wire)) return &device;
  }
  return nullptr;
}

// Of the PCI function: the end of a link of the device's folder.
std::string address_of(const DeviceConfig& c) {
  char link[256];
  const std::string path = c.tree + "/class/infiniband/" + c.attach.name + "/device";
  const ssize_t n = ::readlink(path.c_str(), link, sizeof(link));
  if (n <= 0) return {};
  const std::string_view text(link, static_cast<std::size_t>(n));
  return std::string(text.substr(text.rfind('/') + 1));
}

template <std::size_t N>
void put(char (&to)[N], std::string_view text) noexcept {
  text.copy(to, N - 1);
}

int tell_driver(const Device& device, Place to) {
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  utsname kernel{};
  (void)::uname(&kernel);
  put(info.driver, "mlx5_core");
  put(info.version, kernel.release);  // ethtool_get_drvinfo(), of drivers that say none
  put(info.fw_version, device.profile().fw_ver);
  put(info.bus_info, address_of(device.config()));
  info.n_stats = count;
  return to.write(&info, sizeof(info));
}

// The lengths of those sets that are asked for and are there, in order.
int tell_lengths(Place to) noexcept {
  ethtool_sset_info info{};
  if (!to.read(info)) return -EFAULT;
  constexpr uint64_t ours = uint64_t{1} << ETH_SS_STATS;
  info.reserved = 0;
  info.sset_mask &= ours;
  if (info.sset_mask != 0) {
    if (const int rc = to.write(&count, sizeof(count), sizeof(info)); rc != 0) return rc;
  }
  return to.write(&info, sizeof(info));
}

int tell_names(Place to) {
  std::vector<char> names(std::size_t{count} * ETH_GSTRING_LEN);
  for (std::size_t i = 0; i < count; i++)
    std::strncpy(&names[i * ETH_GSTRING_LEN], statistics[i].name, ETH_GSTRING_LEN - 1);
  ethtool_gstrings head{};
  head.cmd = ETHTOOL_GSTRINGS;
  head.string_set = ETH_SS_STATS;
  head.len = count;
  if (const int rc = to.write(names.data(), names.size(), sizeof(head)); rc != 0) return rc;
  return to.write(&head, sizeof(head));
}

int tell_values(Device& device, Place to) noexcept {
  Counters counters;
  if (Instance* live = device.live(); live != nullptr) {
    const LockGuard guard(live->hca().lock);
    counters = hca::interface_counters(live->hca());
  }
  uint64_t values[count];
  std::transform(std::begin(statistics), std::end(statistics), values,
                 [&counters](const Statistic& s) { return s.value(counters); });
  ethtool_stats head{};
  head.cmd = ETHTOOL_GSTATS;
  head.n_stats = count;
  if (const int rc = to.write(values, sizeof(values), sizeof(head)); rc != 0) return rc;
  return to.write(&head, sizeof(head));
}

}  // namespace

std::optional<int> answer(std::string_view interface, void* data) noexcept {
  const Place place{reinterpret_cast<uint64_t>(data)};
  uint32_t command = 0;
  if (!place.read(command)) return std::nullopt;
  if (command != ETHTOOL_GDRVINFO && command != ETHTOOL_GSSET_INFO && command != ETHTOOL_GSTRINGS &&
      command != ETHTOOL_GSTATS)
    return std::nullopt;
  Device* device = find(interface);
  if (device == nullptr) return std::nullopt;
  switch (command) {
    case ETHTOOL_GDRVINFO:
      return tell_driver(*device, place);
    case ETHTOOL_GSSET_INFO:
      return tell_lengths(place);
    case ETHTOOL_GSTATS:
      return tell_values(*device, place);
    default: {
      ethtool_gstrings asked{};
      if (!place.read(asked)) return -EFAULT;
      return asked.string_set == ETH_SS_STATS ? tell_names(place) : -EOPNOTSUPP;
    }
  }
}

}  // namespace kilim::vhca::entry::ethtool
