// SPDX-License-Identifier: BSD-3-Clause
// Addresses of a port. Pure.
#include "vhca/core/address.hh"

#include <cstring>

namespace kilim::vhca {

bool port_gid(const Mac& mac, uint32_t index, Gid& gid) noexcept {
  if (index != 0) return false;
  // Link-local prefix and modified EUI-64: the local bit turned, ff:fe in the middle (RFC 4291,
  // appendix A). The kernel makes the first entry alike (make_default_gid() in core/cache.c).
  gid = {0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<uint8_t>(mac[0] ^ 2),
         mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  return true;
}

bool port_gid(const Addresses& own, uint32_t index, Gid& gid) noexcept {
  if (!own.roce) return false;
  if (index == 0) return port_gid(own.mac, index, gid);
  const bool named = own.gid != Gid{};
  if (named && index == 1) {
    gid = own.gid;
    return true;
  }
  const uint32_t place = index - (named ? 2 : 1);
  if (place >= own.ip_count) return false;
  gid = own.ips[place];
  return true;
}

bool is_own_gid(const Addresses& own, const Gid& gid) noexcept {
  Gid one;
  for (uint32_t i = 0; port_gid(own, i, one); i++) {
    if (one == gid) return true;
  }
  return false;
}

bool leads_here(const Addresses& own, const prm::AvSeg& to) noexcept {
  Gid gid;
  std::memcpy(gid.data(), to.rgid, gid.size());
  // RoCE has no LIDs: the GID alone names the port (IBTA annex A17, "RoCEv2").
  if (own.lid == 0) return is_own_gid(own, gid) && is_own_queue(own, prm::av::qpn::get(to));
  return to.rlid.host() == own.lid && (prm::av::grh::get(to) == 0 || is_own_gid(own, gid));
}

bool leads_here(const Addresses& own, const QpAttr::Path& path, Qpn to) noexcept {
  if (own.lid == 0) return is_own_gid(own, path.dgid) && is_own_queue(own, to.value());
  return path.dlid == own.lid && (!path.is_global || is_own_gid(own, path.dgid));
}

}  // namespace kilim::vhca
