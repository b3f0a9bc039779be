// SPDX-License-Identifier: BSD-3-Clause
// What the virtual device costs for a frame of 64 bytes: a SEND executed by one adapter, the frame
// on a cable, received by another with packet type and checksum status, both with their
// completions; against two copies of as many bytes.
#include <cstring>
#include <memory>

#include "kilim/base/barrier.hh"
#include "mlx5/handle.hh"
#include "perf/compare/line.hh"
#include "vhca/entry/attach.hh"

namespace kilim::perf {
namespace {

constexpr uint32_t frame_bytes = 64, entries = 128, room_bytes = 2048;

ibv_context* open_context(const char* name) {
  ibv_context* context = nullptr;
  ibv_device** list = ibv_get_device_list(nullptr);
  for (ibv_device** d = list; d != nullptr && *d != nullptr; d++)
    if (std::strcmp(ibv_get_device_name(*d), name) == 0) context = ibv_open_device(*d);
  ibv_free_device_list(list);
  return context;
}

// One adapter with a raw packet queue.
struct End {
  vhca::Attached* device = nullptr;
  mlx5::Context context;
  mlx5::Pd pd;
  mlx5::VerbsMr region;
  mlx5::VerbsCq cq;
  mlx5::VerbsQp qp;
  alignas(64) std::array<std::byte, round_requests * room_bytes> memory{};

  bool open(const char* name) {
    vhca::AttachConfig config;
    config.name = name;
    config.wires = {"cable:perf"};
    auto attached = vhca::attach(config);
    if (!attached) return false;
    device = *attached;
    ibv_context* c = open_context(name);
    if (c == nullptr) return false;
    context.reset(c);
    pd.reset(ibv_alloc_pd(c));
    if (!pd) return false;
    region.reset(ibv_reg_mr(pd.get(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE));
    cq.reset(ibv_create_cq(c, entries, nullptr, nullptr, 0));
    return region && cq && make_qp();
  }
  bool make_qp() {
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_RAW_PACKET;
    init.send_cq = init.recv_cq = cq.get();
    init.cap = {entries, entries, 1, 1, 0};
    qp.reset(ibv_create_qp(pd.get(), &init));
    if (!qp) return false;
    ibv_qp_attr a{};
    a.port_num = 1;
    for (ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      a.qp_state = state;
      const int mask = IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0);
      if (ibv_modify_qp(qp.get(), &a, mask) != 0) return false;
    }
    return true;
  }
  ibv_sge piece(uint32_t i, uint32_t bytes) {
    return {reinterpret_cast<uint64_t>(memory.data() + i * room_bytes), bytes, region->lkey};
  }
  bool drain() {
    ibv_wc wc[round_requests];
    int n = 0;
    while ((n = ibv_poll_cq(cq.get(), round_requests, wc)) > 0) {
      for (int i = 0; i < n; i++)
        if (wc[i].status != IBV_WC_SUCCESS) return false;
    }
    return n == 0;
  }
};

struct Cable {
  End from, to;
  mlx5::VerbsFlow flow;  // goes before the queue that it leads to
  bool open() {
    if (!from.open("frames0") || !to.open("frames1")) return false;
    // Addresses, IPv4, UDP.
    constexpr uint8_t headers[42]{2,    0, 0,  0,  0, 9, 2, 0, 0,  0,  0,    1,    8,    0,
                                  0x45, 0, 0,  50, 0, 0, 0, 0, 64, 17, 0x66, 0xb9, 10,   0,
                                  0,    1, 10, 0,  0, 2, 4, 0, 4,  1,  0,    30,   0xe3, 0xae};
    for (uint32_t i = 0; i < round_requests; i++)
      std::memcpy(from.memory.data() + i * room_bytes, headers, sizeof headers);
    struct {
      ibv_flow_attr attr{};
      ibv_flow_spec_eth eth{};
    } rule;
    rule.attr.type = IBV_FLOW_ATTR_NORMAL;
    rule.attr.size = sizeof rule;
    rule.attr.num_of_specs = 1;
    rule.attr.port = 1;
    rule.eth.type = IBV_FLOW_SPEC_ETH;
    rule.eth.size = sizeof rule.eth;
    std::memcpy(rule.eth.val.dst_mac, headers, 6);
    std::memset(rule.eth.mask.dst_mac, 0xff, 6);
    flow.reset(ibv_create_flow(to.qp.get(), &rule.attr));
    return flow != nullptr;
  }
  // Everything of a round that the client does; false: something of the last one failed.
  bool post() {
    if (!from.drain() || !to.drain()) return false;
    for (uint32_t i = 0; i < round_requests; i++) {
      ibv_sge in = to.piece(i, room_bytes), out = from.piece(i, frame_bytes);
      ibv_recv_wr recv{};
      ibv_recv_wr* bad_recv = nullptr;
      recv.sg_list = &in;
      recv.num_sge = 1;
      ibv_send_wr send{};
      ibv_send_wr* bad_send = nullptr;
      send.opcode = IBV_WR_SEND;
      if (i + 1 == round_requests) send.send_flags = IBV_SEND_SIGNALED;
      send.sg_list = &out;
      send.num_sge = 1;
      if (ibv_post_recv(to.qp.get(), &recv, &bad_recv) != 0) return false;
      if (ibv_post_send(from.qp.get(), &send, &bad_send) != 0) return false;
    }
    return true;
  }
};

Cable* cable(Rig& r) {
  std::shared_ptr<void>& mine = r.of_lines[6];
  if (mine == nullptr) {
    auto fresh = std::make_shared<Cable>();
    if (!fresh->open()) return nullptr;
    mine = fresh;
  }
  return static_cast<Cable*>(mine.get());
}

uint32_t prepare(Rig& r, const Case&) {
  Cable* c = cable(r);
  return c != nullptr && c->post() ? 1 : 0;
}

[[gnu::noinline]] uint32_t pass(Rig& r, const Case&) {
  Cable& c = *static_cast<Cable*>(r.of_lines[6].get());
  c.from.device->poll();
  c.to.device->poll();
  return round_requests;
}

[[gnu::noinline]] uint32_t two_copies(Rig& r, const Case&) {
  for (uint32_t i = 0; i < round_requests; i++) {
    std::memcpy(r.block_target, r.block, frame_bytes);
    forget_registers();
    std::memcpy(r.block, r.block_target, frame_bytes);
    forget_registers();
  }
  return round_requests;
}

constexpr Case cases[] = {{"64 bytes", frame_bytes}};
constexpr Side peers[] = {{"memcpy, twice", two_copies}};

}  // namespace

const Line device_frame_line = {.metric = "frame sent, received by the device",
                                .time_goal = 0,
                                .instruction_goal = 0,
                                .cases = cases,
                                .kilim = {"cable", pass, prepare},
                                .peers = peers,
                                .executing = true,
                                .most_instructions = 495};

}  // namespace kilim::perf
