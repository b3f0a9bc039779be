// SPDX-License-Identifier: BSD-3-Clause
// What is known of an id: ucma.c, ucma_query_route(), ucma_query(); core/sa_query.c, the path
// record's table. All locks held.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include <endian.h>
#include <netinet/in.h>

#include "vhca/hca/ports.hh"
#include "vhca/rdmacm/steps.hh"

namespace kilim::vhca::rdmacm {

namespace {

constexpr uint16_t default_pkey = 0xffff;
constexpr uint8_t exactly = 2;            // IB_SA_EQ
constexpr uint8_t rate_40_gbps = 7;       // iboe_get_rate() of 40 Gb/s and more
constexpr uint8_t packet_life_time = 18;  // cma.c, CMA_IBOE_PACKET_LIFETIME
constexpr uint32_t no_index = ~0u;        // libibverbs finds devices in sysfs, where none has one
constexpr uint8_t hop_limit = 64;

uint64_t node_guid_of(const Adapter& a) {
  const Result<PortAttr> port = hca::query_port(a.hca, 1);
  return htobe64(guid_of(port.ok() ? port->node : a.hca.config.mac));
}

uint8_t life_time_of(const Id& id) noexcept {
  // cma_resolve_iboe_route(): the ACK timeout is twice the life time and more.
  return id.ack_timeout_set && id.ack_timeout != 0 ? static_cast<uint8_t>(id.ack_timeout - 1)
                                                   : packet_life_time;
}

void put_in6(const sockaddr_storage& from, sockaddr_in6& to) noexcept {
  const std::size_t n = from.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&to, &from, n);
}

ib_user_path_rec path_of(const Id& id) {
  ib_user_path_rec p{};
  std::copy(id.dgid.begin(), id.dgid.end(), p.dgid);
  std::copy(id.sgid.begin(), id.sgid.end(), p.sgid);
  p.reversible = 1;
  p.mtu = path_mtu_of(*id.adapter);
  p.mtu_selector = exactly;
  p.pkey = htobe16(default_pkey);
  p.hop_limit = hop_limit;
  p.traffic_class = id.tos;
  p.rate_selector = exactly;
  p.rate = rate_40_gbps;
  p.packet_life_time_selector = exactly;
  p.packet_life_time = life_time_of(id);
  return p;
}

void put_device(const Id& id, rdma_ucm_query_addr_resp& resp) {
  if (id.adapter == nullptr) return;
  resp.node_guid = node_guid_of(*id.adapter);
  resp.ibdev_index = no_index;
  resp.port_num = 1;
  resp.pkey = htobe16(default_pkey);
}

// Writes an address of AF_IB, whose service id is made of the port space and the port
// (rdma_get_service_id()).
void put_ib(const Id& id, const Gid& gid, const sockaddr_storage& address, void* to) {
  SockaddrIb ib{};
  ib.family = af_ib;
  ib.pkey = id.adapter != nullptr ? htobe16(default_pkey) : uint16_t{0};
  std::copy(gid.begin(), gid.end(), ib.address);
  ib.sid = htobe64(service_id_of(id, address));
  std::memcpy(to, &ib, sizeof(ib));
}

}  // namespace

void query_route(const Id& id, rdma_ucm_query_route_resp& resp) {
  put_in6(id.source, resp.src_addr);
  put_in6(id.destination, resp.dst_addr);
  if (id.adapter == nullptr) return;
  resp.node_guid = node_guid_of(*id.adapter);
  resp.ibdev_index = no_index;
  resp.port_num = 1;
  resp.num_paths = id.has_path ? 1 : 0;
  if (id.has_path) {
    resp.ib_route[0] = path_of(id);
    return;
  }
  // ucma_copy_iboe_route()
  const Gid from = gid_of(id.source), to = gid_of(id.destination);
  std::copy(from.begin(), from.end(), resp.ib_route[0].sgid);
  std::copy(to.begin(), to.end(), resp.ib_route[0].dgid);
  resp.ib_route[0].pkey = htobe16(default_pkey);
}

void query_address(const Id& id, rdma_ucm_query_addr_resp& resp) {
  resp.src_size = static_cast<uint16_t>(address_bytes(id.source));
  std::memcpy(&resp.src_addr, &id.source, resp.src_size);
  resp.dst_size = static_cast<uint16_t>(address_bytes(id.destination));
  std::memcpy(&resp.dst_addr, &id.destination, resp.dst_size);
  put_device(id, resp);
}

void query_gid(const Id& id, rdma_ucm_query_addr_resp& resp) {
  put_device(id, resp);
  resp.src_size = resp.dst_size = sizeof(SockaddrIb);
  put_ib(id, gid_of(id.source), id.source, &resp.src_addr);
  put_ib(id, gid_of(id.destination), id.destination, &resp.dst_addr);
}

bool query_path(const Id& id, ib_path_rec_data& data) {
  if (!id.has_path || id.adapter == nullptr) return false;
  data.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
  const ib_user_path_rec p = path_of(id);
  std::array<uint8_t, sizeof(data.path_rec)> record{};
  std::copy(id.dgid.begin(), id.dgid.end(), record.begin() + 8);
  std::copy(id.sgid.begin(), id.sgid.end(), record.begin() + 24);
  record[47] = p.hop_limit;
  record[48] = p.traffic_class;
  record[49] = 0x80;  // reversible
  record[50] = record[51] = 0xff;
  record[54] = static_cast<uint8_t>(exactly << 6 | p.mtu);
  record[55] = static_cast<uint8_t>(exactly << 6 | p.rate);
  record[56] = static_cast<uint8_t>(exactly << 6 | p.packet_life_time);
  std::memcpy(data.path_rec, record.data(), record.size());
  return true;
}

}  // namespace kilim::vhca::rdmacm
