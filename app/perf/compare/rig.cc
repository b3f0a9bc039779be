// SPDX-License-Identifier: BSD-3-Clause
// Opens the device, makes the two sides alike and lays out the memory that their requests name.
#include "perf/compare/rig.hh"

#include <cstdlib>
#include <cstring>
#include <new>

#include "kilim/prm/doorbell.hh"
#include "kilim/queue.hh"

namespace kilim::perf {
namespace {

constexpr std::size_t memory_bytes = std::size_t{1} << 20;
constexpr uint32_t piece_stride = 4160;  // an odd number of cache lines
constexpr uint32_t piece_bytes = 64;
constexpr uint32_t cq_entries = 128;
constexpr uint32_t most_inline = 828;  // an inline list of 52 entries
constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

ibv_context* open_named(const char* name) {
  // libmlx5 copies short requests into the doorbell page too unless told not to. There is nothing
  // to gain from it here: without the copy it is faster and takes fewer instructions.
  (void)::setenv("MLX5_SHUT_UP_BF", "1", 1);
  // ibv_poll_cq() locks unless told here, whatever the flags of its queue say (libmlx5 verbs.c,
  // create_cq(): they are for ibv_start_poll()); Kilim's queues never lock.
  (void)::setenv("MLX5_SINGLE_THREADED", "1", 1);
  ibv_context* context = nullptr;
  ibv_device** list = ibv_get_device_list(nullptr);
  for (ibv_device** d = list; d != nullptr && *d != nullptr; d++) {
    if (std::strcmp(ibv_get_device_name(*d), name) != 0) continue;
    mlx5dv_context_attr attr{};
    attr.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
    context = mlx5dv_open_device(*d, &attr);
  }
  ibv_free_device_list(list);
  return context;
}

}  // namespace

std::string RigDevice::open(const std::string& name) {
  DeviceSpec config;
  config.name = name;
  Result<vhca::entry::Attached*> got = vhca::entry::attach(config);
  if (!got) return std::string("the virtual device cannot be attached: ") + got.error().what;
  attached_ = *got;
  context.reset(open_named(name.c_str()));
  if (!context) return "the virtual device cannot be opened";
  pd.reset(ibv_alloc_pd(context.get()));
  ibv_td_init_attr td_attr{};
  domain.reset(ibv_alloc_td(context.get(), &td_attr));
  if (!pd || !domain) return "no protection or thread domain";
  ibv_parent_domain_init_attr attr{};
  attr.pd = pd.get();
  attr.td = domain.get();
  lockless.reset(ibv_alloc_parent_domain(context.get(), &attr));
  return lockless ? "" : "no parent domain";
}

std::string RigQueue::create(RigDevice& device, uint32_t requests) {
  if (std::string why = create_cq(device); !why.empty()) return why;
  if (std::string why = make_qp(device, requests); !why.empty()) return why;
  mlx5dv_mkey_init_attr attr{};
  attr.pd = device.pd.get();
  attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
  attr.max_entries = 64;
  key.reset(mlx5dv_create_mkey(&attr));
  return key ? "" : "no indirect key";
}

std::string RigQueue::create_cq(RigDevice& device) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = cq_entries;
  attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  attr.parent_domain = device.lockless.get();
  cq_ex = ibv_create_cq_ex(device.context.get(), &attr);
  if (cq_ex == nullptr) return "no completion queue";
  cq = ibv_cq_ex_to_cq(cq_ex);
  cq_.reset(cq);
  mlx5dv_cq memory{};
  mlx5dv_obj obj{};
  obj.cq.in = cq;
  obj.cq.out = &memory;
  if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ) != 0) return "libmlx5 shows no completion queue memory";
  cq_geometry = {.buf = static_cast<std::byte*>(memory.buf),
                 .cqe_count = memory.cqe_cnt,
                 .cqe_bytes = memory.cqe_size,
                 .record = reinterpret_cast<be32*>(memory.dbrec),
                 .cqn = Cqn{memory.cqn}};
  queue::preset(cq_geometry);  // as Kilim's own devices do; libmlx5 reads it as before
  return "";
}

std::string RigQueue::make_qp(RigDevice& device, uint32_t requests) {
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {.max_send_wr = requests,
              .max_recv_wr = round_requests,
              .max_send_sge = 16,
              .max_recv_sge = 1,
              .max_inline_data = requests == round_requests ? most_inline : 0};
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = device.lockless.get();
  attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
                        IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV;
  mlx5dv_qp_init_attr dv_attr{};
  dv_attr.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
  dv_attr.send_ops_flags =
      MLX5DV_QP_EX_WITH_MR_LIST | MLX5DV_QP_EX_WITH_MKEY_CONFIGURE | MLX5DV_QP_EX_WITH_RAW_WQE;
  qp_.reset(mlx5dv_create_qp(device.context.get(), &attr, &dv_attr));
  if (!qp_) return "no queue pair";
  ex = ibv_qp_to_qp_ex(qp_.get());
  dv = mlx5dv_qp_ex_from_ibv_qp_ex(ex);
  mlx5dv_qp memory{};
  mlx5dv_obj obj{};
  obj.qp.in = qp_.get();
  obj.qp.out = &memory;
  if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP) != 0) return "libmlx5 shows no send queue memory";
  sq_geometry = {.buf = static_cast<std::byte*>(memory.sq.buf),
                 .wqebb_count = memory.sq.wqe_cnt,
                 .record = reinterpret_cast<be32*>(memory.dbrec) + prm::record_send,
                 .doorbell = static_cast<std::byte*>(memory.bf.reg),
                 .qpn = Qpn{qp_->qp_num}};
  return connect_to_itself(device, qp());
}

std::string connect_to_itself(RigDevice& device, ibv_qp* qp) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qp_access_flags = all_access & ~IBV_ACCESS_LOCAL_WRITE;
  int mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
  if (ibv_modify_qp(qp, &a, mask) != 0) return "the queue pair does not reach INIT";
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_4096;
  a.dest_qp_num = qp->qp_num;
  a.max_dest_rd_atomic = 16;
  a.min_rnr_timer = 12;
  a.ah_attr.is_global = 1;
  a.ah_attr.port_num = 1;
  a.ah_attr.grh.hop_limit = 64;
  if (ibv_query_gid(device.context.get(), 1, 0, &a.ah_attr.grh.dgid) != 0) return "no GID";
  mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (ibv_modify_qp(qp, &a, mask) != 0) return "the queue pair does not reach RTR";
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 16;
  a.retry_cnt = a.rnr_retry = 7;
  a.max_rd_atomic = 16;
  mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
         IBV_QP_MAX_QP_RD_ATOMIC;
  return ibv_modify_qp(qp, &a, mask) == 0 ? "" : "the queue pair does not reach RTS";
}

std::string Rig::open(const std::string& device_name) {
  if (std::string why = device.open(device_name); !why.empty()) return why;
  if (std::string why = ours.create(device); !why.empty()) return why;
  if (std::string why = theirs.create(device); !why.empty()) return why;
  wr_ids.resize(ours.sq_geometry.wqebb_count);
  sq = std::make_unique<queue::Sq>(ours.sq_geometry, wr_ids);
  cq = std::make_unique<queue::Cq>(ours.cq_geometry);
  memory.reset(new (std::align_val_t{4096}) std::byte[memory_bytes]{});
  region.reset(ibv_reg_mr(device.pd.get(), memory.get(), memory_bytes, all_access));
  if (!region) return "the memory cannot be registered";
  lay_out();
  return "";
}

// Sources in the lower half of the memory, targets in the upper.
void Rig::lay_out() noexcept {
  const auto base = reinterpret_cast<uint64_t>(memory.get());
  for (uint32_t i = 0; i < most_pieces; i++) {
    const uint64_t at = base + uint64_t{i} * piece_stride;
    pieces[i] = {at, piece_bytes, Lkey{region->lkey}};
    sges[i] = {at, piece_bytes, region->lkey};
  }
  for (uint32_t i = 0; i < round_requests; i++) {
    const uint64_t target = pieces[i].address + memory_bytes / 2;
    our_writes[i] = {pieces[i], target, i};
    their_writes[i] = {sges[i], target, i};
  }
  target_key = region->rkey;
  std::byte* const behind = memory.get() + memory_bytes / 4;
  for (std::size_t i = 0; i < scattered.size(); i++) scattered[i] = behind + i * piece_stride;
  packed = behind + 17 * piece_stride;
  block = memory.get() + memory_bytes / 4 * 3;
  block_target = block + block_bytes + 2048;  // not at the same place of a page
}

bool Rig::settle() noexcept {
  bool good = true;
  device.run();
  std::array<queue::Completion, round_requests> done;
  for (uint32_t n; (n = cq->poll(done)) != 0;) {
    for (uint32_t i = 0; i < n; i++) {
      good = good && done[i].ok();
      (void)sq->retire(done[i].wqe_counter);
    }
  }
  std::array<ibv_wc, round_requests> wc;
  for (int n; (n = ibv_poll_cq(theirs.cq, round_requests, wc.data())) > 0;) {
    for (int i = 0; i < n; i++)
      good = good && wc[static_cast<std::size_t>(i)].status == IBV_WC_SUCCESS;
  }
  return good && sq->idle();
}

}  // namespace kilim::perf
