// SPDX-License-Identifier: BSD-3-Clause
// One end of a cable: a virtual device of this process with a raw packet queue, for lines that
// count what the device costs. Owner: a line; one thread. Written with libibverbs' own calls, so
// that no part of Kilim but the device is in the numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "mlx5/handle.hh"
#include "perf/compare/line.hh"
#include "perf/compare/rig.hh"
#include "vhca/entry/attach.hh"

namespace kilim::perf {

inline constexpr uint32_t frame_bytes = 64, entries = 128, room_bytes = 2048;

inline ibv_context* open_context(const char* name) {
  ibv_context* context = nullptr;
  ibv_device** list = ibv_get_device_list(nullptr);
  for (ibv_device** d = list; d != nullptr && *d != nullptr; d++)
    if (std::strcmp(ibv_get_device_name(*d), name) == 0) context = ibv_open_device(*d);
  ibv_free_device_list(list);
  return context;
}

// The headers of every frame: addresses, IPv4, UDP, whose checksum is right if the rest is zeros.
inline constexpr uint8_t frame_headers[42]{
    2, 0,  0,  0,    0,    9,  2, 0, 0, 0,  0, 1, 8, 0, 0x45, 0, 0, 50, 0,  0,    0,
    0, 64, 17, 0x66, 0xb9, 10, 0, 0, 1, 10, 0, 0, 2, 4, 0,    4, 1, 0,  30, 0xe3, 0xae};

// One adapter with a raw packet queue.
struct End {
  vhca::entry::Attached* device = nullptr;
  mlx5::Context context;
  mlx5::Pd pd;
  mlx5::VerbsMr region;
  mlx5::VerbsCq cq;
  mlx5::VerbsQp qp;
  alignas(64) std::array<std::byte, round_requests * room_bytes> memory{};

  bool open(const char* name, const std::string& cable) {
    DeviceSpec config;
    config.name = name;
    config.wires = {"cable:" + cable};
    auto attached = vhca::entry::attach(config);
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
  // A round of frames, the last one signaled.
  bool send_round() {
    for (uint32_t i = 0; i < round_requests; i++) {
      ibv_sge out = piece(i, frame_bytes);
      ibv_send_wr send{};
      ibv_send_wr* bad = nullptr;
      send.opcode = IBV_WR_SEND;
      if (i + 1 == round_requests) send.send_flags = IBV_SEND_SIGNALED;
      send.sg_list = &out;
      send.num_sge = 1;
      if (ibv_post_send(qp.get(), &send, &bad) != 0) return false;
    }
    return true;
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

// What both lines stand beside: a frame is copied there and back.
[[gnu::noinline]] inline uint32_t two_copies(Rig& r, const Case&) {
  for (uint32_t i = 0; i < round_requests; i++) {
    std::memcpy(r.block_target, r.block, frame_bytes);
    forget_registers();
    std::memcpy(r.block, r.block_target, frame_bytes);
    forget_registers();
  }
  return round_requests;
}

}  // namespace kilim::perf
