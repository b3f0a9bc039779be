// SPDX-License-Identifier: BSD-3-Clause
// Raw packet queues of two devices joined by a cable: frames arrive as they were sent, where the
// rules of ibv_create_flow lead them, and are never scattered to a completion.
#include <cerrno>

#include "raw_fixture.hh"

namespace raw_ut {
namespace {

using namespace kilim::test;

constexpr uint8_t unicast[6]{0x02, 0, 0, 0, 0, 0x99};
constexpr uint8_t other[6]{0x02, 0, 0, 0, 0, 0x77};
constexpr uint8_t multicast[6]{0x01, 0, 0x5e, 0, 0, 1};
constexpr uint8_t broadcast[6]{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

void frames_of_every_size_arrive_as_sent() {
  Cable cable;
  ibv_flow* all = cable.right.flow(IBV_FLOW_ATTR_ALL_DEFAULT);
  CU_ASSERT_PTR_NOT_NULL_FATAL(all);
  for (uint32_t bytes = 60; bytes <= 1514; bytes += 61) {
    cable.right.receive(bytes % 16);
    CU_ASSERT(cable.passes(unicast, bytes));
  }
  ibv_destroy_flow(all);
}

void rules_say_what_arrives() {
  Cable cable;
  for (uint32_t i = 0; i < 8; i++) cable.right.receive(i);
  CU_ASSERT_FALSE(cable.passes(unicast));
  ibv_flow* rule = cable.right.flow(IBV_FLOW_ATTR_NORMAL, unicast, broadcast);
  CU_ASSERT_PTR_NOT_NULL_FATAL(rule);
  CU_ASSERT(cable.passes(unicast));
  CU_ASSERT_FALSE(cable.passes(other));
  CU_ASSERT_FALSE(cable.passes(broadcast));
  ibv_destroy_flow(rule);
  CU_ASSERT_FALSE(cable.passes(unicast));
  rule = cable.right.flow(IBV_FLOW_ATTR_NORMAL, broadcast, broadcast);
  CU_ASSERT(cable.passes(broadcast));
  CU_ASSERT_FALSE(cable.passes(multicast));
  ibv_destroy_flow(rule);
  rule = cable.right.flow(IBV_FLOW_ATTR_NORMAL, multicast, broadcast);
  CU_ASSERT(cable.passes(multicast));
  CU_ASSERT_FALSE(cable.passes(unicast));
  ibv_destroy_flow(rule);
}

// The queue asked for scatter to CQE; a raw one never does it: the buffer holds the frame, and the
// completion none of its bytes.
void small_frames_lie_in_their_buffer() {
  Cable cable;
  ibv_flow* all = cable.right.flow(IBV_FLOW_ATTR_ALL_DEFAULT);
  cable.right.receive(3, 64);
  mlx5dv_cq dv{};
  mlx5dv_obj obj{};
  obj.cq = {cable.right.cq, &dv};
  EQUAL(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
  CU_ASSERT(cable.passes(unicast, 60));
  const auto* cqe = static_cast<const uint8_t*>(dv.buf);
  EQUAL(cqe[63] & 0x0c, 0);  // no inline scatter of 32 or 64 bytes
  ibv_destroy_flow(all);
}

void a_queue_with_rules_is_busy() {
  Cable cable;
  ibv_flow* all = cable.right.flow(IBV_FLOW_ATTR_ALL_DEFAULT);
  EQUAL(ibv_destroy_qp(cable.right.qp), EBUSY);
  ibv_destroy_flow(all);
}

// ibv_post_send() of libmlx5 writes the WQE: headers of the application, payload by pointer.
void a_packet_is_segmented_as_libmlx5_asks() {
  Cable cable;
  Port& left = cable.left;
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_RAW_PACKET;
  attr.send_cq = attr.recv_cq = left.cq;
  attr.pd = left.pd;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
  attr.cap = {32, 1, 2, 1, 0};
  attr.max_tso_header = 128;
  ibv_destroy_qp(left.qp);
  left.qp = ibv_create_qp_ex(left.c, &attr);
  CU_ASSERT_PTR_NOT_NULL_FATAL(left.qp);
  ibv_qp_attr a{};
  a.port_num = 1;
  for (ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    a.qp_state = state;
    const int mask = IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0);
    EQUAL(ibv_modify_qp(left.qp, &a, mask), 0);
  }
  ibv_flow* all = cable.right.flow(IBV_FLOW_ATTR_ALL_DEFAULT);
  for (uint32_t i = 0; i < 4; i++) cable.right.receive(i);
  uint8_t headers[54]{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0, 0x45};
  headers[14 + 9] = 6;
  headers[34 + 12] = 0x50;
  fill(left.memory.data(), 3000, 5);
  ibv_sge sge = left.memory.sge(0, 3000);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_TSO;
  wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.tso.hdr = headers;
  wr.tso.hdr_sz = sizeof headers;
  wr.tso.mss = 1400;
  EQUAL(ibv_post_send(left.qp, &wr, &bad), 0);
  cable.run();
  ibv_wc wc{};
  EQUAL(ibv_poll_cq(left.cq, 1, &wc), 1);
  EQUAL(wc.status, IBV_WC_SUCCESS);
  for (uint32_t payload : {1400u, 1400u, 200u}) {
    EQUAL(ibv_poll_cq(cable.right.cq, 1, &wc), 1);
    EQUAL(wc.byte_len, sizeof headers + payload);
    CU_ASSERT((wc.wc_flags & IBV_WC_IP_CSUM_OK) != 0);
    const uint8_t* at = cable.right.memory.data() + wc.wr_id * Port::frame;
    EQUAL(std::memcmp(at + sizeof headers, left.memory.data() + wc.wr_id * 1400, payload), 0);
  }
  ibv_destroy_flow(all);
}

constexpr Case cases[] = {
    {"frames of every size arrive as sent", frames_of_every_size_arrive_as_sent},
    {"rules say what arrives", rules_say_what_arrives},
    {"small frames lie in their buffer", small_frames_lie_in_their_buffer},
    {"a queue with rules is busy", a_queue_with_rules_is_busy},
    {"a packet is segmented as libmlx5 asks", a_packet_is_segmented_as_libmlx5_asks},
};

}  // namespace
}  // namespace raw_ut

KILIM_TEST_SUITE(raw, raw_ut::cases)
