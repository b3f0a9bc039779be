// SPDX-License-Identifier: BSD-3-Clause
// A shared receive queue whose senders are on the other end of a wire: long messages come packet by
// packet and mixed, and each has the receive WQE that it started with.
#include <algorithm>

#include "fabric_fixture.hh"

namespace shared_wire_ut {
namespace {

using namespace kilim::test;

constexpr uint32_t message = 60'000;  // of many packets
constexpr int senders = 3;

Attached* attach_to_cable(const char* name, uint64_t seed) {
  kilim::DeviceSpec config;
  config.name = name;
  config.wires = {"cable:shared_wire"};
  config.seed = seed;
  auto attached = kilim::vhca::entry::attach(config);
  return attached ? *attached : nullptr;
}

// One end: its adapter, memory and queues. Pointers live as long as the process.
struct End {
  End(const char* name, uint64_t seed) : device(attach_to_cable(name, seed)) {
    context = open_device(name);
    if (device == nullptr || context == nullptr) return;
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
    memory.resize(std::size_t{message} * senders);
    mr = ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
  }
  ibv_qp* add_queue(ibv_srq* srq) {
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = cq;
    attr.srq = srq;
    attr.cap = {8, 8, 1, 1, 0};
    return ibv_create_qp(pd, &attr);
  }
  ibv_sge part(int i) {
    return {reinterpret_cast<uintptr_t>(memory.data()) + static_cast<uint64_t>(i) * message,
            message, mr->lkey};
  }
  Attached* device;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  std::vector<uint8_t> memory;
};

int connect_to(ibv_qp* qp, const ibv_qp* peer) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  int err =
      ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = peer->qp_num;
  a.min_rnr_timer = 1;
  a.ah_attr.is_global = 1;
  a.ah_attr.port_num = 1;
  a.ah_attr.grh.hop_limit = 1;
  ibv_query_gid(peer->context, 1, 0, &a.ah_attr.grh.dgid);
  err |= ibv_modify_qp(qp, &a,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 14;
  a.retry_cnt = 7;
  a.rnr_retry = 7;
  return err | ibv_modify_qp(qp, &a,
                             IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int post_shared(ibv_srq* srq, ibv_sge sge, uint64_t id) {
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  return ibv_post_srq_recv(srq, &wr, &bad);
}

int post_send(ibv_qp* qp, ibv_sge sge) {
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  return ibv_post_send(qp, &wr, &bad);
}

// Small turns, so that packets of the senders mix on the wire.
bool next_completion(End& near, End& far, ibv_cq* cq, ibv_wc& wc) {
  for (int i = 0; i < 200'000; i++) {
    near.device->poll(1);
    far.device->poll(1);
    int n = ibv_poll_cq(cq, 1, &wc);
    if (n != 0) return n == 1 && wc.status == IBV_WC_SUCCESS;
  }
  return false;
}

bool all_equal(const uint8_t* bytes, uint8_t value) {
  return std::all_of(bytes, bytes + message, [=](uint8_t b) { return b == value; });
}

void mixed_messages_keep_their_receives() {
  static End near("near0", 1), far("far0", 2);
  CU_ASSERT_FATAL(near.mr != nullptr);
  CU_ASSERT_FATAL(far.mr != nullptr);
  ibv_srq_init_attr attr{};
  attr.attr = {senders, 1, 0};
  ibv_srq* srq = ibv_create_srq(far.pd, &attr);
  CU_ASSERT_FATAL(srq != nullptr);
  ibv_qp* from[senders];
  ibv_qp* to[senders];
  for (int i = 0; i < senders; i++) {
    from[i] = near.add_queue(nullptr);
    to[i] = far.add_queue(srq);
    CU_ASSERT_FATAL(from[i] != nullptr);
    CU_ASSERT_FATAL(to[i] != nullptr);
    EQUAL_FATAL(connect_to(from[i], to[i]), 0);
    EQUAL_FATAL(connect_to(to[i], from[i]), 0);
    std::fill_n(near.memory.data() + std::size_t{message} * static_cast<std::size_t>(i), message,
                static_cast<uint8_t>(i + 1));
    EQUAL(post_shared(srq, far.part(i), static_cast<uint64_t>(i)), 0);
  }
  for (int i = 0; i < senders; i++) EQUAL(post_send(from[i], near.part(i)), 0);
  for (int i = 0; i < senders; i++) {
    ibv_wc wc{};
    CU_ASSERT_FATAL(next_completion(near, far, far.cq, wc));
    int sender = static_cast<int>(
        std::find_if(to, to + senders, [&](ibv_qp* q) { return q->qp_num == wc.qp_num; }) - to);
    CU_ASSERT_FATAL(sender < senders);
    CU_ASSERT_FATAL(wc.wr_id < senders);
    EQUAL(wc.byte_len, message);
    CU_ASSERT(all_equal(far.memory.data() + wc.wr_id * message, static_cast<uint8_t>(sender + 1)));
  }
  for (int i = 0; i < senders; i++) {
    ibv_destroy_qp(from[i]);
    ibv_destroy_qp(to[i]);
  }
  EQUAL(ibv_destroy_srq(srq), 0);
}

const Case cases[] = {
    {"mixed messages keep the receive WQE that they started with",
     mixed_messages_keep_their_receives},
};

}  // namespace
}  // namespace shared_wire_ut

KILIM_TEST_SUITE(shared_wire, shared_wire_ut::cases)
