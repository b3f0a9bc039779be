// SPDX-License-Identifier: BSD-3-Clause
// Socket addresses as the client passes them: IPv4, IPv6 and AF_IB. Pure values.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/socket.h>

#include "vhca/core/spec.hh"

namespace kilim::vhca::rdmacm {

// <rdma/ib.h> of the kernel; AF_IB has no name in libc.
inline constexpr sa_family_t af_ib = 27;
struct SockaddrIb {
  uint16_t family;
  uint16_t pkey;  // big-endian, as are all below
  uint32_t flowinfo;
  uint8_t address[16];
  uint64_t sid, sid_mask;
  uint64_t scope_id;
};
static_assert(sizeof(SockaddrIb) == 48);

// Bytes of an address of its family; 0: of none that is known (the kernel's rdma_addr_size()).
std::size_t address_bytes(const sockaddr_storage&) noexcept;
// Bytes of an address that fits a sockaddr_in6; 0: it does not (rdma_addr_size_in6()).
std::size_t address_bytes_in6(const sockaddr_storage&) noexcept;

// Host order. Of AF_IB the part of its service id that the mask leaves.
uint16_t port_of(const sockaddr_storage&) noexcept;
void set_port(sockaddr_storage&, uint16_t port) noexcept;
// rdma_ip2gid(): IPv4 mapped into IPv6; of AF_IB the GID.
Gid gid_of(const sockaddr_storage&) noexcept;
// An address of that family with this GID's bytes, and no port.
sockaddr_storage address_of(const Gid&, uint16_t port) noexcept;

// cma.c: cma_zero_addr(), cma_loopback_addr().
bool is_zero(const sockaddr_storage&) noexcept;
bool is_loopback(const sockaddr_storage&) noexcept;
bool is_link_local(const sockaddr_storage&) noexcept;
uint32_t scope_of(const sockaddr_storage&) noexcept;
bool same_address(const sockaddr_storage&, const sockaddr_storage&) noexcept;

}  // namespace kilim::vhca::rdmacm
