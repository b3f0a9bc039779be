// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/mlx5_device.hh"

#include <cerrno>
#include <cstdlib>

#include <fcntl.h>

#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/device/devices.hh"
#include "kilim/detail/mem/limits.hh"
#include "kilim/detail/queue/preset.hh"
#include "kilim/prm/doorbell.hh"
#include "mlx5/caps.hh"
#include "mlx5/firmware.hh"
#include "mlx5/port_interface.hh"

namespace kilim::mlx5 {

Mlx5Device::Mlx5Device(Context context, Pd pd, const device::Caps& caps, Progress progress,
                       const std::string& sysfs)
    : name_(ibv_get_device_name(context->device)),
      sysfs_(sysfs),
      caps_(caps),
      progress_(progress),
      odp_files_(sysfs, name_, context->device->dev_name),
      context_(std::move(context)),
      pd_(std::move(pd)),
      registrar_(pd_.get(), caps.odp, caps.max_device_memory),
      keys_(pd_.get(), caps.umr ? caps.max_key_entries : 0),
      windows_(pd_.get(), caps.memory_window_type1, caps.memory_window_type2b) {
  device::enter(*this);
}

Mlx5Device::Mlx5Device(ibv_pd* lent, const device::Caps& caps, Progress progress, VerbsCq empty)
    : Mlx5Device(Context{lent->context}, Pd{lent}, caps, progress, "/sys") {
  lent_ = true;
  empty_ = std::move(empty);
}

// A lent context and domain stay open. The members destroy what was made in them afterwards.
Mlx5Device::~Mlx5Device() {
  device::leave(*this);
  if (!lent_) return;
  (void)pd_.release();
  (void)context_.release();
}

int Mlx5Device::numa_node() const noexcept {
  return read_numa_node(sysfs_, name_);
}

Result<device::PortInfo> Mlx5Device::port(uint8_t number) {
  Result<device::PortInfo> info = read_port(context_.get(), number);
  if (!info || !info->ethernet) return info;
  const std::string interface = interface_folder(sysfs_, name_, number);
  info->mac = read_port_mac(context_.get(), number, interface);
  info->frame_mtu = read_frame_mtu(interface);
  // A virtual device has no interface, as a rule.
  if (info->frame_mtu == 0 && number == 1) info->frame_mtu = query_vport_mtu(context_.get());
  return info;
}

namespace {

// Asks libmlx5 for the completion queue's memory (mlx5dv_init_obj(3)).
Result<queue::CqGeometry> geometry_of(ibv_cq* cq) {
  mlx5dv_cq dv{};
  mlx5dv_obj obj{};
  obj.cq.in = cq;
  obj.cq.out = &dv;
  if (const int rc = mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ); rc != 0)
    return Error{rc, "libmlx5 does not show the completion queue's memory"};
  return queue::CqGeometry{.buf = static_cast<std::byte*>(dv.buf),
                           .cqe_count = dv.cqe_cnt,
                           .cqe_bytes = dv.cqe_size,
                           .record = reinterpret_cast<be32*>(dv.dbrec) + prm::record_consumer_index,
                           .cqn = Cqn{dv.cqn},
                           .doorbell = static_cast<std::byte*>(dv.cq_uar) + prm::uar::cq_doorbell};
}

// A channel whose events are read without blocking; null where none is wanted.
Result<Channel> make_channel(ibv_context* context, bool wanted) {
  if (!wanted) return Channel{};
  Channel made{ibv_create_comp_channel(context)};
  if (made == nullptr) return Error{errno, "the adapter makes no completion channel"};
  if (::fcntl(made->fd, F_SETFL, O_NONBLOCK) != 0)
    return Error{errno, "a completion channel cannot be read without waiting"};
  return made;
}

// An event is acknowledged at once: ibv_destroy_cq(3) waits for that.
uint32_t read_events(void* channel) noexcept {
  uint32_t n = 0;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(static_cast<ibv_comp_channel*>(channel), &cq, &context) == 0) {
    ibv_ack_cq_events(cq, 1);
    n++;
  }
  return n;
}

device::CqEvents events_of(ibv_comp_channel* channel) noexcept {
  if (channel == nullptr) return {};
  return {channel->fd, read_events, channel};
}

// Writes the wish for compression into `attr`.
Status compress(device::Compression wish, const device::Caps& caps, mlx5dv_cq_init_attr& attr) {
  if (wish == device::Compression::none) return Done{};
  const bool hash = wish == device::Compression::hash;
  if (!(hash ? caps.compressed_hash : caps.compressed_checksum))
    return Error{EOPNOTSUPP, "the adapter does not compress completions so"};
  attr.comp_mask |= MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
  attr.cqe_comp_res_format =
      static_cast<uint8_t>(hash ? MLX5DV_CQE_RES_FORMAT_HASH : MLX5DV_CQE_RES_FORMAT_CSUM);
  return Done{};
}

}  // namespace

Result<device::CqInfo> Mlx5Device::create_cq(const device::CqRequest& request) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (request.entries == 0 || request.entries > caps_.max_cqe)
    return Error{EINVAL, "a completion queue of so many entries is beyond the adapter's limit"};
  if (request.cqe_bytes != 64 && request.cqe_bytes != 128)
    return Error{EINVAL, "completion entries have 64 or 128 bytes"};
  auto channel = make_channel(context_.get(), request.channel);
  if (!channel) return channel.error();
  ibv_cq_init_attr_ex attr{};
  attr.cqe = request.entries;
  attr.channel = channel->get();
  if (request.real_time && !caps_.real_time)  // libmlx5 would leave it out silently
    return Error{EOPNOTSUPP, "the adapter does not stamp completions with the time of day"};
  if (request.real_time) attr.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  mlx5dv_cq_init_attr own{};
  own.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
  own.cqe_size = static_cast<uint16_t>(request.cqe_bytes);
  if (Status s = compress(request.compression, caps_, own); !s) return s.error();
  ibv_cq_ex* made = mlx5dv_create_cq(context_.get(), &attr, &own);
  if (made == nullptr)
    return Error{errno, mem::explain_queue(errno, "the adapter makes no such completion queue")};
  VerbsCq cq{ibv_cq_ex_to_cq(made)};
  const Result<queue::CqGeometry> geometry = geometry_of(cq.get());
  if (!geometry) return geometry.error();
  queue::preset(*geometry);  // no queue pair completes here yet
  const device::CqInfo info{device::CqHandle{next_handle_++}, *geometry, events_of(channel->get())};
  cqs_.emplace(info.handle.value(), Cq{*std::move(channel), std::move(cq), geometry->cqe_bytes});
  return info;
}

Result<queue::DeviceClock> Mlx5Device::clock() {
  mlx5dv_clock_info info{};
  if (const int rc = mlx5dv_get_clock_info(context_.get(), &info); rc != 0)
    return Error{rc, "the kernel does not show the adapter's clock"};
  return queue::DeviceClock({.ticks = info.last_cycles,
                             .ns = info.nsec,
                             .fraction = info.frac,
                             .mult = info.mult,
                             .shift = info.shift,
                             .mask = info.mask});
}

// libmlx5 puts all ticks into tv_nsec (rdma-core providers/mlx5/verbs.c, mlx5_query_rt_values()).
Result<uint64_t> Mlx5Device::ticks() {
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  const int rc = ibv_query_rt_values_ex(context_.get(), &values);
  if (rc != 0 || (values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK) == 0)
    return Error{rc == 0 ? EOPNOTSUPP : rc, "the adapter's clock cannot be read"};
  return static_cast<uint64_t>(values.raw_clock.tv_nsec);
}

Status Mlx5Device::destroy_cq(device::CqHandle cq) {
  const auto at = cqs_.find(cq.value());
  if (at == cqs_.end()) return Error{EINVAL, "no such completion queue"};
  if (const int rc = ibv_destroy_cq(at->second.verbs.get()); rc != 0)
    return Error{rc, "the completion queue still serves a queue pair"};
  (void)at->second.verbs.release();
  faulted_.erase(at->first);
  cqs_.erase(at);
  return Done{};
}

namespace {

// mlx5dv_create_qp(3). With neither flag libmlx5 decides by MLX5_SCATTER_TO_CQE of the environment,
// as device::arbitrate() did.
uint32_t scatter_flag(const device::InlineDecision& d, device::InlineReceive wish) {
  if (d.received == 0 && d.answered == 0) return MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE;
  return wish == device::InlineReceive::on ? MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE : 0;
}

ibv_qp_type verbs_type(device::Transport t) {
  if (t == device::Transport::raw_packet) return IBV_QPT_RAW_PACKET;
  return t == device::Transport::rc ? IBV_QPT_RC : IBV_QPT_UC;
}

}  // namespace

Result<device::InlineDecision> Mlx5Device::decide(const device::QpRequest& request,
                                                  const QpKind& kind) const {
  return device::arbitrate({.transport = kind.transport,
                            .wish = request.inline_receive,
                            .memory = request.recv_memory,
                            .capable = caps_.inline_receive,
                            .receives = request.recv_wrs != 0 || request.srq != device::SrqHandle{},
                            .signal_all = kind.signal_all,
                            .environment = std::getenv("MLX5_SCATTER_TO_CQE"),
                            .send_cqe_bytes = cqs_.at(request.send_cq.value()).cqe_bytes,
                            .recv_cqe_bytes = cqs_.at(request.recv_cq.value()).cqe_bytes});
}

// libmlx5 sizes the send queue by its own work requests. If only SENDs of one piece are asked for,
// it counts one 64-byte block for each, so max_send_wr is the number of blocks. Kilim writes WQEs
// of every kind there without libmlx5.
Result<Mlx5Device::Made> Mlx5Device::create_qp(const device::QpRequest& request,
                                               const QpKind& kind) {
  const auto send_cq = cqs_.find(request.send_cq.value());
  const auto recv_cq = cqs_.find(request.recv_cq.value());
  if (send_cq == cqs_.end() || recv_cq == cqs_.end())
    return Error{EINVAL, "a queue pair needs two completion queues of this device"};
  if (request.send_wqebbs > caps_.max_qp_wr || request.recv_wrs > caps_.max_qp_wr)
    return Error{EINVAL, "a queue of this depth is beyond the adapter's limit"};
  const auto srq = srqs_.find(request.srq.value());
  if (request.srq != device::SrqHandle{} && (srq == srqs_.end() || request.recv_wrs != 0))
    return Error{EINVAL, "it receives from a shared queue of this device or from one of its own"};
  const Result<device::InlineDecision> inlined = decide(request, kind);
  if (!inlined) return inlined.error();
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = send_cq->second.verbs.get();
  attr.recv_cq = recv_cq->second.verbs.get();
  attr.srq = srq == srqs_.end() ? nullptr : srq->second.get();
  attr.cap.max_send_wr = request.send_wqebbs;
  attr.cap.max_recv_wr = request.recv_wrs;
  attr.cap.max_send_sge = request.send_wqebbs != 0 ? 1 : 0;
  attr.cap.max_recv_sge = request.recv_wrs != 0 ? request.max_recv_sge : 0;
  attr.qp_type = verbs_type(kind.transport);
  attr.sq_sig_all = kind.signal_all ? 1 : 0;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = pd_.get();
  attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
  mlx5dv_qp_init_attr dv{};
  dv.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
  dv.create_flags = scatter_flag(*inlined, request.inline_receive);
  VerbsQp qp{mlx5dv_create_qp(context_.get(), &attr, &dv)};
  if (qp == nullptr)
    return Error{errno, mem::explain_queue(errno, "the adapter makes no such queue pair")};
  return Made{std::move(qp), *inlined};
}

device::QpInfo Mlx5Device::adopt(Qp qp) {
  mlx5dv_qp dv{};
  mlx5dv_obj obj{};
  obj.qp.in = qp.verbs.get();
  obj.qp.out = &dv;
  (void)mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP);  // fails for no queue pair that libmlx5 made
  auto* record = reinterpret_cast<be32*>(dv.dbrec);
  device::QpInfo info;
  info.handle = device::QpHandle{next_handle_++};
  info.qpn = Qpn{qp.verbs->qp_num};
  info.inlined = qp.inlined;
  info.sq = {.buf = static_cast<std::byte*>(dv.sq.buf),
             .wqebb_count = dv.sq.wqe_cnt,
             .record = record + prm::record_send,
             .doorbell = static_cast<std::byte*>(dv.bf.reg),
             .qpn = info.qpn,
             .max_message = caps_.max_message};
  info.rq = {.buf = static_cast<std::byte*>(dv.rq.buf),
             .wqe_count = dv.rq.wqe_cnt,
             .stride = dv.rq.stride,
             .record = record + prm::record_receive};
  qps_.emplace(info.handle.value(), std::move(qp));
  return info;
}

Mlx5Device::Qp* Mlx5Device::find(device::QpHandle qp) noexcept {
  const auto at = qps_.find(qp.value());
  return at == qps_.end() ? nullptr : &at->second;
}

}  // namespace kilim::mlx5
