// SPDX-License-Identifier: BSD-3-Clause
// Each file is written beside its place and then put there.
#include "vhca/entry/identity.hh"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kilim/detail/base/fd.hh"
#include "vhca/core/address.hh"
#include "vhca/core/lock.hh"
#include "vhca/entry/port_ips.hh"
#include "vhca/entry/raw.hh"
#include "vhca/hca/ports.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::entry {

namespace {

// Groups of four digits.
std::string hex_groups(const uint8_t* bytes, std::size_t n) {
  std::string text;
  for (std::size_t i = 0; i < n; i += 2) {
    char group[8];
    std::snprintf(group, sizeof(group), "%s%02x%02x", i == 0 ? "" : ":", unsigned{bytes[i]},
                  unsigned{bytes[i + 1]});
    text += group;
  }
  return text;
}

bool replace(const std::string& folder, const std::string& name, const std::string& text) {
  const std::string path = folder + "/" + name;
  const std::string beside = folder + "/." + name;
  const std::string line = text + "\n";
  {
    const Fd file(
        raw::open_at(AT_FDCWD, beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file ||
        raw::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      return false;
  }
  return ::rename(beside.c_str(), path.c_str()) == 0;
}

}  // namespace

Identity identity_of(const DeviceSpec& config) {
  Addresses shape;
  shape.mac = mac_of(config);
  shape.gid = parse_gid(config.gid).value_or(Gid{});
  for (const PortIp& ip : ips_of(config)) {
    if (ip.address != shape.gid) shape.ips[shape.ip_count++] = ip.address;
  }
  if (const auto profile = find_profile(config.profile)) shape.roce = profile->roce;
  Identity identity{guid_of(shape.mac), {}};
  Gid gid;
  for (uint32_t i = 0; port_gid(shape, i, gid); i++) identity.gids.push_back(gid);
  return identity;
}

Identity identity_of(hca::Hca& hca) {
  const LockGuard guard(hca.lock);
  Identity identity;
  const Result<PortAttr> port = hca::query_port(hca, 1);
  if (!port) return identity;
  identity.guid = guid_of(port->node);
  for (uint32_t i = 0; i < port->gid_count; i++) {
    const Result<Gid> gid = hca::query_gid(hca, 1, i);
    if (!gid) break;
    identity.gids.push_back(*gid);
  }
  return identity;
}

bool write_identity(const std::string& folder, const Identity& identity) {
  uint8_t guid[8];
  for (std::size_t i = 0; i < sizeof(guid); i++)
    guid[i] = static_cast<uint8_t>(identity.guid >> (56 - 8 * i));
  const std::string name = hex_groups(guid, sizeof(guid));
  if (!replace(folder, "node_guid", name) || !replace(folder, "sys_image_guid", name)) return false;
  const std::string gids = folder + "/ports/1/gids";
  if (::mkdir(gids.c_str(), 0755) != 0 && errno != EEXIST) return false;
  for (std::size_t i = 0; i < identity.gids.size(); i++) {
    const Gid& gid = identity.gids[i];
    if (!replace(gids, std::to_string(i), hex_groups(gid.data(), gid.size()))) return false;
  }
  return true;
}

void publish_identity(const DeviceConfig& device, hca::Hca& hca) {
  const Identity now = identity_of(hca);
  if (device.tree.empty() || now == identity_of(device.attach)) return;
  (void)write_identity(device.tree + "/class/infiniband/" + device.attach.name, now);
}

}  // namespace kilim::vhca::entry
