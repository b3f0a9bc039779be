// SPDX-License-Identifier: BSD-3-Clause
// Paths: there is no neighbour table of a kernel behind a virtual port. The MAC of a link-local GID
// follows from it; others are asked of the wire, which may know its neighbours' tables.
#include "vhca/uverbs/path.hh"

#include <cerrno>
#include <cstring>
#include <optional>

#include "vhca/core/address.hh"
#include "vhca/core/refusal.hh"
#include "vhca/hca/ports.hh"

namespace kilim::vhca::uverbs {

namespace {

bool is_link_local(const Gid& gid) {
  constexpr uint8_t prefix[8] = {0xfe, 0x80};
  return std::memcmp(gid.data(), prefix, sizeof(prefix)) == 0;
}

// The MAC of a multicast group, or that a modified EUI-64 was made from.
bool mac_of(const Gid& gid, Mac& mac) {
  if (is_group_gid(gid)) {
    mac = group_mac(gid);
    return true;
  }
  if (gid[11] != 0xff || gid[12] != 0xfe) return false;
  mac = {static_cast<uint8_t>(gid[8] ^ 2), gid[9], gid[10], gid[13], gid[14], gid[15]};
  return true;
}

bool own_gid(hca::Hca& hca, uint32_t port, uint32_t gid_count, const Gid& gid) {
  for (uint32_t i = 0; i < gid_count; i++) {
    Result<Gid> g = hca::query_gid(hca, port, i);
    if (g && *g == gid) return true;
  }
  return false;
}

}  // namespace

int check_source(hca::Hca& hca, const QpAttr::Path& path) {
  Result<PortAttr> port = hca::query_port(hca, path.port);
  if (!port) return refusal::of(port.error());
  if (!path.is_global)
    return port->lid != 0 ? 0 : refusal::text(EINVAL, "is_global is 0, and RoCE addresses by GID");
  // ENODATA: the index is the table's, its entry is empty.
  Result<Gid> source = hca::query_gid(hca, path.port, path.sgid_index);
  return source ? 0 : refusal::of(source.error());
}

int resolve_path(hca::Hca& hca, QpAttr::Path& path) {
  if (int err = check_source(hca, path); err != 0) return err;
  Result<PortAttr> port = hca::query_port(hca, path.port);
  if (!port) return refusal::of(port.error());
  if (port->lid != 0) return 0;  // InfiniBand goes by LID: there is no MAC to find
  if (own_gid(hca, path.port, port->gid_count, path.dgid)) {
    path.dmac = port->mac;
    return 0;
  }
  if (!is_link_local(path.dgid)) {
    if (std::optional<Mac> mac = hca::find_neighbour(hca, path.port, path.dgid)) {
      path.dmac = *mac;
      return 0;
    }
  }
  return mac_of(path.dgid, path.dmac) ? 0 : refusal::text(EHOSTUNREACH, "no way leads to this GID");
}

int refuse_path(hca::Hca& hca, int err, const QpAttr::Path& path, const PathRefusals& why) {
  if (err == -EHOSTUNREACH) return hca::refuse_verb(hca, err, {why.no_route, 0, path.port});
  if (!path.is_global) return hca::refuse_verb(hca, err, {why.not_global});
  return hca::refuse_verb(hca, err, {why.no_source, path.sgid_index, path.port});
}

QpAttr::Path path_of(const ib_uverbs_qp_dest& d) {
  QpAttr::Path p;
  std::memcpy(p.dgid.data(), d.dgid, p.dgid.size());
  p.flow_label = d.flow_label;
  p.dlid = d.dlid;
  p.sgid_index = d.sgid_index;
  p.hop_limit = d.hop_limit;
  p.traffic_class = d.traffic_class;
  p.sl = d.sl;
  p.src_path_bits = d.src_path_bits;
  p.static_rate = d.static_rate;
  p.is_global = d.is_global != 0;
  p.port = d.port_num;
  return p;
}

QpAttr::Path path_of(const ib_uverbs_ah_attr& a) {
  QpAttr::Path p;
  std::memcpy(p.dgid.data(), a.grh.dgid, p.dgid.size());
  p.flow_label = a.grh.flow_label;
  p.dlid = a.dlid;
  p.sgid_index = a.grh.sgid_index;
  p.hop_limit = a.grh.hop_limit;
  p.traffic_class = a.grh.traffic_class;
  p.sl = a.sl;
  p.src_path_bits = a.src_path_bits;
  p.static_rate = a.static_rate;
  p.is_global = a.is_global != 0;
  p.port = a.port_num;
  return p;
}

ib_uverbs_qp_dest dest_of(const QpAttr::Path& p) {
  ib_uverbs_qp_dest d{};
  std::memcpy(d.dgid, p.dgid.data(), p.dgid.size());
  d.flow_label = p.flow_label;
  d.dlid = p.dlid;
  d.sgid_index = p.sgid_index;
  d.hop_limit = p.hop_limit;
  d.traffic_class = p.traffic_class;
  d.sl = p.sl;
  d.src_path_bits = p.src_path_bits;
  d.static_rate = p.static_rate;
  d.is_global = p.is_global;
  d.port_num = p.port;
  return d;
}

}  // namespace kilim::vhca::uverbs
