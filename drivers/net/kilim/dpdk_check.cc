// SPDX-License-Identifier: BSD-3-Clause
#include "net/kilim/dpdk_check.hh"

#include <cstdio>

#include <dlfcn.h>
#include <link.h>
#include <rte_version.h>

#include "net/kilim/ethdev_abi.hh"

namespace kilim::net {
namespace {

// The length that the dynamic linker knows of librte_ethdev's table; 0 in a static program.
std::size_t bytes_of_ports() noexcept {
  Dl_info info;
  void* symbol = nullptr;
  if (dladdr1(rte_eth_devices, &info, &symbol, RTLD_DL_SYMENT) == 0 || symbol == nullptr) return 0;
  return static_cast<const ElfW(Sym)*>(symbol)->st_size;
}

}  // namespace

std::string why_not_on(const char* version, std::size_t bytes) {
  unsigned year = 0, month = 0;
  const bool told = std::sscanf(version, "%*s %2u.%2u", &year, &month) == 2;
  const bool same = told && dpdk_row_of(year, month) == built_row;
  if (same && (bytes == 0 || bytes == sizeof(rte_eth_dev) * RTE_MAX_ETHPORTS)) return {};
  char text[200];
  (void)std::snprintf(
      text, sizeof text,
      "this driver was built for the driver interface of DPDK %u.%02u, and %s runs%s: "
      "build Kilim again with the DPDK that the program runs with",
      built_for.year, built_for.month, version, same ? ", whose ports have another length" : "");
  return text;
}

std::string why_not_here() {
  return why_not_on(rte_version(), bytes_of_ports());
}

}  // namespace kilim::net
