// SPDX-License-Identifier: BSD-3-Clause
#include "twin_fixture.hh"

#include "kilim/prm/doorbell.hh"
#include "vhca/hca/hca.hh"

namespace kilim::test {

GoldenDevice::GoldenDevice(const char* name, const char* profile) {
  DeviceSpec config;
  config.name = name;
  config.profile = profile;
  Result<vhca::entry::Attached*> attached = vhca::entry::attach(config);
  if (!attached) return;
  attached_ = *attached;
  ibv_device** list = ibv_get_device_list(nullptr);
  for (ibv_device** d = list; d != nullptr && *d != nullptr; d++) {
    if (std::strcmp(ibv_get_device_name(*d), name) != 0) continue;
    mlx5dv_context_attr attr{};
    attr.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
    context = mlx5dv_open_device(*d, &attr);
  }
  ibv_free_device_list(list);
  if (context != nullptr) pd = ibv_alloc_pd(context);
}

GoldenDevice::~GoldenDevice() {
  if (pd != nullptr) ibv_dealloc_pd(pd);
  if (context != nullptr) ibv_close_device(context);
}

const vhca::tpt::Mkey& GoldenDevice::key(uint32_t lkey) const {
  return *attached_->hca()->keys.at(lkey >> 8);
}

GoldenQp::GoldenQp(GoldenDevice& device, ibv_qp_type type) : device_(device) {
  cq_ = ibv_create_cq(device.context, 64, nullptr, nullptr, 0);
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = attr.recv_cq = cq_;
  attr.qp_type = type;
  attr.cap.max_send_wr = 8;
  attr.cap.max_recv_wr = 8;
  attr.cap.max_send_sge = 8;
  attr.cap.max_recv_sge = 1;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = device.pd;
  attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
  if (type == IBV_QPT_RAW_PACKET) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
    attr.max_tso_header = max_tso_header;
  }
  mlx5dv_qp_init_attr dv_attr{};
  if (type == IBV_QPT_RC) {
    attr.cap.max_inline_data = 828;  // 52 entries
    attr.send_ops_flags |= IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
                           IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
                           IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                           IBV_QP_EX_WITH_LOCAL_INV;
    dv_attr.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
    dv_attr.send_ops_flags = MLX5DV_QP_EX_WITH_MR_LIST | MLX5DV_QP_EX_WITH_MR_INTERLEAVED |
                             MLX5DV_QP_EX_WITH_MKEY_CONFIGURE;
  }
  qp = mlx5dv_create_qp(device.context, &attr, &dv_attr);
  if (qp == nullptr) return;
  ex = ibv_qp_to_qp_ex(qp);
  dv = mlx5dv_qp_ex_from_ibv_qp_ex(ex);
  mlx5dv_obj obj{};
  obj.qp.in = qp;
  obj.qp.out = &memory_;
  ready_ = mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP) == 0 && connect();
  geometry = {.buf = static_cast<std::byte*>(memory_.sq.buf),
              .wqebb_count = memory_.sq.wqe_cnt,
              .record = reinterpret_cast<be32*>(memory_.dbrec) + prm::record_send,
              .doorbell = static_cast<std::byte*>(memory_.bf.reg),
              .qpn = Qpn{qp->qp_num}};
}

GoldenQp::~GoldenQp() {
  if (qp != nullptr) ibv_destroy_qp(qp);
  if (cq_ != nullptr) ibv_destroy_cq(cq_);
}

bool GoldenQp::connect() {
  const bool rc = qp->qp_type == IBV_QPT_RC;
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  const int init = IBV_QP_STATE | IBV_QP_PORT | (rc ? IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS : 0);
  if (ibv_modify_qp(qp, &a, init) != 0) return false;
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = qp->qp_num;
  a.max_dest_rd_atomic = 16;
  a.min_rnr_timer = 12;
  a.ah_attr.is_global = 1;
  a.ah_attr.port_num = 1;
  a.ah_attr.grh.hop_limit = 64;
  if (ibv_query_gid(device_.context, 1, 0, &a.ah_attr.grh.dgid) != 0) return false;
  const int rtr =
      IBV_QP_STATE | (rc ? IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
                         : 0);
  if (ibv_modify_qp(qp, &a, rtr) != 0) return false;
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 16;
  a.retry_cnt = a.rnr_retry = 7;
  a.max_rd_atomic = 16;
  const int rts = IBV_QP_STATE | (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC
                                     : 0);
  return ibv_modify_qp(qp, &a, rts) == 0;
}

std::vector<uint8_t> GoldenQp::blocks(uint32_t first, uint32_t count) const {
  std::vector<uint8_t> out(std::size_t{count} * 64);
  const auto* ring = static_cast<const uint8_t*>(memory_.sq.buf);
  for (uint32_t i = 0; i < count; i++)
    std::memcpy(&out[std::size_t{i} * 64],
                ring + std::size_t{(first + i) % memory_.sq.wqe_cnt} * 64, 64);
  if (count != 0) std::memset(&out[4], 0, 3);  // the queue pair's number
  return out;
}

uint32_t GoldenQp::posted() const {
  return reinterpret_cast<const be32*>(memory_.dbrec)[prm::record_send].host();
}

ibv_wc_status GoldenQp::wait() {
  ibv_wc wc{};
  for (int turn = 0; turn < 1000; turn++) {
    device_.run();
    if (ibv_poll_cq(cq_, 1, &wc) == 1) return wc.status;
  }
  return IBV_WC_GENERAL_ERR;
}

int first_difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  for (std::size_t i = 0; i < a.size() && i < b.size(); i++) {
    if (a[i] != b[i]) return static_cast<int>(i);
  }
  return a.size() == b.size() ? -1 : static_cast<int>(a.size() < b.size() ? a.size() : b.size());
}

}  // namespace kilim::test
