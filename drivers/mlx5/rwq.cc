// SPDX-License-Identifier: BSD-3-Clause
// Receive work queues, tables of them and hash queue pairs. Control path only.
#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/mem/limits.hh"
#include "kilim/prm/doorbell.hh"
#include "mlx5/mlx5_device.hh"

namespace kilim::mlx5 {
namespace {

constexpr Error no_such_rwq{EINVAL, "no such receive work queue"};

Status set_state(ibv_wq* wq, ibv_wq_state state) {
  ibv_wq_attr attr{};
  attr.attr_mask = IBV_WQ_ATTR_STATE;
  attr.wq_state = state;
  if (const int rc = ibv_modify_wq(wq, &attr); rc != 0)
    return Error{rc, "the adapter refuses the receive work queue's next state"};
  return Done{};
}

// Asks libmlx5 for the queue's memory (mlx5dv_init_obj(3)).
Result<queue::RqGeometry> geometry_of(ibv_wq* wq) {
  mlx5dv_rwq dv{};
  mlx5dv_obj obj{};
  obj.rwq.in = wq;
  obj.rwq.out = &dv;
  if (const int rc = mlx5dv_init_obj(&obj, MLX5DV_OBJ_RWQ); rc != 0)
    return Error{rc, "libmlx5 does not show the receive work queue's memory"};
  return queue::RqGeometry{.buf = static_cast<std::byte*>(dv.buf),
                           .wqe_count = dv.wqe_cnt,
                           .stride = dv.stride,
                           .record = reinterpret_cast<be32*>(dv.dbrec) + prm::record_receive};
}

// The fields that a kind of frames is hashed by, of one side alone where `sides` says so.
uint64_t fields_of(flow::HashKind kind, flow::HashSides sides) {
  using flow::HashSide;
  constexpr uint64_t source_addresses = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_SRC_IPV6;
  constexpr uint64_t addresses = source_addresses | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_DST_IPV6;
  constexpr uint64_t source_ports = IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_SRC_PORT_UDP;
  constexpr uint64_t ports = source_ports | IBV_RX_HASH_DST_PORT_TCP | IBV_RX_HASH_DST_PORT_UDP;
  const auto of_side = [](HashSide side, uint64_t both, uint64_t source) {
    return side == HashSide::both ? both : side == HashSide::source ? source : both & ~source;
  };
  constexpr uint64_t addresses4 = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4;
  constexpr uint64_t addresses6 = IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6;
  constexpr uint64_t tcp = IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP;
  constexpr uint64_t udp = IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP;
  constexpr uint64_t fields[] = {0,          addresses4,       addresses4 | tcp, addresses4 | udp,
                                 addresses6, addresses6 | tcp, addresses6 | udp};
  static_assert(std::size(fields) == flow::hash_kinds);
  return fields[static_cast<std::size_t>(kind)] &
         (of_side(sides.addresses, addresses, source_addresses) |
          of_side(sides.ports, ports, source_ports));
}

// mlx5dv_create_qp(3): the adapter looks into tunnels where the queue pair says so.
VerbsQp make_hash_qp(ibv_context* context, ibv_qp_init_attr_ex& attr, bool tunnels) {
  mlx5dv_qp_init_attr dv{};
  if (tunnels) {
    dv.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
    dv.create_flags = MLX5DV_QP_CREATE_TUNNEL_OFFLOADS;
  }
  return VerbsQp{mlx5dv_create_qp(context, &attr, &dv)};
}

}  // namespace

Result<device::RwqInfo> Mlx5Device::create_rwq(const device::RwqRequest& request) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (!caps_.spread.usable()) return Error{EOPNOTSUPP, "the adapter has no receive work queues"};
  const auto cq = cqs_.find(request.cq.value());
  if (cq == cqs_.end())
    return Error{EINVAL, "a receive work queue needs a completion queue of this device"};
  if (request.recv_wrs == 0 || request.recv_wrs > caps_.max_qp_wr)
    return Error{EINVAL, "a queue of this depth is beyond the adapter's limit"};
  ibv_wq_init_attr attr{};
  attr.wq_type = IBV_WQT_RQ;
  attr.max_wr = request.recv_wrs;
  attr.max_sge = request.max_recv_sge;
  attr.pd = pd_.get();
  attr.cq = cq->second.verbs.get();
  if (request.strip_vlan) {
    attr.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
    attr.create_flags = IBV_WQ_FLAGS_CVLAN_STRIPPING;
  }
  mlx5dv_wq_init_attr dv{};
  if (request.strides) {
    dv.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ;
    dv.striding_rq_attrs.single_stride_log_num_of_bytes = request.strides->log_bytes;
    dv.striding_rq_attrs.single_wqe_log_num_of_strides = request.strides->log_count;
  }
  VerbsRwq wq{mlx5dv_create_wq(context_.get(), &attr, &dv)};
  if (wq == nullptr)
    return Error{errno, mem::explain_queue(errno, "the adapter makes no such receive work queue")};
  const Result<queue::RqGeometry> geometry = geometry_of(wq.get());
  if (!geometry) return geometry.error();
  const device::RwqInfo info{device::RwqHandle{next_handle_++}, wq->wq_num, *geometry};
  rwqs_.emplace(info.handle.value(), std::move(wq));
  return info;
}

Status Mlx5Device::set_rwq_state(device::RwqHandle rwq, device::RwqState state) {
  constexpr ibv_wq_state states[] = {IBV_WQS_RESET, IBV_WQS_RDY, IBV_WQS_ERR};
  const auto at = rwqs_.find(rwq.value());
  if (at == rwqs_.end()) return no_such_rwq;
  if (state == device::RwqState::reset) faulted_.erase(rwq.value());
  return set_state(at->second.get(), states[static_cast<std::size_t>(state)]);
}

Status Mlx5Device::strip_vlan(device::RwqHandle rwq, bool on) {
  const auto at = rwqs_.find(rwq.value());
  if (at == rwqs_.end()) return no_such_rwq;
  ibv_wq_attr attr{};
  attr.attr_mask = IBV_WQ_ATTR_FLAGS;
  attr.flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING;
  attr.flags = on ? attr.flags_mask : 0;
  if (const int rc = ibv_modify_wq(at->second.get(), &attr); rc != 0)
    return Error{rc, "the adapter does not change the stripping of VLAN tags"};
  return Done{};
}

Status Mlx5Device::destroy_rwq(device::RwqHandle rwq) {
  const auto at = rwqs_.find(rwq.value());
  if (at == rwqs_.end()) return no_such_rwq;
  if (const int rc = ibv_destroy_wq(at->second.get()); rc != 0)
    return Error{rc, "a table still names the receive work queue"};
  (void)at->second.release();
  faulted_.erase(at->first);
  rwqs_.erase(at);
  return Done{};
}

Result<device::RwqTableInfo> Mlx5Device::create_rwq_table(
    std::span<const device::RwqHandle> queues) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (!std::has_single_bit(queues.size()) || queues.size() > caps_.spread.longest_table)
    return Error{EINVAL, "a table's size is a power of two within the adapter's limit"};
  std::vector<ibv_wq*> members;
  for (const device::RwqHandle h : queues) {
    const auto at = rwqs_.find(h.value());
    if (at == rwqs_.end()) return no_such_rwq;
    members.push_back(at->second.get());
  }
  ibv_rwq_ind_table_init_attr attr{};
  attr.log_ind_tbl_size = static_cast<uint32_t>(std::countr_zero(queues.size()));
  attr.ind_tbl = members.data();
  VerbsRwqTable table{ibv_create_rwq_ind_table(context_.get(), &attr)};
  if (table == nullptr) return Error{errno, "the adapter makes no such table of receive queues"};
  const device::RwqTableInfo info{device::RwqTableHandle{next_handle_++}};
  tables_.emplace(info.handle.value(), std::move(table));
  return info;
}

Status Mlx5Device::destroy_rwq_table(device::RwqTableHandle table) {
  const auto at = tables_.find(table.value());
  if (at == tables_.end()) return Error{EINVAL, "no such table of receive queues"};
  if (const int rc = ibv_destroy_rwq_ind_table(at->second.get()); rc != 0)
    return Error{rc, "a queue pair still uses the table"};
  (void)at->second.release();
  tables_.erase(at);
  return Done{};
}

Result<device::QpInfo> Mlx5Device::create_hash_qp(const device::HashQpRequest& request,
                                                  uint8_t port) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  const auto table = tables_.find(request.table.value());
  if (table == tables_.end()) return Error{EINVAL, "no such table of receive queues"};
  if (request.lro) return create_joining_tir(request, port, table->second->ind_tbl_num);
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_RAW_PACKET;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
  attr.pd = pd_.get();
  attr.rwq_ind_tbl = table->second.get();
  flow::HashKey key = request.key;
  attr.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
                       .rx_hash_key_len = static_cast<uint8_t>(key.size()),
                       .rx_hash_key = key.data(),
                       .rx_hash_fields_mask = fields_of(request.kind, request.sides)};
  if (request.inner && request.kind != flow::HashKind::none)
    attr.rx_hash_conf.rx_hash_fields_mask |= IBV_RX_HASH_INNER;
  VerbsQp made = make_hash_qp(context_.get(), attr, request.tunnels);
  if (made == nullptr) return Error{errno, "the adapter makes no such hash queue pair"};
  Qp qp{.verbs = std::move(made),
        .inlined = {},
        .path = {},
        .transport = device::Transport::raw_packet,
        .connected = true};
  qp.path.route.port = port;
  device::QpInfo info;
  info.handle = device::QpHandle{next_handle_++};
  info.qpn = Qpn{qp.verbs->qp_num};
  qps_.emplace(info.handle.value(), std::move(qp));
  return info;
}

}  // namespace kilim::mlx5
