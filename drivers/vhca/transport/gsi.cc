// SPDX-License-Identifier: BSD-3-Clause
// Datagrams of queue pair 1, in and out. Adapter's lock held.
#include "vhca/transport/gsi.hh"

#include <cstring>

namespace kilim::vhca::transport {

void set_gsi_client(RoceLink& link, uint32_t port, GsiClient* client) {
  if (link.gsi.size() < port) link.gsi.resize(port);
  link.gsi[port - 1] = client;
}

bool handle_gsi(RoceLink& link, uint32_t port, const RocePacket& p) noexcept {
  GsiClient* client = port <= link.gsi.size() ? link.gsi[port - 1] : nullptr;
  if (client == nullptr) return false;
  // Another key, or not the length of all such datagrams: dropped, as any queue pair drops it
  // (IBTA 10.2.5; drivers/infiniband/core/mad.c, validate_mad()).
  if (p.qkey == gsi_qkey && p.payload.size() == gsi_bytes && p.op == roce::Op::send_only)
    client->receive(p);
  return true;
}

bool send_gsi(RoceLink& link, uint32_t port, const RocePath& path,
              std::span<const std::byte> mad) noexcept {
  wire::Wire* wire = port <= link.wires.size() ? link.wires[port - 1] : nullptr;
  if (wire == nullptr) return true;
  if (link.full_until_ns != 0) return false;
  RocePacket p;
  p.service = roce::Service::ud;
  p.op = roce::Op::send_only;
  p.flags =
      roce::flags_of(roce::Service::ud, *roce::op_row(static_cast<uint8_t>(roce::Op::send_only)));
  p.dest_qpn = gsi_qpn;
  p.src_qpn = gsi_qpn;
  p.qkey = gsi_qkey;
  p.psn = link.gsi_psn;
  std::memcpy(payload_place(link, p.flags), mad.data(), mad.size());
  if (!send_along(link, *wire, path, p, mad.size())) return false;
  link.gsi_psn = roce::psn_add(link.gsi_psn, 1);
  return true;
}

}  // namespace kilim::vhca::transport
