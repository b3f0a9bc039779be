// SPDX-License-Identifier: BSD-3-Clause
// "Refused as on the card": one case a row of the table, for what exists already. What a
// card, mlx5_ib or libmlx5 refuses is refused with the same error, and what is not reported cannot
// be had.
#include <algorithm>
#include <cerrno>
#include <span>

#include "fabric_fixture.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/umr_seg.hh"

namespace refused_ut {
namespace {

using namespace kilim::test;
namespace prm = kilim::prm;

// A queue pair whose send queue the test writes itself.
class HandPost {
 public:
  explicit HandPost(ibv_qp* qp) : qp_(qp) {
    mlx5dv_obj obj{};
    obj.qp = {qp, &dv_};
    EQUAL(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
  }
  // `body` follows the control segment; its imm is `imm`.
  void post(prm::Opcode opcode, uint32_t imm, std::span<const uint8_t> body) {
    auto ds = static_cast<uint32_t>(1 + (body.size() + 15) / 16);
    std::vector<uint8_t> wqe(ds * 16);
    prm::CtrlSeg ctrl{};
    ctrl.opmod_idx_opcode = kilim::be32{uint32_t{pi_} << 8 | static_cast<uint8_t>(opcode)};
    ctrl.qpn_ds = kilim::be32{qp_->qp_num << 8 | ds};
    ctrl.fm_ce_se = 0x08;
    ctrl.imm = kilim::be32{imm};
    std::memcpy(wqe.data(), &ctrl, sizeof ctrl);
    std::memcpy(wqe.data() + sizeof ctrl, body.data(), body.size());
    auto* ring = static_cast<uint8_t*>(dv_.sq.buf);
    for (std::size_t i = 0; i < wqe.size(); i++)
      ring[(pi_ * 64u + i) % (dv_.sq.wqe_cnt * 64u)] = wqe[i];
    pi_ = static_cast<uint16_t>(pi_ + (ds + 3) / 4);
    __atomic_store_n(&dv_.dbrec[1], kilim::be32{pi_}.raw(), __ATOMIC_RELEASE);
    uint64_t first = 0;
    std::memcpy(&first, wqe.data(), 8);
    __atomic_store_n(static_cast<uint64_t*>(dv_.bf.reg), first, __ATOMIC_RELEASE);
  }

 private:
  ibv_qp* qp_;
  mlx5dv_qp dv_{};
  uint16_t pi_ = 0;
};

// The body of a UMR WQE: control, key context, then `list`.
std::vector<uint8_t> umr_body(const prm::UmrCtrlSeg& ctrl, const prm::MkeyContextSeg& context,
                              std::span<const uint8_t> list) {
  std::vector<uint8_t> body(sizeof ctrl + sizeof context + list.size());
  std::memcpy(body.data(), &ctrl, sizeof ctrl);
  std::memcpy(body.data() + sizeof ctrl, &context, sizeof context);
  std::copy(list.begin(), list.end(), body.begin() + sizeof ctrl + sizeof context);
  return body;
}

// ib_core: what a peer may change its owner may change too.
void remote_writing_needs_local_writing() {
  ibv_pd* pd = ibv_alloc_pd(context());
  alignas(64) uint8_t memory[64];
  for (const int remote : {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC}) {
    errno = 0;
    CU_ASSERT_PTR_NULL(ibv_reg_mr(pd, memory, sizeof(memory), remote));
    EQUAL(errno, EINVAL);
  }
  EQUAL(ibv_dealloc_pd(pd), 0);
}

void to_rts(ibv_qp* raw) {
  ibv_qp_attr a{};
  a.port_num = 1;
  a.qp_state = IBV_QPS_INIT;
  EQUAL(ibv_modify_qp(raw, &a, IBV_QP_STATE | IBV_QP_PORT), 0);
  a.qp_state = IBV_QPS_RTR;
  EQUAL(ibv_modify_qp(raw, &a, IBV_QP_STATE), 0);
  a.qp_state = IBV_QPS_RTS;
  EQUAL(ibv_modify_qp(raw, &a, IBV_QP_STATE), 0);
}

struct Queues {
  Queues() : pd(ibv_alloc_pd(context())), cq(ibv_create_cq(context(), 64, nullptr, nullptr, 0)) {}
  ~Queues() {
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
  }
  ibv_pd* pd;
  ibv_cq* cq;
};

void umr_builders_on_a_raw_packet_queue() {
  Queues c;
  for (uint64_t dv :
       {uint64_t{MLX5DV_QP_EX_WITH_MKEY_CONFIGURE}, uint64_t{MLX5DV_QP_EX_WITH_MR_LIST},
        uint64_t{MLX5DV_QP_EX_WITH_MR_INTERLEAVED}}) {
    errno = 0;
    CU_ASSERT_PTR_NULL(create_qp(c.pd, c.cq, {IBV_QP_EX_WITH_SEND, dv, 64, IBV_QPT_RAW_PACKET}));
    EQUAL(errno, EOPNOTSUPP);
  }
}

void a_umr_on_a_raw_send_queue_is_a_local_operation_error() {
  Queues c;
  ibv_qp* raw = create_qp(c.pd, c.cq, {0, 0, 0, IBV_QPT_RAW_PACKET});
  CU_ASSERT_PTR_NOT_NULL_FATAL(raw);
  to_rts(raw);
  mlx5dv_mkey_init_attr attr{};
  attr.pd = c.pd;
  attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
  attr.max_entries = 4;
  mlx5dv_mkey* key = mlx5dv_create_mkey(&attr);
  uint64_t umrs = journal_count(Journal::Kind::umr);
  std::vector<uint8_t> body = umr_body({}, {}, std::vector<uint8_t>(64));
  HandPost(raw).post(prm::Opcode::umr, key->lkey, body);
  EQUAL(wait_status(c.cq), IBV_WC_LOC_QP_OP_ERR);
  EQUAL(journal_count(Journal::Kind::umr), umrs);
  EQUAL(state_of(raw), IBV_QPS_SQE);
  mlx5dv_destroy_mkey(key);
  ibv_destroy_qp(raw);
}

// The same WQE by pointer, once with the list where it may lie and once 64 bytes beside.
ibv_wc_status umr_by_pointer(uint64_t offset) {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  Region lists(l.pd[0], 8192), a(l.pd[0], 4096);
  mlx5dv_mkey_init_attr attr{};
  attr.pd = l.pd[0];
  attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
  attr.max_entries = 4;
  mlx5dv_mkey* key = mlx5dv_create_mkey(&attr);
  uint64_t aligned = (lists.at() + 2047) / 2048 * 2048;
  prm::Klm klm{kilim::be32{64}, kilim::be32{a.mr()->lkey}, kilim::be64{a.at()}};
  std::memcpy(lists.data() + (aligned + offset - lists.at()), &klm, sizeof klm);
  prm::UmrCtrlSeg ctrl{};
  ctrl.klm_octowords = kilim::be16{4};
  ctrl.mkey_mask = kilim::be64{prm::umr::mask_free | prm::umr::mask_len};
  prm::MkeyContextSeg mkc{};
  mkc.len = kilim::be64{64};
  prm::DataSeg pointer{kilim::be32{64}, kilim::be32{lists.mr()->lkey},
                       kilim::be64{aligned + offset}};
  std::vector<uint8_t> bytes(sizeof pointer);
  std::memcpy(bytes.data(), &pointer, sizeof pointer);
  HandPost(l.qp[0]).post(prm::Opcode::umr, key->lkey, umr_body(ctrl, mkc, bytes));
  ibv_wc wc{};
  bool came = wait_for(l.cq[0], wc);
  mlx5dv_destroy_mkey(key);
  return came ? wc.status : IBV_WC_GENERAL_ERR;
}

void a_list_by_pointer_must_be_aligned() {
  EQUAL(umr_by_pointer(0), IBV_WC_SUCCESS);
  EQUAL(umr_by_pointer(64), IBV_WC_MW_BIND_ERR);
  EQUAL(umr_by_pointer(1024), IBV_WC_MW_BIND_ERR);
}

void scatter_to_cqe_is_a_wish_on_a_raw_queue() {
  Queues c;
  Shape shape{0, 0, 0, IBV_QPT_RAW_PACKET, MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE};
  ibv_qp* raw = create_qp(c.pd, c.cq, shape);
  CU_ASSERT_PTR_NOT_NULL_FATAL(raw);
  ibv_destroy_qp(raw);
}

void the_fence_is_read_from_the_capabilities() {
  uint8_t in[16]{1, 0, 0, 0, 0, 0, 0, 1}, out[16 + 4096]{};
  EQUAL(mlx5dv_devx_general_cmd(context(), in, sizeof in, out, sizeof out), 0);
  EQUAL(out[16 + 0x20a / 8] >> 4 & 3, 1);  // small
}

void a_virtual_function_has_no_windows() {
  static Attached* vf = attach_device("vhca7", "vf");
  CU_ASSERT_FATAL(vf != nullptr);
  ibv_context* c = open_device("vhca7");
  CU_ASSERT_FATAL(c != nullptr);
  ibv_device_attr attr{};
  EQUAL(ibv_query_device(c, &attr), 0);
  EQUAL(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW, 0);
  ibv_pd* pd = ibv_alloc_pd(c);
  for (ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
    errno = 0;
    CU_ASSERT_PTR_NULL(ibv_alloc_mw(pd, type));
    EQUAL(errno, EOPNOTSUPP);
  }
  ibv_dealloc_pd(pd);
  ibv_close_device(c);
}

// A device of a profile without on-demand paging.
struct WithoutPaging {
  WithoutPaging() {
    static Attached* attached = attach_device("vhca_no_odp", "no-odp");
    CU_ASSERT_PTR_NOT_NULL_FATAL(attached);
    c = open_device("vhca_no_odp");
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    pd = ibv_alloc_pd(c);
  }
  ~WithoutPaging() {
    ibv_dealloc_pd(pd);
    ibv_close_device(c);
  }
  ibv_context* c = nullptr;
  ibv_pd* pd = nullptr;
};

void on_demand_paging_is_not_reported_and_not_made() {
  WithoutPaging d;
  static uint8_t memory[64];
  ibv_device_attr_ex attr{};
  EQUAL(ibv_query_device_ex(d.c, nullptr, &attr), 0);
  EQUAL(attr.odp_caps.general_caps, 0);
  EQUAL(attr.odp_caps.per_transport_caps.rc_odp_caps, 0);
  EQUAL(attr.xrc_odp_caps, 0);
  errno = 0;
  CU_ASSERT_PTR_NULL(
      ibv_reg_mr(d.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND));
  EQUAL(errno, EOPNOTSUPP);
  errno = 0;
  CU_ASSERT_PTR_NULL(ibv_reg_mr(d.pd, nullptr, SIZE_MAX, IBV_ACCESS_ON_DEMAND));
  EQUAL(errno, EOPNOTSUPP);
}

// The kernel's method is there for all devices and asks the driver.
void advice_needs_on_demand_paging() {
  WithoutPaging d;
  Region r(d.pd, 64);
  ibv_sge sge = r.sge(0, 64);
  EQUAL(ibv_advise_mr(d.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EOPNOTSUPP);
}

void queues_that_are_not_there_are_refused() {
  Queues c;
  errno = 0;
  CU_ASSERT_PTR_NULL(create_qp(c.pd, c.cq, {0, 0, 0, IBV_QPT_DRIVER}));
}

void queues_beyond_the_limits_are_refused() {
  Queues c;
  CU_ASSERT_PTR_NULL(ibv_create_cq(context(), 1 << 22, nullptr, nullptr, 0));
  EQUAL(errno, EINVAL);
  CU_ASSERT_PTR_NULL(ibv_create_cq(context(), 16, nullptr, nullptr, 1));  // one vector only
  ibv_qp_init_attr attr{};
  attr.qp_type = IBV_QPT_RC;
  attr.send_cq = attr.recv_cq = c.cq;
  attr.cap = {40000, 1, 1, 1, 0};
  CU_ASSERT_PTR_NULL(ibv_create_qp(c.pd, &attr));
  attr.cap = {1, 40000, 1, 1, 0};
  CU_ASSERT_PTR_NULL(ibv_create_qp(c.pd, &attr));
}

void flows_match_what_the_card_s_tables_match() {
  Queues c;
  ibv_qp* raw = create_qp(c.pd, c.cq, {0, 0, 0, IBV_QPT_RAW_PACKET});
  Loop l;
  CU_ASSERT_FATAL(raw != nullptr);
  CU_ASSERT_FATAL(l.ok);
  struct {
    ibv_flow_attr attr{};
    ibv_flow_spec_ipv4_ext ip{};
  } f;
  f.attr.size = sizeof f.attr;
  f.attr.port = 1;
  f.attr.type = IBV_FLOW_ATTR_ALL_DEFAULT;
  ibv_flow* flow = ibv_create_flow(raw, &f.attr);
  CU_ASSERT_PTR_NOT_NULL_FATAL(flow);
  EQUAL(ibv_destroy_qp(raw), EBUSY);
  EQUAL(ibv_destroy_flow(flow), 0);
  errno = 0;
  CU_ASSERT_PTR_NULL(ibv_create_flow(l.qp[0], &f.attr));  // not a raw packet queue
  EQUAL(errno, EINVAL);
  f.attr.port = 2;
  CU_ASSERT_PTR_NULL(ibv_create_flow(raw, &f.attr));
  EQUAL(errno, EINVAL);
  f.attr.port = 1;
  f.attr.type = IBV_FLOW_ATTR_NORMAL;
  f.attr.size = sizeof f;
  f.attr.num_of_specs = 1;
  f.ip.type = IBV_FLOW_SPEC_IPV4_EXT;
  f.ip.size = sizeof f.ip;
  f.ip.mask.ttl = 0xff;
  errno = 0;
  CU_ASSERT_PTR_NULL(ibv_create_flow(raw, &f.attr));
  EQUAL(errno, EOPNOTSUPP);
  EQUAL(ibv_destroy_qp(raw), 0);
}

// A rule for IPv6 behind one for an Ethernet type.
void a_flow_s_layers_have_to_agree() {
  Queues c;
  ibv_qp* raw = create_qp(c.pd, c.cq, {0, 0, 0, IBV_QPT_RAW_PACKET});
  CU_ASSERT_PTR_NOT_NULL_FATAL(raw);
  struct {
    ibv_flow_attr attr{};
    ibv_flow_spec_eth eth{};
    ibv_flow_spec_ipv6 ip{};
  } f;
  f.attr = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof f, .num_of_specs = 2, .port = 1};
  f.eth.type = IBV_FLOW_SPEC_ETH;
  f.eth.size = sizeof f.eth;
  f.eth.val.ether_type = kilim::be16{0x0800}.raw();
  f.ip.type = IBV_FLOW_SPEC_IPV6;
  f.ip.size = sizeof f.ip;
  auto create = [&] {
    errno = 0;
    return ibv_create_flow(raw, &f.attr);
  };
  ibv_flow* any_type = create();
  CU_ASSERT_PTR_NOT_NULL_FATAL(any_type);
  EQUAL(ibv_destroy_flow(any_type), 0);
  f.eth.mask.ether_type = 0xffff;
  CU_ASSERT(create() == nullptr && errno == EINVAL);
  f.eth.val.ether_type = kilim::be16{0x86dd}.raw();
  f.ip.mask.hop_limit = 0xff;
  CU_ASSERT(create() == nullptr && errno == EOPNOTSUPP);
  f.ip.mask.hop_limit = 0;
  ibv_flow* flow = create();
  CU_ASSERT_PTR_NOT_NULL_FATAL(flow);
  EQUAL(ibv_destroy_flow(flow), 0);
  // Each layer once.
  struct {
    ibv_flow_attr attr{};
    ibv_flow_spec_eth eth[2]{};
  } twice;
  twice.attr = f.attr;
  twice.attr.size = sizeof twice;
  twice.eth[0] = twice.eth[1] = f.eth;
  errno = 0;
  CU_ASSERT(ibv_create_flow(raw, &twice.attr) == nullptr && errno == EOPNOTSUPP);
  f.attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
  CU_ASSERT(create() == nullptr && errno == EOPNOTSUPP);
  EQUAL(ibv_destroy_qp(raw), 0);
}

constexpr Case cases[] = {
    {"UMR builders on a raw packet queue", umr_builders_on_a_raw_packet_queue},
    {"a UMR on a raw send queue is a local operation error",
     a_umr_on_a_raw_send_queue_is_a_local_operation_error},
    {"a list by pointer must be aligned", a_list_by_pointer_must_be_aligned},
    {"scatter to CQE is a wish on a raw queue", scatter_to_cqe_is_a_wish_on_a_raw_queue},
    {"the fence is read from the capabilities", the_fence_is_read_from_the_capabilities},
    {"a virtual function has no memory windows", a_virtual_function_has_no_windows},
    {"without on-demand paging none is reported and none made",
     on_demand_paging_is_not_reported_and_not_made},
    {"remote writing needs local writing", remote_writing_needs_local_writing},
    {"advice needs on-demand paging", advice_needs_on_demand_paging},
    {"queues that are not there are refused", queues_that_are_not_there_are_refused},
    {"queues beyond the limits are refused", queues_beyond_the_limits_are_refused},
    {"flows match what the card's tables match", flows_match_what_the_card_s_tables_match},
    {"a flow's layers have to agree", a_flow_s_layers_have_to_agree},
};

}  // namespace
}  // namespace refused_ut

KILIM_TEST_SUITE(refused, refused_ut::cases)
