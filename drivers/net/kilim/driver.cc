// SPDX-License-Identifier: BSD-3-Clause
// The EAL driver net_kilim: parses the devargs of each --vdev net_kilimN, opens the device, makes
// the native port, owns it and enters it among the process's ports. EAL calls it on the main lcore.
// This file has the only constructor function, because DPDK requires it of a driver; it offers the
// telemetry commands too.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rte_eal.h>
#include <rte_log.h>

#include "kilim/detail/port/registry.hh"
#include "kilim/detail/telemetry/endpoints.hh"
#include "net/kilim/devargs.hh"
#include "net/kilim/dpdk_abi.hh"
#include "net/kilim/dpdk_check.hh"
#include "net/kilim/ethdev.hh"
#include "net/kilim/native.hh"

namespace kilim::net {
namespace {

constexpr const char* driver_name = "net_kilim";
constexpr const char* log_name = "pmd.net.kilim";

int log_type_number = RTE_LOGTYPE_USER1;

struct Probed {
  std::string hca;
  std::unique_ptr<port::Port> port;
  std::unique_ptr<Ethdev> ethdev;  // goes before the port, with its queues
};

// Never destroyed, as EAL's clean-up may come after static destructors.
std::vector<Probed>& ports() {
  static auto* list = new std::vector<Probed>;
  return *list;
}

// Logs why the device `name` is not made; returns the negative errno that EAL expects. -EEXIST it
// would take for a device that is plugged in already, and well (DPDK lib/eal/common/
// eal_common_dev.c, rte_dev_probe()).
int refuse(const char* name, const Error& e, const char* about) {
  rte_log(RTE_LOG_ERR, log_type(), "%s: %s%s: %s\n", name, about, e.what, std::strerror(e.code));
  return e.code == EEXIST ? -EBUSY : -e.code;
}

// net_kilim3 without hca= means vhca3.
std::string default_hca(const char* name) {
  const char* digits = name + std::strlen(driver_name);
  return std::string("vhca") + (*digits == '\0' ? "0" : digits);
}

int probe(rte_vdev_device* vdev) {
  const char* name = vdev->device.name;
  const char* text = vdev->device.devargs == nullptr ? "" : vdev->device.devargs->args;
  if (const std::string why = why_not_here(); !why.empty()) {
    rte_log(RTE_LOG_ERR, log_type(), "%s: %s\n", name, why.c_str());
    return -ENOTSUP;
  }
  if (rte_eal_process_type() != RTE_PROC_PRIMARY) {
    if (attach_secondary(*vdev) == 0) return 0;
    return refuse(name, {ENODEV, "the primary process has no such Kilim port"}, "");
  }
  auto parsed = parse_devargs(text);
  if (const auto* error = std::get_if<DevargsError>(&parsed)) {
    rte_log(RTE_LOG_ERR, log_type(), "%s: %s\n", name, error->why.c_str());
    return -EINVAL;
  }
  Devargs& args = std::get<Devargs>(parsed);
  if (args.hca.name.empty()) args.hca.name = default_hca(name);
  auto attachment = attach::resolve(args.hca);
  const std::string wire = args.hca.wires.empty() ? "" : ", wire=" + args.hca.wires.front();
  const std::string about = "hca=" + args.hca.name + wire + ": ";
  if (!attachment) return refuse(name, attachment.error(), about.c_str());
  port::PortParts parts;
  parts.name = name;
  parts.device = std::move(attachment->device);
  parts.poller = attachment->poller;
  parts.number = static_cast<uint8_t>(args.port);
  parts.defaults = {args.rxq, args.txq, args.rxd, args.txd};
  parts.limit_frames = attach::set_mtu;
  parts.relaxed_ordering = args.relaxed_ordering != 0;
  auto made = port::Port::create(std::move(parts));
  if (!made) return refuse(name, made.error(), about.c_str());
  auto ethdev = std::make_unique<Ethdev>(**made, args);
  if (Status s = ethdev->enter(*vdev); !s) return refuse(name, s.error(), about.c_str());
  port::enter(**made);
  ports().push_back({args.hca.name, *std::move(made), std::move(ethdev)});
  return 0;
}

int remove(rte_vdev_device* vdev) {
  if (rte_eal_process_type() != RTE_PROC_PRIMARY) {
    rte_eth_dev* const dev = rte_eth_dev_allocated(vdev->device.name);
    return dev == nullptr ? 0 : rte_eth_dev_release_port(dev);
  }
  auto& list = ports();
  for (auto at = list.begin(); at != list.end(); ++at) {
    if (at->port->name() != vdev->device.name) continue;
    port::leave(*at->port);
    // Taken out first: erase() would assign the next one member by member, the port before its
    // ethdev.
    std::optional<Probed> gone = std::move(*at);
    list.erase(at);
    const std::string hca = gone->hca;
    gone.reset();
    attach::give_back(hca);
    return 0;
  }
  return -ENODEV;
}

Ethdev* probed_ethdev(rte_vdev_device* vdev) {
  for (const Probed& p : ports())
    if (p.port->name() == vdev->device.name) return p.ethdev.get();
  return nullptr;
}

// rte_dev_dma_map(): memory of the application, such as rte_extmem_register() made known to EAL.
int map_memory(rte_vdev_device* vdev, void* address, uint64_t, std::size_t bytes) {
  Ethdev* const e = probed_ethdev(vdev);
  if (e == nullptr) return -ENODEV;
  const Status s = e->memory().add_range({static_cast<std::byte*>(address), bytes});
  return s ? 0 : -s.error().code;
}
int unmap_memory(rte_vdev_device* vdev, void* address, uint64_t, std::size_t bytes) {
  Ethdev* const e = probed_ethdev(vdev);
  if (e == nullptr) return -ENODEV;
  const Status s = e->memory().remove_range({static_cast<std::byte*>(address), bytes});
  return s ? 0 : -s.error().code;
}

rte_vdev_driver driver{};

// True: the process has this driver already. That happens if the driver is linked into the program,
// and EAL then loads the plugin, which brings the same driver in libkilim.so. Only the first one is
// registered, so that the program's own rte_pmd_kilim_*() functions find the ports. The driver's
// log type tells, since the layout of a bus, which could be asked, changes with DPDK's releases.
bool is_there_already() {
  char* names = nullptr;
  std::size_t bytes = 0;
  FILE* const list = open_memstream(&names, &bytes);
  if (list == nullptr) return false;
  rte_log_list_types(list, "");
  (void)std::fclose(list);
  const bool found = names != nullptr && std::strstr(names, log_name) != nullptr;
  std::free(names);
  return found;
}

[[gnu::constructor]] void register_driver() {
  if (is_there_already()) return;
  log_type_number = rte_log_register_type_and_pick_level(log_name, RTE_LOG_NOTICE);
  if (log_type_number < 0) log_type_number = RTE_LOGTYPE_USER1;
  driver.driver.name = driver_name;
  driver.probe = probe;
  driver.remove = remove;
  driver.dma_map = map_memory;
  driver.dma_unmap = unmap_memory;
  rte_vdev_register(&driver);
  telemetry::offer();
}

kilim_port* handle_of(port::Port* p) {
  return reinterpret_cast<kilim_port*>(p);
}

}  // namespace

uint32_t log_type() noexcept {
  return static_cast<uint32_t>(log_type_number);
}

}  // namespace kilim::net

extern "C" {

unsigned int rte_pmd_kilim_count(void) {
  return static_cast<unsigned>(kilim::port::port_count());
}

kilim_port* rte_pmd_kilim_port_at(unsigned int index) {
  return kilim::net::handle_of(kilim::port::port_at(index));
}

kilim_port* rte_pmd_kilim_port_of(uint16_t port_id) {
  char name[RTE_ETH_NAME_MAX_LEN];
  return rte_eth_dev_get_name_by_port(port_id, name) == 0 ? rte_pmd_kilim_port(name) : nullptr;
}

kilim_port* rte_pmd_kilim_port(const char* name) {
  return name == nullptr ? nullptr : kilim::net::handle_of(kilim::port::port_named(name));
}

const char* rte_pmd_kilim_devargs(void) {
  return kilim::net::devargs_help();
}

}  // extern "C"
