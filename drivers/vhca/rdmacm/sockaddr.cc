// SPDX-License-Identifier: BSD-3-Clause
// Reads and makes addresses. Pure.
#include "vhca/rdmacm/sockaddr.hh"

#include <cstring>

#include <endian.h>
#include <netinet/in.h>

#include "vhca/core/address.hh"

namespace kilim::vhca::rdmacm {

namespace {

template <typename T>
T as(const sockaddr_storage& a) noexcept {
  T t;
  std::memcpy(&t, &a, sizeof(t));
  return t;
}

}  // namespace

std::size_t address_bytes(const sockaddr_storage& a) noexcept {
  switch (a.ss_family) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    case af_ib:
      return sizeof(SockaddrIb);
    default:
      return 0;
  }
}

std::size_t address_bytes_in6(const sockaddr_storage& a) noexcept {
  const std::size_t n = address_bytes(a);
  return n <= sizeof(sockaddr_in6) ? n : 0;
}

uint16_t port_of(const sockaddr_storage& a) noexcept {
  if (a.ss_family != af_ib) return ntohs(as<sockaddr_in>(a).sin_port);  // in the same place in both
  const auto ib = as<SockaddrIb>(a);
  return static_cast<uint16_t>(be64toh(ib.sid) & be64toh(ib.sid_mask));
}

void set_port(sockaddr_storage& a, uint16_t port) noexcept {
  if (a.ss_family == af_ib) {
    auto ib = as<SockaddrIb>(a);
    ib.sid = htobe64((be64toh(ib.sid) & ~uint64_t{0xffff}) | port);
    ib.sid_mask = ~uint64_t{0};
    std::memcpy(&a, &ib, sizeof(ib));
    return;
  }
  auto in = as<sockaddr_in>(a);
  in.sin_port = htons(port);
  std::memcpy(&a, &in, sizeof(in));
}

Gid gid_of(const sockaddr_storage& a) noexcept {
  Gid gid{};
  if (a.ss_family == AF_INET6) {
    std::memcpy(gid.data(), &reinterpret_cast<const sockaddr_in6&>(a).sin6_addr, gid.size());
  } else if (a.ss_family == af_ib) {
    std::memcpy(gid.data(), reinterpret_cast<const SockaddrIb&>(a).address, gid.size());
  } else {
    const auto in = as<sockaddr_in>(a);
    gid[10] = gid[11] = 0xff;
    std::memcpy(gid.data() + 12, &in.sin_addr, 4);
  }
  return gid;
}

sockaddr_storage address_of(const Gid& gid, uint16_t port) noexcept {
  sockaddr_storage a{};
  if (is_ipv4(gid)) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, gid.data() + 12, 4);
    std::memcpy(&a, &in, sizeof(in));
  } else {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    std::memcpy(&in.sin6_addr, gid.data(), gid.size());
    std::memcpy(&a, &in, sizeof(in));
  }
  return a;
}

bool is_zero(const sockaddr_storage& a) noexcept {
  const Gid gid = gid_of(a);
  const Gid none = a.ss_family == AF_INET ? Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff} : Gid{};
  return gid == none;
}

bool is_loopback(const sockaddr_storage& a) noexcept {
  const Gid gid = gid_of(a);
  if (a.ss_family == AF_INET) return gid[12] == 127;
  Gid one{};
  one[15] = 1;
  return gid == one;
}

bool is_link_local(const sockaddr_storage& a) noexcept {
  const Gid gid = gid_of(a);
  return a.ss_family == AF_INET6 && gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

uint32_t scope_of(const sockaddr_storage& a) noexcept {
  return a.ss_family == AF_INET6 ? as<sockaddr_in6>(a).sin6_scope_id : 0;
}

bool same_address(const sockaddr_storage& a, const sockaddr_storage& b) noexcept {
  return a.ss_family == b.ss_family && gid_of(a) == gid_of(b);
}

}  // namespace kilim::vhca::rdmacm
