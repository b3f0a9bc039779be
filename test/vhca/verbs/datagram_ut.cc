// SPDX-License-Identifier: BSD-3-Clause
// Datagrams and unreliable connections through libibverbs and libmlx5 on one adapter: header, key,
// groups, and that what is lost is lost without a word.
#include <memory>

#include "rdma_rule_fixture.hh"
#include "unreliable_fixture.hh"

namespace datagram_ut {
namespace {

using namespace kilim::test;

constexpr uint32_t header_bytes = 40;
constexpr uint32_t good_qkey = 0x11111111;

// Two datagram queues with a protection domain and queues of their own.
struct Datagrams {
  explicit Datagrams(uint32_t create_flags = 0) {
    Shape shape;
    shape.create_flags = create_flags;
    shape.type = IBV_QPT_UD;
    for (int i = 0; i < 2; i++) {
      pd[i] = ibv_alloc_pd(context());
      cq[i] = ibv_create_cq(context(), 64, nullptr, nullptr, 0);
      qp[i] = create_qp(pd[i], cq[i], shape);
      ok = ok && qp[i] != nullptr && to_rts(qp[i]) == 0;
    }
    ibv_ah_attr a{};
    a.is_global = 1;
    a.port_num = 1;
    a.grh.hop_limit = 5;
    a.grh.traffic_class = 0x21;
    ibv_query_gid(context(), 1, 0, &a.grh.dgid);
    own = a.grh.dgid;
    ah = ibv_create_ah(pd[0], &a);
    ok = ok && ah != nullptr;
  }
  ~Datagrams() {
    if (ah != nullptr) ibv_destroy_ah(ah);
    for (int i = 0; i < 2; i++) {
      if (qp[i] != nullptr) EQUAL(ibv_destroy_qp(qp[i]), 0);
      ibv_destroy_cq(cq[i]);
      ibv_dealloc_pd(pd[i]);
    }
  }
  Datagrams(const Datagrams&) = delete;
  Datagrams& operator=(const Datagrams&) = delete;

  static int to_rts(ibv_qp* qp) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qkey = good_qkey;
    int err = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    a.qp_state = IBV_QPS_RTR;
    if (err == 0) err = ibv_modify_qp(qp, &a, IBV_QP_STATE);
    a.qp_state = IBV_QPS_RTS;
    return err != 0 ? err : ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
  }
  ibv_wc_status send(ibv_sge sge, uint32_t qpn, uint32_t qkey = good_qkey) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = 0x55667788;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.ud = {ah, qpn, qkey};
    if (ibv_post_send(qp[0], &wr, &bad) != 0) return IBV_WC_GENERAL_ERR;
    return wait_status(cq[0]);
  }
  // Posts and rings; nobody looks at it yet.
  int ring(ibv_sge sge, uint32_t qpn) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.ud = {ah, qpn, good_qkey};
    return ibv_post_send(qp[0], &wr, &bad);
  }
  int receive(int side, ibv_sge sge) {
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    return ibv_post_recv(qp[side], &wr, &bad);
  }
  bool silent(int side) {
    ibv_wc wc{};
    for (int i = 0; i < 20; i++) shared().poll();
    return ibv_poll_cq(cq[side], 1, &wc) == 0;
  }

  bool ok = true;
  ibv_gid own{};
  ibv_ah* ah = nullptr;
  ibv_pd* pd[2]{};
  ibv_cq* cq[2]{};
  ibv_qp* qp[2]{};
};

void a_datagram_comes_with_its_header() {
  Datagrams d;
  CU_ASSERT_FATAL(d.ok);
  Region from(d.pd[0], 512), to(d.pd[1], 1024);
  fill(from.data(), 512, 4);
  EQUAL(d.receive(1, to.sge(0, 1024)), 0);
  EQUAL(d.send(from.sge(0, 301), d.qp[1]->qp_num), IBV_WC_SUCCESS);
  ibv_wc wc{};
  CU_ASSERT_FATAL(wait_for(d.cq[1], wc));
  EQUAL(wc.status, IBV_WC_SUCCESS);
  EQUAL(wc.byte_len, 301 + header_bytes);
  EQUAL(wc.src_qp, d.qp[0]->qp_num);
  EQUAL(wc.wc_flags & (IBV_WC_GRH | IBV_WC_WITH_IMM), IBV_WC_GRH | IBV_WC_WITH_IMM);
  EQUAL(wc.imm_data, 0x55667788);
  EQUAL(std::memcmp(to.data() + header_bytes, from.data(), 301), 0);
  const uint8_t* h = to.data();
  EQUAL(h[0] >> 4, 6);
  EQUAL((h[0] & 15) << 4 | h[1] >> 4, 0x21);
  EQUAL(h[7], 5);
  EQUAL(std::memcmp(h + 8, d.own.raw, 16), 0);
  EQUAL(std::memcmp(h + 24, d.own.raw, 16), 0);
}

void a_short_datagram_lies_where_it_was_posted() {
  Datagrams d{MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE};
  CU_ASSERT_FATAL(d.ok);
  Region from(d.pd[0], 64), to(d.pd[1], 64);
  fill(from.data(), 16, 4);
  EQUAL(d.receive(1, to.sge(0, 64)), 0);
  EQUAL(d.send(from.sge(0, 16), d.qp[1]->qp_num), IBV_WC_SUCCESS);
  for (int i = 0; i < 20; i++) shared().poll();
  EQUAL(std::memcmp(to.data() + header_bytes, from.data(), 16), 0);  // nobody polled
  EQUAL(wait_status(d.cq[1]), IBV_WC_SUCCESS);
}

void what_nobody_takes_is_lost() {
  Datagrams d;
  CU_ASSERT_FATAL(d.ok);
  Region from(d.pd[0], 64), to(d.pd[1], 256);
  // No receive posted, a queue that is not there, another key.
  EQUAL(d.send(from.sge(0, 8), d.qp[1]->qp_num), IBV_WC_SUCCESS);
  EQUAL(d.receive(1, to.sge(0, 256)), 0);
  EQUAL(d.send(from.sge(0, 8), 0xabcdef), IBV_WC_SUCCESS);
  EQUAL(d.send(from.sge(0, 8), d.qp[1]->qp_num, good_qkey + 1), IBV_WC_SUCCESS);
  CU_ASSERT(d.silent(1));
  CU_ASSERT(all_equal(to.data(), 256, 0));
  EQUAL(state_of(d.qp[1]), IBV_QPS_RTS);
  // With bit 31 set the sender's own key counts.
  EQUAL(d.send(from.sge(0, 8), d.qp[1]->qp_num, 0x80000000), IBV_WC_SUCCESS);
  EQUAL(wait_status(d.cq[1]), IBV_WC_SUCCESS);
}

void sizes_are_checked_on_both_sides() {
  Datagrams d;
  CU_ASSERT_FATAL(d.ok);
  Region from(d.pd[0], 8192), to(d.pd[1], 8192);
  EQUAL(d.receive(1, to.sge(0, 4096 + header_bytes)), 0);
  EQUAL(d.send(from.sge(0, 4096), d.qp[1]->qp_num), IBV_WC_SUCCESS);
  EQUAL(wait_status(d.cq[1]), IBV_WC_SUCCESS);
  // One byte short for header and data together.
  EQUAL(d.receive(1, to.sge(0, 100 + header_bytes - 1)), 0);
  EQUAL(d.send(from.sge(0, 100), d.qp[1]->qp_num), IBV_WC_SUCCESS);
  EQUAL(wait_status(d.cq[1]), IBV_WC_LOC_LEN_ERR);
  EQUAL(state_of(d.qp[1]), IBV_QPS_ERR);
  EQUAL(d.send(from.sge(0, 4097), d.qp[1]->qp_num), IBV_WC_LOC_LEN_ERR);
}

void the_sender_s_memory_is_checked() {
  Datagrams d;
  CU_ASSERT_FATAL(d.ok);
  Region foreign(d.pd[1], 64);
  EQUAL(d.send(foreign.sge(0, 8), d.qp[1]->qp_num), IBV_WC_LOC_PROT_ERR);
}

void a_group_s_members_hear_it() {
  Datagrams d;
  CU_ASSERT_FATAL(d.ok);
  ibv_gid group{};
  group.raw[0] = 0xff;
  group.raw[1] = 0x0e;
  group.raw[15] = 7;
  ibv_ah_attr a{};
  a.is_global = 1;
  a.port_num = 1;
  a.grh.dgid = group;
  ibv_ah* unicast = d.ah;
  d.ah = ibv_create_ah(d.pd[0], &a);
  CU_ASSERT_FATAL(d.ah != nullptr);
  EQUAL(ibv_attach_mcast(d.qp[1], &group, 0), 0);
  EQUAL(ibv_destroy_qp(d.qp[1]), EBUSY);
  Region from(d.pd[0], 64), to(d.pd[1], 256);
  EQUAL(d.receive(1, to.sge(0, 256)), 0);
  EQUAL(d.send(from.sge(0, 8), 0xffffff), IBV_WC_SUCCESS);
  EQUAL(wait_status(d.cq[1]), IBV_WC_SUCCESS);
  EQUAL(ibv_detach_mcast(d.qp[1], &group, 0), 0);
  EQUAL(ibv_detach_mcast(d.qp[1], &group, 0), EINVAL);
  EQUAL(d.receive(1, to.sge(0, 256)), 0);
  EQUAL(d.send(from.sge(0, 8), 0xffffff), IBV_WC_SUCCESS);
  CU_ASSERT(d.silent(1));
  ibv_gid unicast_gid = d.own;
  EQUAL(ibv_attach_mcast(d.qp[1], &unicast_gid, 0), EINVAL);
  ibv_destroy_ah(unicast);
}

void an_unreliable_connection_carries_data() {
  Unreliable u;
  CU_ASSERT_FATAL(u.ok);
  Region from(u.pd, 8192), to(u.pd, 8192);
  fill(from.data(), 8192, 8);
  ibv_sge sge = to.sge(0, 8192);
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  EQUAL(ibv_post_recv(u.qp[1], &wr, &bad), 0);
  EQUAL(u.post(IBV_WR_SEND, from.sge(0, 5000)), IBV_WC_SUCCESS);
  EQUAL(wait_status(u.cq[1]), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(from.data(), to.data(), 5000), 0);
  EQUAL(u.post(IBV_WR_RDMA_WRITE, from.sge(0, 8192), to.at(), to.mr()->rkey), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(from.data(), to.data(), 8192), 0);
}

void an_unreliable_sender_never_learns() {
  Unreliable u;
  CU_ASSERT_FATAL(u.ok);
  Region from(u.pd, 64), to(u.pd, 64);
  fill(from.data(), 64, 8);
  // No receive; a key that is not there: dropped, and both queues go on.
  EQUAL(u.post(IBV_WR_SEND, from.sge(0, 64)), IBV_WC_SUCCESS);
  EQUAL(u.post(IBV_WR_RDMA_WRITE, from.sge(0, 64), to.at(), to.mr()->rkey + 0x100), IBV_WC_SUCCESS);
  CU_ASSERT(all_equal(to.data(), 64, 0));
  EQUAL(state_of(u.qp[0]), IBV_QPS_RTS);
  EQUAL(state_of(u.qp[1]), IBV_QPS_RTS);
  // What is wrong on its own side it does learn.
  ibv_sge bad_key = from.sge(0, 64);
  bad_key.lkey += 0x100;
  EQUAL(u.post(IBV_WR_SEND, bad_key), IBV_WC_LOC_PROT_ERR);
}

// libfabric's ofi_rxd acknowledges a peer's last message and destroys its queue at once.
void last_words_are_sent() {
  Datagrams d;
  CU_ASSERT_FATAL(d.ok);
  Region from(d.pd[0], 64), to(d.pd[1], 256);
  fill(from.data(), 64, 9);
  EQUAL(d.receive(1, to.sge(0, 256)), 0);
  EQUAL(d.ring(from.sge(0, 64), d.qp[1]->qp_num), 0);
  EQUAL(ibv_destroy_qp(d.qp[0]), 0);
  d.qp[0] = nullptr;
  ibv_wc wc{};
  CU_ASSERT_FATAL(wait_for(d.cq[1], wc));
  EQUAL(wc.byte_len, 64 + header_bytes);
  EQUAL(std::memcmp(to.data() + header_bytes, from.data(), 64), 0);
}

// To a queue, and to a group.
void what_a_rule_drops_nobody_hears() {
  Datagrams d;
  CU_ASSERT_FATAL(d.ok);
  Region from(d.pd[0], 64), to(d.pd[1], 512);
  FlowCounter seen;
  RuledTable drops(kilim::prm::flow_cmd::rdma_rx, kilim::prm::flow_context::drop, &seen);
  EQUAL(d.receive(1, to.sge(0, 256)), 0);
  {
    RdmaRule rule(on_arrival, {to_table(drops)});
    EQUAL_FATAL(rule.error, 0);
    EQUAL(d.send(from.sge(0, 64), d.qp[1]->qp_num), IBV_WC_SUCCESS);
    CU_ASSERT(d.silent(1));
    EQUAL(seen.packets(), 1);
    // IPv6, UDP, BTH, DETH, immediate data, ICRC.
    EQUAL(seen.bytes(), 14 + 40 + 8 + 12 + 8 + 4 + 64 + 4);
    EQUAL(d.send(from.sge(0, 64), 0xfffffe), IBV_WC_SUCCESS);  // nobody's: there is no packet
    EQUAL(seen.packets(), 1);
  }
  {
    RdmaRule rule(on_leaving, {dropped()});
    EQUAL_FATAL(rule.error, 0);
    EQUAL(d.send(from.sge(0, 64), d.qp[1]->qp_num), IBV_WC_SUCCESS);
    CU_ASSERT(d.silent(1));
  }
  EQUAL(d.send(from.sge(0, 64), d.qp[1]->qp_num), IBV_WC_SUCCESS);
  ibv_wc wc{};
  CU_ASSERT_FATAL(wait_for(d.cq[1], wc));
  EQUAL(wc.byte_len, 64 + header_bytes);
}

constexpr Case cases[] = {
    {"a datagram comes with its header, source and immediate data",
     a_datagram_comes_with_its_header},
    {"a short datagram lies where it was posted, whatever was asked",
     a_short_datagram_lies_where_it_was_posted},
    {"what nobody takes is lost and the sender succeeds", what_nobody_takes_is_lost},
    {"a datagram fits the MTU, and header and data the receive", sizes_are_checked_on_both_sides},
    {"a datagram from another domain's memory is refused", the_sender_s_memory_is_checked},
    {"members of a multicast group hear it until they leave", a_group_s_members_hear_it},
    {"what a rule of RDMA drops nobody hears", what_a_rule_drops_nobody_hears},
    {"what was rung is sent, although its queue is destroyed at once", last_words_are_sent},
    {"UC carries SEND and WRITE of several packets", an_unreliable_connection_carries_data},
    {"the sender on UC never learns of losses", an_unreliable_sender_never_learns},
};

}  // namespace
}  // namespace datagram_ut

KILIM_TEST_SUITE(datagram, datagram_ut::cases)
