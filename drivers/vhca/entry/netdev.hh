// SPDX-License-Identifier: BSD-3-Clause
// The network interfaces that the launcher made for ports (--pci): the kernel's get the port's
// address when the device is opened; where the kernel gave none, netdevice(7)'s calls on their
// names are answered here. No frame passes them. Any thread; other names meet no lock.
#pragma once

#include <optional>

#include "vhca/entry/config.hh"

namespace kilim::vhca::hca {
struct Hca;
}  // namespace kilim::vhca::hca

namespace kilim::vhca::entry {

namespace netdev {

// The device is open: an interface that the launcher made has the port's address from now on, since
// a wire may give it another one than its name and seed do; and the port counts what an interface
// tells.
void use(const DeviceConfig&, hca::Hca&) noexcept;

// The number of an interface that is answered here: far above the kernel's, which counts from 1.
constexpr unsigned answered_index(const DeviceConfig& config) noexcept {
  return 0x6b000000 + config.number;
}

// Requests of netdevice(7).
bool is_about_interfaces(unsigned long request) noexcept;

// Nothing: it is not about an interface that is answered here. A negative errno is an error.
std::optional<int> ioctl(unsigned long request, void* argument) noexcept;
// The kernel has done such a request of the program's. Where the interface is its own, and the
// launcher made it for a port, the port has the same MTU from now on, as a card's driver gives its
// port that (Linux en_main.c, mlx5e_change_mtu()).
void changed_by_kernel(unsigned long request, const void* argument) noexcept;
std::optional<unsigned> index_of(const char* name) noexcept;
// Writes IF_NAMESIZE bytes.
bool name_of(unsigned index, char* name) noexcept;

}  // namespace netdev

}  // namespace kilim::vhca::entry
