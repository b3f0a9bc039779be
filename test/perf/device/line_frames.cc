// SPDX-License-Identifier: BSD-3-Clause
// What the virtual device costs for a frame of 64 bytes: a SEND executed by one adapter, the frame
// on a cable, received by another with packet type and checksum status, both with their
// completions; against two copies of as many bytes.
#include <cstring>
#include <memory>

#include "kilim/detail/base/barrier.hh"
#include "perf/device/cable_end.hh"
#include "perf/device/lines.hh"

namespace kilim::perf {
namespace {

struct Cable {
  End from, to;
  mlx5::VerbsFlow flow;  // goes before the queue that it leads to
  bool open() {
    if (!from.open("frames0", "perf") || !to.open("frames1", "perf")) return false;
    for (uint32_t i = 0; i < round_requests; i++)
      std::memcpy(from.memory.data() + i * room_bytes, frame_headers, sizeof frame_headers);
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
    std::memcpy(rule.eth.val.dst_mac, frame_headers, 6);
    std::memset(rule.eth.mask.dst_mac, 0xff, 6);
    flow.reset(ibv_create_flow(to.qp.get(), &rule.attr));
    return flow != nullptr;
  }
  // Everything of a round that the client does; false: something of the last one failed.
  bool post() {
    if (!from.drain() || !to.drain()) return false;
    for (uint32_t i = 0; i < round_requests; i++) {
      ibv_sge in = to.piece(i, room_bytes);
      ibv_recv_wr recv{};
      ibv_recv_wr* bad_recv = nullptr;
      recv.sg_list = &in;
      recv.num_sge = 1;
      if (ibv_post_recv(to.qp.get(), &recv, &bad_recv) != 0) return false;
    }
    return from.send_round();
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
                                .most_instructions = 252};

}  // namespace kilim::perf
