// SPDX-License-Identifier: BSD-3-Clause
// For tests: two devices joined by a cable, each with a raw packet queue.
#pragma once

#include "fabric_fixture.hh"

namespace kilim::test {

inline Attached* attach_wired(const char* name, const char* wire) {
  kilim::DeviceSpec config;
  config.name = name;
  config.wires = {wire};
  auto attached = kilim::vhca::entry::attach(config);
  if (!attached) std::printf("attach: %s\n", attached.error().what);
  return attached ? *attached : nullptr;
}

// One device with a raw packet queue, its memory in frames of 2048 bytes.
struct Port {
  static constexpr uint32_t frame = 2048;

  Port(Attached* device, const char* name)
      : attached(device),
        c(open_device(name)),
        pd(ibv_alloc_pd(c)),
        cq(ibv_create_cq(c, 64, nullptr, nullptr, 0)),
        memory(pd, 16 * frame, IBV_ACCESS_LOCAL_WRITE),
        qp(create_qp(pd, cq,
                     {0, 0, 0, IBV_QPT_RAW_PACKET, MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE})) {
    CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
    ibv_qp_attr a{};
    a.port_num = 1;
    a.qp_state = IBV_QPS_INIT;
    EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT), 0);
    a.qp_state = IBV_QPS_RTR;
    EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
    a.qp_state = IBV_QPS_RTS;
    EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
  }
  ~Port() {
    ibv_destroy_qp(qp);
    memory.release();
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    ibv_close_device(c);
  }
  void receive(uint32_t slot, uint32_t bytes = frame) {
    ibv_sge sge = memory.sge(slot * frame, bytes);
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = slot;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    EQUAL(ibv_post_recv(qp, &wr, &bad), 0);
  }
  void send(const uint8_t* dst, uint32_t bytes) {
    uint8_t* f = memory.data();
    fill(f, bytes, static_cast<uint8_t>(bytes));
    std::memcpy(f, dst, 6);
    std::memcpy(f + 6, "\x02\x00\x00\x00\x00\x01\x88\xb5", 8);
    ibv_sge sge = memory.sge(0, bytes);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    EQUAL(ibv_post_send(qp, &wr, &bad), 0);
  }
  ibv_flow* flow(ibv_flow_attr_type type, const uint8_t* dst = nullptr,
                 const uint8_t* mask = nullptr) {
    struct {
      ibv_flow_attr attr{};
      ibv_flow_spec_eth eth{};
    } f;
    f.attr.type = type;
    f.attr.port = 1;
    f.attr.size = sizeof f.attr;
    if (dst != nullptr) {
      f.attr.size = sizeof f;
      f.attr.num_of_specs = 1;
      f.eth.type = IBV_FLOW_SPEC_ETH;
      f.eth.size = sizeof f.eth;
      std::memcpy(f.eth.val.dst_mac, dst, 6);
      std::memcpy(f.eth.mask.dst_mac, mask, 6);
    }
    return ibv_create_flow(qp, &f.attr);
  }

  Attached* attached;
  ibv_context* c;
  ibv_pd* pd;
  ibv_cq* cq;
  Region memory;
  ibv_qp* qp;
};

struct Cable {
  Cable() : left(devices()[0], "eth0"), right(devices()[1], "eth1") {}
  static Attached** devices() {
    static Attached* both[2] = {attach_wired("eth0", "cable:verbs"),
                                attach_wired("eth1", "cable:verbs")};
    return both;
  }
  void run() {
    for (int i = 0; i < 20; i++) {
      left.attached->poll();
      right.attached->poll();
    }
  }
  // Whether a frame sent by the left one to `dst` arrives at the right one.
  bool passes(const uint8_t* dst, uint32_t bytes = 60) {
    left.send(dst, bytes);
    run();
    ibv_wc wc{};
    EQUAL(ibv_poll_cq(left.cq, 1, &wc), 1);
    EQUAL(wc.status, IBV_WC_SUCCESS);
    if (ibv_poll_cq(right.cq, 1, &wc) != 1) return false;
    EQUAL(wc.status, IBV_WC_SUCCESS);
    EQUAL(wc.byte_len, bytes);
    const uint8_t* at = right.memory.data() + wc.wr_id * Port::frame;
    EQUAL(std::memcmp(at, left.memory.data(), bytes), 0);
    return true;
  }
  Port left, right;
};

}  // namespace kilim::test
