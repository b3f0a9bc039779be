// SPDX-License-Identifier: BSD-3-Clause
// Send WQEs as bytes, and queue pairs that are connected to each other.
#include <algorithm>
#include <cerrno>

#include <endian.h>

#include "kilim/detail/base/barrier.hh"
#include "kilim/detail/base/mmio.hh"
#include "rig.hh"

namespace kilim::exam {
namespace {

constexpr uint32_t block = 64, octoword = 16, most_octowords = 63;

template <typename T>
void append(std::vector<uint8_t>& to, T value) {
  const std::size_t at = to.size();
  to.resize(at + sizeof value);
  std::memcpy(to.data() + at, &value, sizeof value);
}

int init_mask(ibv_qp_type type) {
  if (type == IBV_QPT_RAW_PACKET) return IBV_QP_STATE | IBV_QP_PORT;
  if (type == IBV_QPT_UD) return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
  return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

int to_init(Queue& q) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = Device::all_access;
  return ibv_modify_qp(q.qp, &attr, init_mask(q.qp->qp_type));
}

int to_rtr(const Device& here, Queue& q, const Path& path) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = std::min(here.port.active_mtu, path.there.port.active_mtu);
  attr.dest_qp_num = path.qpn;
  attr.max_dest_rd_atomic = 16;
  attr.min_rnr_timer = path.timers.rnr_timer;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.dlid = path.there.port.lid;
  attr.ah_attr.is_global = here.has_gid && here.ethernet ? 1 : 0;
  attr.ah_attr.grh.hop_limit = path.hops;
  attr.ah_attr.grh.sgid_index =
      path.gid_index < 0 ? here.gid_index : static_cast<uint8_t>(path.gid_index);
  attr.ah_attr.grh.dgid = path.there.gid;
  const int both = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  const bool reliable = q.qp->qp_type == IBV_QPT_RC;
  return ibv_modify_qp(q.qp, &attr,
                       both | (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
}

}  // namespace

Wqe& Wqe::add_bytes(const void* from, std::size_t bytes) {
  const std::size_t at = body.size();
  body.resize(at + bytes);
  std::memcpy(body.data() + at, from, bytes);
  return *this;
}

Wqe& Wqe::data(uint64_t at, uint32_t bytes, uint32_t lkey) {
  append(body, htobe32(bytes));
  append(body, htobe32(lkey));
  append(body, htobe64(at));
  return *this;
}

Wqe& Wqe::data(const void* at, uint32_t bytes, uint32_t lkey) {
  return data(place(at), bytes, lkey);
}

Wqe& Wqe::remote(uint64_t at, uint32_t rkey) {
  append(body, htobe64(at));
  append(body, htobe32(rkey));
  append(body, uint32_t{0});
  return *this;
}

SendQueue::SendQueue(ibv_qp* qp) : qpn_(qp->qp_num) {
  mlx5dv_obj object{};
  object.qp = {qp, &view};
  mlx5dv_init_obj(&object, MLX5DV_OBJ_QP);
}

bool SendQueue::put(const Wqe& wqe) {
  const auto octowords =
      static_cast<uint32_t>((octoword + wqe.body.size() + octoword - 1) / octoword);
  if (octowords > most_octowords) return false;
  std::vector<uint8_t> all;
  append(all, htobe32(uint32_t{wqe.opmod} << 24 | (produced_ & 0xffff) << 8 | wqe.opcode));
  append(all, htobe32(qpn_ << 8 | octowords));
  append(all, htobe32(wqe.flags));
  append(all, htobe32(wqe.imm));
  std::copy_n(all.begin(), control_.size(), control_.begin());
  all.insert(all.end(), wqe.body.begin(), wqe.body.end());
  const std::size_t blocks = (all.size() + block - 1) / block;
  all.resize(blocks * block);
  auto* ring = static_cast<uint8_t*>(view.sq.buf);
  for (std::size_t i = 0; i < blocks; i++, produced_++)
    std::memcpy(ring + std::size_t{produced_ & (view.sq.wqe_cnt - 1)} * block,
                all.data() + i * block, block);
  return true;
}

// The record first, then eight bytes of the last WQE's control segment: PRM, "Posting a Work
// Request to Work Queue".
void SendQueue::ring() {
  if (rung_ == produced_) return;
  rung_ = produced_;
  before_doorbell_record();
  record_store(reinterpret_cast<be32*>(&view.dbrec[MLX5_SND_DBR]), be32{produced_ & 0xffff});
  before_doorbell();
  uint64_t doorbell = 0;
  std::memcpy(&doorbell, control_.data(), sizeof doorbell);
  mmio_store64(static_cast<std::byte*>(view.bf.reg), doorbell);
  flush_write_combining();
}

void Queue::receive(const void* at, uint32_t bytes, uint32_t lkey) {
  ibv_sge sge{place(at), bytes, lkey};
  ibv_recv_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  ibv_post_recv(qp, &wr, &bad);
}

int Queue::modify(ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

void Queue::destroy() {
  for (ibv_flow* rule : rules) ibv_destroy_flow(rule);
  rules.clear();
  ibv_destroy_qp(qp);
}

Completion Queue::run(const Wqe& wqe, Answer& answer) {
  if (!sq.post(wqe)) answer.not_run("the request is longer than a WQE may be");
  const auto done = sent.next();
  if (!done) answer.not_run("a request that the question is built on does not complete within 5 s");
  return *done;
}

Queue make_queue(const Device& device, const QpWish& wish) {
  Queue q;
  q.sent = wish.send_cq != nullptr
               ? *wish.send_cq
               : CompletionQueue::make(device, static_cast<int>(wish.send + 16));
  q.received =
      CompletionQueue::make(device, static_cast<int>(wish.receive + 16), {}, wish.receive_cq);
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = wish.type;
  attr.send_cq = q.sent.cq;
  attr.recv_cq = q.received.cq;
  attr.pd = device.pd;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  attr.cap = {wish.send, wish.receive, wish.sge, wish.sge, wish.inline_bytes};
  mlx5dv_qp_init_attr mlx5{};
  if (wish.mlx5_flags != 0) {
    mlx5.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
    mlx5.create_flags = static_cast<uint32_t>(wish.mlx5_flags);
  }
  q.qp = mlx5dv_create_qp(device.context, &attr, &mlx5);
  if (q.qp == nullptr)
    give_up(*device.answer, wish.type == IBV_QPT_RAW_PACKET
                                ? "a raw packet queue is refused (it wants CAP_NET_RAW)"
                                : "a queue pair is refused");
  q.sq = SendQueue(q.qp);
  return q;
}

int connect(const Device& here, Queue& q, const Path& path) {
  if (const int rc = to_init(q); rc != 0) return rc;
  if (q.qp->qp_type == IBV_QPT_RAW_PACKET) {
    if (const int rc = q.modify(IBV_QPS_RTR); rc != 0) return rc;
    return q.modify(IBV_QPS_RTS);
  }
  if (const int rc = to_rtr(here, q, path); rc != 0) return rc;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = path.timers.timeout;
  attr.retry_cnt = path.timers.retries;
  attr.rnr_retry = path.timers.rnr_retries;
  attr.max_rd_atomic = 16;
  const bool reliable = q.qp->qp_type == IBV_QPT_RC;
  return ibv_modify_qp(
      q.qp, &attr,
      IBV_QP_STATE | IBV_QP_SQ_PSN |
          (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
                    : 0));
}

Loop make_loop(const Device& device, const QpWish& wish, const Timers& timers) {
  Loop loop{make_queue(device, wish), make_queue(device, wish)};
  int rc = connect(device, loop.a, {device, loop.b.qp->qp_num, timers});
  if (rc == 0) rc = connect(device, loop.b, {device, loop.a.qp->qp_num, timers});
  if (rc != 0) give_up(*device.answer, "two queues of the port cannot be connected", rc);
  return loop;
}

Wqe rdma_write(const void* from, uint32_t bytes, uint32_t lkey, uint64_t to, uint32_t rkey) {
  return Wqe{.opcode = MLX5_OPCODE_RDMA_WRITE, .body = {}}.remote(to, rkey).data(from, bytes, lkey);
}

Wqe rdma_read(const void* into, uint32_t bytes, uint32_t lkey, uint64_t from, uint32_t rkey) {
  return Wqe{.opcode = MLX5_OPCODE_RDMA_READ, .body = {}}
      .remote(from, rkey)
      .data(into, bytes, lkey);
}

Wqe send(const void* from, uint32_t bytes, uint32_t lkey) {
  return Wqe{.opcode = MLX5_OPCODE_SEND, .body = {}}.data(from, bytes, lkey);
}

}  // namespace kilim::exam
