// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs of the device: making, connecting, recovering, destroying, and their flow rules.
// Control path only.
#include <cerrno>
#include <cstring>

#include "kilim/detail/base/memory_reserve.hh"
#include "mlx5/caps.hh"
#include "mlx5/mlx5_device.hh"

namespace kilim::mlx5 {

using device::Transport;

namespace {

constexpr Error no_such_qp{EINVAL, "no such queue pair"};

// A flow rule and its one match, as ibv_create_flow(3) takes them: contiguous.
struct EthRule {
  ibv_flow_attr attr;
  ibv_flow_spec_eth eth;
};

// Frames to this destination MAC.
EthRule eth_rule(uint8_t port, const device::MacAddress& mac) {
  EthRule rule{};
  rule.attr.type = IBV_FLOW_ATTR_NORMAL;
  rule.attr.size = sizeof rule;
  rule.attr.num_of_specs = 1;
  rule.attr.port = port;
  rule.eth.type = IBV_FLOW_SPEC_ETH;
  rule.eth.size = sizeof rule.eth;
  std::memcpy(rule.eth.val.dst_mac, mac.data(), mac.size());
  std::memset(rule.eth.mask.dst_mac, 0xff, mac.size());
  return rule;
}

// Not above what the peer's packets may have; 0: it did not tell.
void limit_mtu(Path& path, uint32_t bytes) {
  while (bytes != 0 && path.mtu > IBV_MTU_256 && 128u << path.mtu > bytes)
    path.mtu = static_cast<ibv_mtu>(path.mtu - 1);
}

}  // namespace

Result<device::QpInfo> Mlx5Device::create_rc(const device::RcRequest& request) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (request.umr && !caps_.umr)
    return Error{EOPNOTSUPP, "the adapter binds no indirect keys for user space"};
  if ((request.access & ~mr::Access::all) != 0)
    return Error{EINVAL, "a queue pair lets a peer read, write and do atomics, and nothing else"};
  if (request.gid_index < -1 || request.gid_index > 255)
    return Error{EINVAL, "the index of a GID is 0 to 255"};
  Result<Made> made =
      create_qp(request.queues, {.transport = Transport::rc, .signal_all = request.signal_all});
  if (!made) return made.error();
  Qp qp{.verbs = std::move(made->qp), .inlined = made->inlined, .path = {}};
  qp.path.access = request.access;
  qp.path.wanted_gid = request.gid_index;
  return adopt(std::move(qp));
}

Result<device::QpInfo> Mlx5Device::create_uc(const device::UcRequest& request) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if ((request.access & ~mr::Access::remote_write) != 0)
    return Error{EINVAL, "a peer may only be let write through an unreliable connection"};
  Result<Made> made = create_qp(request.queues, {.transport = Transport::uc});
  if (!made) return made.error();
  Qp qp{.verbs = std::move(made->qp),
        .inlined = made->inlined,
        .path = {},
        .transport = Transport::uc};
  qp.path.access = request.access;
  return adopt(std::move(qp));
}

Result<device::Endpoint> Mlx5Device::endpoint(device::QpHandle handle) {
  Qp* qp = find(handle);
  if (qp == nullptr || is_raw(*qp)) return no_such_qp;
  const int wanted = qp->path.wanted_gid;
  qp->path.route.gid_index =
      wanted < 0 ? choose_gid(context_.get(), qp->path.route.port) : static_cast<uint8_t>(wanted);
  ibv_port_attr port{};
  ibv_gid gid{};
  int rc = ibv_query_port(context_.get(), qp->path.route.port, &port);
  if (rc == 0)
    rc = ibv_query_gid(context_.get(), qp->path.route.port, qp->path.route.gid_index, &gid);
  if (rc != 0) return Error{rc < 0 ? errno : rc, "the port has no address to connect by"};
  static constexpr ibv_gid unused{};
  if (wanted >= 0 && std::memcmp(&gid, &unused, sizeof gid) == 0)
    return Error{EINVAL, "the port has no GID of this index"};
  qp->path.mtu = port.active_mtu;
  device::Endpoint e;
  e.qpn = Qpn{qp->verbs->qp_num};
  e.psn = qp->path.route.psn;
  e.lid = port.lid;
  e.port = qp->path.route.port;
  e.mtu_bytes = 128u << port.active_mtu;
  std::memcpy(e.gid.data(), gid.raw, e.gid.size());
  return e;
}

Status Mlx5Device::connect(device::QpHandle handle, const device::Endpoint& peer) {
  Result<device::Endpoint> self = endpoint(handle);  // also fills in our side of the path
  if (!self) return self.error();
  Qp* qp = find(handle);
  qp->path.route.peer = peer;
  limit_mtu(qp->path, peer.mtu_bytes);
  Status s = to_rts(qp->verbs.get(), qp->path, qp->transport);
  qp->connected = s.ok();
  return s;
}

Status Mlx5Device::connect_by(device::QpHandle handle, const device::Route& route) {
  Qp* qp = find(handle);
  if (qp == nullptr || is_raw(*qp)) return no_such_qp;
  ibv_port_attr port{};
  if (const int rc = ibv_query_port(context_.get(), route.port, &port); rc != 0)
    return Error{rc, "the device has no port of this number"};
  qp->path.route = route;
  qp->path.mtu = port.active_mtu;
  limit_mtu(qp->path, route.peer.mtu_bytes);
  Status s = to_rts(qp->verbs.get(), qp->path, qp->transport);
  qp->connected = s.ok();
  return s;
}

Result<device::QpInfo> Mlx5Device::create_raw_packet(const device::QpRequest& request,
                                                     uint8_t port) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (!caps_.raw_packet)
    return Error{EOPNOTSUPP, "raw packets need a port with the Ethernet link layer"};
  Result<Made> made = create_qp(request, {.transport = Transport::raw_packet});
  if (!made) return made.error();
  if (Status s = raw_to_rts(made->qp.get(), port); !s) return s.error();
  Qp qp{.verbs = std::move(made->qp),
        .inlined = made->inlined,
        .path = {},
        .transport = Transport::raw_packet,
        .connected = true};
  qp.path.route.port = port;
  return adopt(std::move(qp));
}

Result<device::FlowHandle> Mlx5Device::add_flow(device::QpHandle handle,
                                                const device::FlowRule& rule) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  Qp* qp = find(handle);
  if (qp == nullptr || !is_raw(*qp)) return no_such_qp;
  using Kind = device::FlowRule::Kind;
  const device::MacAddress everyone{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  EthRule eth = eth_rule(qp->path.route.port, rule.kind == Kind::broadcast ? everyone : rule.mac);
  // An Ethernet spec that asks for nothing, or for the group bit alone. Default rules would not do:
  // Linux asks them behind the interface's own (drivers/infiniband/hw/mlx5/fs.c, get_flow_table()).
  if (rule.kind == Kind::all || rule.kind == Kind::multicast) {
    const auto bit = static_cast<uint8_t>(rule.kind == Kind::multicast);
    eth.eth.val = eth.eth.mask = {};
    eth.eth.val.dst_mac[0] = eth.eth.mask.dst_mac[0] = bit;
  }
  VerbsFlow flow{ibv_create_flow(qp->verbs.get(), &eth.attr)};
  if (flow == nullptr) return Error{errno, "the adapter refuses the flow rule"};
  return keep({.counters = nullptr, .counter = {}, .matcher = nullptr, .rule = std::move(flow)});
}

Status Mlx5Device::reset(device::QpHandle handle) {
  Qp* qp = find(handle);
  if (qp == nullptr) return no_such_qp;
  faulted_.erase(handle.value());
  if (is_raw(*qp)) return raw_to_rts(qp->verbs.get(), qp->path.route.port);
  if (!qp->connected) return to_state(qp->verbs.get(), IBV_QPS_RESET);
  return to_rts(qp->verbs.get(), qp->path, qp->transport);
}

Status Mlx5Device::fail(device::QpHandle handle) {
  Qp* qp = find(handle);
  if (qp == nullptr) return no_such_qp;
  return to_state(qp->verbs.get(), IBV_QPS_ERR);
}

Status Mlx5Device::destroy_qp(device::QpHandle handle) {
  if (const auto tir = tirs_.find(handle.value()); tir != tirs_.end()) return destroy_tir(tir);
  const auto at = qps_.find(handle.value());
  if (at == qps_.end()) return no_such_qp;
  if (const int rc = ibv_destroy_qp(at->second.verbs.get()); rc != 0)
    return Error{rc, "the queue pair is still in use"};
  (void)at->second.verbs.release();
  faulted_.erase(at->first);
  qps_.erase(at);
  return Done{};
}

}  // namespace kilim::mlx5
