// SPDX-License-Identifier: BSD-3-Clause
// The flags that a queue pair is made with, and what they do: check sequences that stay, tags that
// go, frames and datagrams that come back or do not.
#include <array>
#include <cerrno>

#include "fabric_fixture.hh"

namespace qp_flags_ut {
namespace {

using namespace kilim::test;

constexpr uint8_t station[6] = {0x02, 0, 0, 0, 0, 0x77}, group[6] = {0x33, 0x33, 0, 0, 0, 1};

ibv_qp* make_qp(ibv_pd* pd, ibv_cq* cq, ibv_qp_type type, uint32_t flags, uint32_t dv_flags = 0) {
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = type;
  attr.send_cq = attr.recv_cq = cq;
  attr.pd = pd;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  if (flags != 0) attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
  attr.create_flags = flags;
  attr.cap = {8, 8, 2, 2, 0};
  mlx5dv_qp_init_attr dv{};
  if (dv_flags != 0) dv.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
  dv.create_flags = dv_flags;
  errno = 0;
  return mlx5dv_create_qp(pd->context, &attr, &dv);
}

// A raw packet queue of a client of its own on the shared device.
struct Client {
  explicit Client(uint32_t flags = 0, uint32_t dv_flags = 0)
      : c((shared(), open_device())),
        pd(ibv_alloc_pd(c)),
        memory(pd, 8192, IBV_ACCESS_LOCAL_WRITE) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = 31;
    attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_CVLAN;
    cq = ibv_create_cq_ex(c, &attr);
    qp = make_qp(pd, ibv_cq_ex_to_cq(cq), IBV_QPT_RAW_PACKET, flags, dv_flags);
    CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
    ibv_qp_attr a{};
    a.port_num = 1;
    for (ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      a.qp_state = to;
      int mask = IBV_QP_STATE | (to == IBV_QPS_INIT ? IBV_QP_PORT : 0);
      EQUAL(ibv_modify_qp(qp, &a, mask), 0);
    }
  }
  ~Client() {
    for (ibv_flow* f : flows) {
      if (f != nullptr) ibv_destroy_flow(f);
    }
    ibv_destroy_qp(qp);
    ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
    memory.release();
    ibv_dealloc_pd(pd);
    ibv_close_device(c);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // A receive at 4096, and a rule for the address.
  void listen(const uint8_t* dst) {
    ibv_sge sge = memory.sge(4096, 2048);
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    EQUAL(ibv_post_recv(qp, &wr, &bad), 0);
    struct {
      ibv_flow_attr attr{};
      ibv_flow_spec_eth eth{};
    } f;
    f.attr.port = 1;
    f.attr.size = sizeof f;
    f.attr.num_of_specs = 1;
    f.eth.type = IBV_FLOW_SPEC_ETH;
    f.eth.size = sizeof f.eth;
    std::memcpy(f.eth.val.dst_mac, dst, 6);
    std::memset(f.eth.mask.dst_mac, 0xff, 6);
    flows[dst == group] = ibv_create_flow(qp, &f.attr);
    CU_ASSERT_PTR_NOT_NULL(flows[dst == group]);
  }
  // 100 bytes to the address, with a tag of 0x2345 if wanted; unsignaled.
  void send(const uint8_t* dst, bool tagged = false) {
    uint8_t* f = memory.data();
    fill(f, 100, 9);
    std::memcpy(f, dst, 6);
    std::memcpy(f + 6, "\x02\x00\x00\x00\x00\x01\x88\xb5", 8);
    if (tagged) std::memcpy(f + 12, "\x81\x00\x23\x45\x88\xb5", 6);
    ibv_sge sge = memory.sge(0, 100);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    EQUAL(ibv_post_send(qp, &wr, &bad), 0);
  }
  // Bytes of the next frame, 0 if none comes.
  uint32_t arrived() {
    ibv_poll_cq_attr poll{};
    for (int i = 0; i < 200; i++) {
      shared().poll();
      if (ibv_start_poll(cq, &poll) != 0) continue;
      uint32_t bytes = cq->status == IBV_WC_SUCCESS ? ibv_wc_read_byte_len(cq) : 0;
      tag = ibv_wc_read_cvlan(cq);
      ibv_end_poll(cq);
      return bytes;
    }
    return 0;
  }
  const uint8_t* got() { return memory.data() + 4096; }

  ibv_context* c;
  ibv_pd* pd;
  Region memory;
  ibv_cq_ex* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_flow* flows[2]{};
  uint16_t tag = 0;
};

uint32_t crc32(const uint8_t* at, std::size_t bytes) {
  uint32_t state = ~0u;
  for (std::size_t i = 0; i < bytes; i++) {
    state ^= at[i];
    for (int bit = 0; bit < 8; bit++) state = (state >> 1) ^ ((state & 1) != 0 ? 0xedb88320u : 0);
  }
  return ~state;
}

void frames_reach_other_clients_of_the_port() {
  Client a, b;
  b.listen(station);
  a.send(station);
  EQUAL(b.arrived(), 100);
  EQUAL(std::memcmp(b.got(), a.memory.data(), 100), 0);
  a.send(group);
  EQUAL(b.arrived(), 0);
}

void own_frames_come_back_where_they_are_wanted() {
  constexpr uint32_t uc = MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC,
                     mc = MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_MC;
  for (uint32_t flags : {0u, uc, mc}) {
    Client a(0, flags);
    a.listen(station);
    a.listen(group);
    a.send(station);
    EQUAL(a.arrived(), flags == uc ? 100 : 0);
    a.send(group);
    EQUAL(a.arrived(), flags == mc ? 100 : 0);
  }
}

void the_check_sequence_stays() {
  Client a, b(IBV_QP_CREATE_SCATTER_FCS);
  b.listen(station);
  a.send(station);
  EQUAL(b.arrived(), 104);
  EQUAL(std::memcmp(b.got(), a.memory.data(), 100), 0);
  uint32_t fcs = 0;
  std::memcpy(&fcs, b.got() + 100, 4);
  EQUAL(fcs, crc32(a.memory.data(), 100));
}

void tags_go_to_the_completion() {
  Client a, b(IBV_QP_CREATE_CVLAN_STRIPPING | IBV_QP_CREATE_SCATTER_FCS), c;
  b.listen(station);
  c.listen(station);
  a.send(station, true);
  EQUAL(b.arrived(), 100);
  EQUAL(b.tag, 0x2345);
  EQUAL(std::memcmp(b.got(), a.memory.data(), 12), 0);
  EQUAL(std::memcmp(b.got() + 12, a.memory.data() + 16, 84), 0);
  uint32_t fcs = 0;
  std::memcpy(&fcs, b.got() + 96, 4);
  EQUAL(fcs, crc32(a.memory.data(), 100));
  // A queue without the flag gets the frame as it was.
  EQUAL(c.arrived(), 100);
  EQUAL(std::memcmp(c.got(), a.memory.data(), 100), 0);
}

// A member of a group that sends to it.
bool own_datagram_comes_back(uint32_t flags) {
  ibv_pd* pd = ibv_alloc_pd(context());
  ibv_cq* cq = ibv_create_cq(context(), 16, nullptr, nullptr, 0);
  ibv_qp* qp = make_qp(pd, cq, IBV_QPT_UD, flags);
  CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
  ibv_qp_attr a{};
  a.port_num = 1;
  a.qkey = 5;
  a.qp_state = IBV_QPS_INIT;
  EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
  a.qp_state = IBV_QPS_RTR;
  EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
  a.qp_state = IBV_QPS_RTS;
  EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  ibv_gid gid{{0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2}};
  EQUAL(ibv_attach_mcast(qp, &gid, 0), 0);
  ibv_ah_attr to{};
  to.is_global = to.port_num = 1;
  to.grh.dgid = gid;
  to.grh.hop_limit = 1;
  ibv_ah* ah = ibv_create_ah(pd, &to);
  CU_ASSERT_PTR_NOT_NULL_FATAL(ah);
  ibv_wc wc{};
  bool came = false;
  {
    Region r(pd, 256);
    ibv_sge in = r.sge(64, 128), out = r.sge(0, 8);
    ibv_recv_wr receive{}, *bad_receive = nullptr;
    receive.sg_list = &in;
    receive.num_sge = 1;
    EQUAL(ibv_post_recv(qp, &receive, &bad_receive), 0);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &out;
    wr.num_sge = 1;
    wr.wr.ud = {ah, 0xffffff, 5};
    EQUAL(ibv_post_send(qp, &wr, &bad), 0);
    for (int i = 0; i < 200 && !came; i++) {
      shared().poll();
      came = ibv_poll_cq(cq, 1, &wc) == 1;
    }
  }
  CU_ASSERT(!came || wc.status == IBV_WC_SUCCESS);
  ibv_destroy_ah(ah);
  EQUAL(ibv_detach_mcast(qp, &gid, 0), 0);
  ibv_destroy_qp(qp);
  ibv_destroy_cq(cq);
  ibv_dealloc_pd(pd);
  return came;
}

void a_sender_may_leave_itself_out() {
  CU_ASSERT(own_datagram_comes_back(0));
  CU_ASSERT_FALSE(own_datagram_comes_back(IBV_QP_CREATE_BLOCK_SELF_MCAST_LB));
}

void flags_are_refused_as_a_card_does() {
  ibv_pd* pd = ibv_alloc_pd(context());
  ibv_cq* cq = ibv_create_cq(context(), 16, nullptr, nullptr, 0);
  const struct {
    ibv_qp_type type;
    uint32_t flags;
    int error;
  } rows[] = {{IBV_QPT_UD, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, 0},
              {IBV_QPT_RAW_PACKET, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, 0},
              {IBV_QPT_RC, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, EINVAL},
              {IBV_QPT_UC, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, EINVAL},
              {IBV_QPT_UD, IBV_QP_CREATE_SCATTER_FCS, EINVAL},
              {IBV_QPT_UD, IBV_QP_CREATE_CVLAN_STRIPPING, EINVAL},
              {IBV_QPT_RC, IBV_QP_CREATE_CVLAN_STRIPPING, EINVAL},
              {IBV_QPT_UD, IBV_QP_CREATE_PCI_WRITE_END_PADDING, EOPNOTSUPP},
              {IBV_QPT_RAW_PACKET, IBV_QP_CREATE_PCI_WRITE_END_PADDING, EOPNOTSUPP},
              {IBV_QPT_RC, 1u << 5, EINVAL}};
  for (const auto& row : rows) {
    ibv_qp* qp = make_qp(pd, cq, row.type, row.flags);
    EQUAL(qp != nullptr, row.error == 0);
    if (qp == nullptr) EQUAL(errno, row.error);
    if (qp != nullptr) ibv_destroy_qp(qp);
  }
  ibv_destroy_cq(cq);
  ibv_dealloc_pd(pd);
}

constexpr Case cases[] = {
    {"frames reach other clients of the port", frames_reach_other_clients_of_the_port},
    {"own frames come back where they are wanted", own_frames_come_back_where_they_are_wanted},
    {"the check sequence stays", the_check_sequence_stays},
    {"tags go to the completion", tags_go_to_the_completion},
    {"a sender may leave itself out", a_sender_may_leave_itself_out},
    {"flags are refused as a card does", flags_are_refused_as_a_card_does},
};

}  // namespace
}  // namespace qp_flags_ut

KILIM_TEST_SUITE(qp_flags, qp_flags_ut::cases)
