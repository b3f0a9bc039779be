// SPDX-License-Identifier: BSD-3-Clause
// For tests: the virtual device attached to this process, and two reliable connections of it that
// are each other's peer, with completion queues and protection domains of their own. Everything
// goes through unmodified libibverbs and libmlx5. One thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "ut.hh"
#include "vhca/core/journal.hh"
#include "vhca/entry/attach.hh"
#include "vhca/hca/hca.hh"

namespace kilim::test {

using vhca::Journal;
using vhca::entry::Attached;

// The device of this name; attached at first use, for the whole process.
inline Attached* attach_device(const char* name = "vhca0", const char* profile = "cx6dx") {
  DeviceSpec config;
  config.name = name;
  config.profile = profile;
  auto attached = vhca::entry::attach(config);
  if (!attached) std::printf("attach: %s\n", attached.error().what);
  return attached ? *attached : nullptr;
}

inline ibv_context* open_device(const char* name = "vhca0") {
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_context* context = nullptr;
  for (int i = 0; list != nullptr && list[i] != nullptr; i++) {
    if (std::strcmp(ibv_get_device_name(list[i]), name) == 0) context = ibv_open_device(list[i]);
  }
  if (list != nullptr) ibv_free_device_list(list);
  return context;
}

// The device that the tests of a program share.
inline Attached& shared() {
  static Attached* attached = attach_device();
  return *attached;
}
inline ibv_context* context() {
  static ibv_context* c = (shared(), open_device());
  return c;
}
inline uint64_t journal_count(Journal::Kind k) {
  return shared().hca()->context.journal->count(k);
}

// One completion, with the device run meanwhile. False: none came.
inline bool wait_for(ibv_cq* cq, ibv_wc& wc) {
  for (int i = 0; i < 20000; i++) {
    int n = ibv_poll_cq(cq, 1, &wc);
    if (n != 0) return n == 1;
    shared().poll();
  }
  return false;
}
inline ibv_wc_status wait_status(ibv_cq* cq) {
  ibv_wc wc{};
  return wait_for(cq, wc) ? wc.status : IBV_WC_GENERAL_ERR;
}

constexpr unsigned all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

inline ibv_qp_state state_of(ibv_qp* qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0 ? attr.qp_state : IBV_QPS_UNKNOWN;
}

// To RTS, connected to `peer`; `access` is what the other side may do. 0 or an errno.
inline int connect(ibv_qp* qp, uint32_t peer, unsigned access = all_access, uint8_t rnr_retry = 1) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qp_access_flags = access;
  int err =
      ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (err != 0) return err;
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = peer;
  a.max_dest_rd_atomic = 16;
  a.min_rnr_timer = 1;
  a.ah_attr.is_global = 1;
  a.ah_attr.port_num = 1;
  a.ah_attr.grh.hop_limit = 1;
  ibv_query_gid(qp->context, 1, 0, &a.ah_attr.grh.dgid);
  err = ibv_modify_qp(qp, &a,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (err != 0) return err;
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 8;
  a.retry_cnt = 1;
  a.rnr_retry = rnr_retry;
  a.max_rd_atomic = 16;
  return ibv_modify_qp(qp, &a,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

constexpr uint64_t rc_ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
                            IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_LOCAL_INV |
                            IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

struct Shape {
  uint64_t ops = 0;     // ibv_wr operations; 0: only ibv_post_send
  uint64_t dv_ops = 0;  // mlx5dv ones
  uint32_t inline_bytes = 64;
  ibv_qp_type type = IBV_QPT_RC;
  uint32_t create_flags = 0;  // MLX5DV_QP_CREATE_*
  uint8_t rnr_retry = 1;      // 7: for ever
};

inline ibv_qp* create_qp(ibv_pd* pd, ibv_cq* cq, const Shape& shape = {}) {
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = shape.type;
  attr.send_cq = attr.recv_cq = cq;
  attr.pd = pd;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  attr.cap = {32, 32, 4, 4, shape.inline_bytes};
  if (shape.ops != 0) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = shape.ops;
  }
  mlx5dv_qp_init_attr dv{};
  if (shape.dv_ops != 0) {
    dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
    dv.send_ops_flags = shape.dv_ops;
  }
  if (shape.create_flags != 0) {
    dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
    dv.create_flags = shape.create_flags;
  }
  return mlx5dv_create_qp(pd->context, &attr, &dv);
}

// A region of zeroes.
class Region {
 public:
  Region(ibv_pd* pd, std::size_t bytes, unsigned access = all_access)
      : memory_(bytes + 64), mr_(ibv_reg_mr(pd, data(), bytes, static_cast<int>(access))) {}
  ~Region() { release(); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  void release() {
    if (mr_ != nullptr) ibv_dereg_mr(mr_);
    mr_ = nullptr;
  }
  uint8_t* data() {
    return memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64;
  }
  uint64_t at(std::size_t offset = 0) { return reinterpret_cast<uintptr_t>(data()) + offset; }
  ibv_mr* mr() { return mr_; }
  ibv_sge sge(std::size_t offset, uint32_t bytes) { return {at(offset), bytes, mr_->lkey}; }

 private:
  std::vector<uint8_t> memory_;
  ibv_mr* mr_;
};

// Sides 0 and 1.
struct Loop {
  explicit Loop(const Shape& shape = {}, unsigned access1 = all_access,
                ibv_comp_channel* channel = nullptr) {
    for (int i = 0; i < 2; i++) {
      pd[i] = ibv_alloc_pd(context());
      cq[i] = ibv_create_cq(context(), 128, nullptr, channel, 0);
      qp[i] = create_qp(pd[i], cq[i], shape);
    }
    ok = qp[0] != nullptr && qp[1] != nullptr &&
         connect(qp[0], qp[1]->qp_num, all_access, shape.rnr_retry) == 0 &&
         connect(qp[1], qp[0]->qp_num, access1) == 0;
  }
  ~Loop() {
    for (int i = 0; i < 2; i++) {
      if (qp[i] != nullptr) ibv_destroy_qp(qp[i]);
      ibv_destroy_cq(cq[i]);
      ibv_dealloc_pd(pd[i]);
    }
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Posts on side 0, signalled. 0 or an errno.
  int post(ibv_wr_opcode opcode, std::initializer_list<ibv_sge> sges, uint64_t remote = 0,
           uint32_t rkey = 0, unsigned flags = 0) {
    ibv_send_wr wr = request(opcode, sges, flags);
    wr.wr.rdma = {remote, rkey};
    return post(wr);
  }
  int post_atomic(ibv_wr_opcode opcode, ibv_sge sge, uint64_t remote, uint32_t rkey,
                  uint64_t add_or_compare, uint64_t swap = 0) {
    ibv_send_wr wr = request(opcode, {sge}, 0);
    wr.wr.atomic = {remote, add_or_compare, swap, rkey};
    return post(wr);
  }
  int post_recv(int side, std::initializer_list<ibv_sge> sges, uint64_t id = 0) {
    ibv_recv_wr wr{}, *bad = nullptr;
    sges_.assign(sges);
    wr.wr_id = id;
    wr.sg_list = sges_.data();
    wr.num_sge = static_cast<int>(sges_.size());
    return ibv_post_recv(qp[side], &wr, &bad);
  }
  ibv_wc_status status() { return wait_status(cq[0]); }

  bool ok = false;
  ibv_pd* pd[2]{};
  ibv_cq* cq[2]{};
  ibv_qp* qp[2]{};

 private:
  ibv_send_wr request(ibv_wr_opcode opcode, std::initializer_list<ibv_sge> sges, unsigned flags) {
    sges_.assign(sges);
    ibv_send_wr wr{};
    wr.wr_id = 42;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED | flags;
    wr.imm_data = 0x11223344;
    wr.sg_list = sges_.data();
    wr.num_sge = static_cast<int>(sges_.size());
    return wr;
  }
  int post(ibv_send_wr& wr) {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp[0], &wr, &bad);
  }
  std::vector<ibv_sge> sges_;
};

inline void fill(uint8_t* at, std::size_t bytes, uint8_t seed) {
  for (std::size_t i = 0; i < bytes; i++) at[i] = static_cast<uint8_t>(seed + i * 7 + i / 251);
}
inline bool all_equal(const uint8_t* at, std::size_t bytes, uint8_t value) {
  for (std::size_t i = 0; i < bytes; i++) {
    if (at[i] != value) return false;
  }
  return true;
}

}  // namespace kilim::test
