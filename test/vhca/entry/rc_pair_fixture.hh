// SPDX-License-Identifier: BSD-3-Clause
// For tests: two reliable connections of one context that are each other's peer, and a region both
// may use. Plain verbs, nothing of Kilim. One thread; released by the destructor.
#pragma once

#include <cstdint>
#include <cstring>

#include <infiniband/verbs.h>
#include <sys/mman.h>

namespace kilim::test {

class RcPair {
 public:
  // `events`: completions of the queue go to channel() once it is armed. `cq`: the queue to use,
  // taken over.
  explicit RcPair(ibv_context* context, bool events = false, ibv_cq* cq = nullptr) {
    if (context == nullptr) return;
    pd_ = ibv_alloc_pd(context);
    channel_ = events ? ibv_create_comp_channel(context) : nullptr;
    cq_ = cq != nullptr ? cq : ibv_create_cq(context, 64, nullptr, channel_, 0);
    if (pd_ == nullptr || cq_ == nullptr) return;
    // Pages of their own: after ibv_fork_init() a child does not have them.
    void* memory =
        ::mmap(nullptr, 2 * half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    memory_ = static_cast<uint8_t*>(memory);
    mr_ = ibv_reg_mr(pd_, memory_, 2 * half,
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    for (ibv_qp*& qp : qps_) qp = create_qp();
    ok_ = mr_ != nullptr && qps_[0] != nullptr && qps_[1] != nullptr &&
          connect(context, qps_[0], qps_[1]->qp_num) && connect(context, qps_[1], qps_[0]->qp_num);
  }
  ~RcPair() {
    for (ibv_qp* qp : qps_) {
      if (qp != nullptr) ibv_destroy_qp(qp);
    }
    if (mr_ != nullptr) ibv_dereg_mr(mr_);
    if (cq_ != nullptr) ibv_destroy_cq(cq_);
    if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
    if (pd_ != nullptr) ibv_dealloc_pd(pd_);
    if (memory_ != nullptr) ::munmap(memory_, 2 * half);
  }
  RcPair(const RcPair&) = delete;
  RcPair& operator=(const RcPair&) = delete;

  [[nodiscard]] bool ok() const { return ok_; }
  ibv_cq* cq() { return cq_; }
  ibv_comp_channel* channel() { return channel_; }
  ibv_qp* qp(unsigned n) { return qps_[n]; }
  ibv_pd* pd() { return pd_; }
  uint8_t* from() { return memory_; }
  uint8_t* to() { return memory_ + half; }

  // An RDMA write of `bytes` bytes from from() to to(), signalled. 0 or an errno.
  int post_write(uint32_t bytes) { return post(bytes, IBV_WR_RDMA_WRITE); }
  int post(uint32_t bytes, ibv_wr_opcode opcode) {
    ibv_sge sge{reinterpret_cast<uintptr_t>(from()), bytes, mr_->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = bytes;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(to());
    wr.wr.rdma.rkey = mr_->rkey;
    return ibv_post_send(qps_[0], &wr, &bad);
  }

  // Connects the first queue pair of each, which may be of two devices on one wire.
  bool connect_to(RcPair& other) {
    return reconnect(qps_[0], other.qps_[0]) && reconnect(other.qps_[0], qps_[0]);
  }
  // The same write as post_write(), into the other pair's memory.
  int post_write_to(RcPair& other, uint32_t bytes) {
    ibv_sge sge{reinterpret_cast<uintptr_t>(from()), bytes, mr_->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(other.to());
    wr.wr.rdma.rkey = other.mr_->rkey;
    return ibv_post_send(qps_[0], &wr, &bad);
  }

  static constexpr std::size_t half = 4096;

 private:
  ibv_qp* create_qp() {
    ibv_qp_init_attr attr{};
    attr.send_cq = cq_;
    attr.recv_cq = cq_;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {16, 16, 1, 1, 0};
    return ibv_create_qp(pd_, &attr);
  }

  static bool reconnect(ibv_qp* qp, ibv_qp* peer) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RESET;
    return ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0 && connect(peer->context, qp, peer->qp_num);
  }

  // `context`: where the peer is.
  static bool connect(ibv_context* context, ibv_qp* qp, uint32_t peer) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
      return false;
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = peer;
    a.max_dest_rd_atomic = 1;
    a.min_rnr_timer = 12;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    a.ah_attr.grh.hop_limit = 1;
    if (ibv_query_gid(context, 1, 0, &a.ah_attr.grh.dgid) != 0) return false;
    if (ibv_modify_qp(qp, &a,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
      return false;
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 14;
    a.retry_cnt = 7;
    a.rnr_retry = 7;
    a.max_rd_atomic = 1;
    return ibv_modify_qp(qp, &a,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
  }

  bool ok_ = false;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qps_[2] = {};
  uint8_t* memory_ = nullptr;
};

// Opens the device of this name; null: not listed, or it does not open.
inline ibv_context* open_by_name(const char* name) {
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_context* context = nullptr;
  for (int i = 0; list != nullptr && list[i] != nullptr; i++) {
    if (std::strcmp(ibv_get_device_name(list[i]), name) == 0) context = ibv_open_device(list[i]);
  }
  if (list != nullptr) ibv_free_device_list(list);
  return context;
}

inline bool is_listed(const char* name) {
  ibv_device** list = ibv_get_device_list(nullptr);
  bool found = false;
  for (int i = 0; list != nullptr && list[i] != nullptr; i++) {
    found = found || std::strcmp(ibv_get_device_name(list[i]), name) == 0;
  }
  if (list != nullptr) ibv_free_device_list(list);
  return found;
}

}  // namespace kilim::test
