// SPDX-License-Identifier: BSD-3-Clause
// What the virtual device costs for a frame of 64 bytes that a hash spreads: as line_frames.cc, but
// the receiver has four receive queues of their own behind a table and a Toeplitz hash over
// addresses and ports; 32 flows a round.
#include <array>
#include <memory>

#include "kilim/detail/base/barrier.hh"
#include "perf/device/cable_end.hh"
#include "perf/device/lines.hh"

namespace kilim::perf {
namespace {

constexpr std::size_t queue_count = 4;

struct SpreadQueue {
  mlx5::VerbsCq cq;
  mlx5::VerbsRwq wq;

  bool open(End& end) {
    cq.reset(ibv_create_cq(end.context.get(), entries, nullptr, nullptr, 0));
    if (!cq) return false;
    ibv_wq_init_attr init{};
    init.wq_type = IBV_WQT_RQ;
    init.max_wr = entries;
    init.max_sge = 1;
    init.pd = end.pd.get();
    init.cq = cq.get();
    wq.reset(ibv_create_wq(end.context.get(), &init));
    ibv_wq_attr ready{};
    ready.attr_mask = IBV_WQ_ATTR_STATE;
    ready.wq_state = IBV_WQS_RDY;
    return wq && ibv_modify_wq(wq.get(), &ready) == 0 && post(end, round_requests);
  }
  bool post(End& end, uint32_t count) const {
    for (uint32_t i = 0; i < count; i++) {
      ibv_sge in = end.piece(i, room_bytes);
      ibv_recv_wr recv{};
      ibv_recv_wr* bad = nullptr;
      recv.sg_list = &in;
      recv.num_sge = 1;
      if (ibv_post_wq_recv(wq.get(), &recv, &bad) != 0) return false;
    }
    return true;
  }
  // Posts as many receives as frames came; false: something failed.
  bool turn_over(End& end, uint32_t& came) const {
    ibv_wc wc[round_requests];
    const int n = ibv_poll_cq(cq.get(), round_requests, wc);
    for (int i = 0; i < n; i++)
      if (wc[i].status != IBV_WC_SUCCESS) return false;
    if (n < 0) return false;
    came += static_cast<uint32_t>(n);
    return post(end, static_cast<uint32_t>(n));
  }
};

struct SpreadCable {
  End from, to;
  std::array<SpreadQueue, queue_count> queues;
  mlx5::VerbsRwqTable table;
  mlx5::VerbsQp hash;
  mlx5::VerbsFlow flow;
  uint32_t sent = 0, came = 0;

  bool open() {
    if (!from.open("spread0", "spread") || !to.open("spread1", "spread")) return false;
    for (uint32_t i = 0; i < round_requests; i++) {
      std::byte* frame = from.memory.data() + i * room_bytes;
      std::memcpy(frame, frame_headers, sizeof frame_headers);
      // Another source port, and the checksum that goes with it.
      frame[35] = static_cast<std::byte>(i);
      frame[41] = static_cast<std::byte>(frame_headers[41] - i);
    }
    for (SpreadQueue& q : queues)
      if (!q.open(to)) return false;
    return make_hash() && make_rule();
  }
  bool make_hash() {
    std::array<ibv_wq*, queue_count> members{};
    for (std::size_t i = 0; i < queue_count; i++) members[i] = queues[i].wq.get();
    ibv_rwq_ind_table_init_attr places{};
    places.log_ind_tbl_size = 2;
    places.ind_tbl = members.data();
    table.reset(ibv_create_rwq_ind_table(to.context.get(), &places));
    if (!table) return false;
    std::array<uint8_t, 40> key;
    for (std::size_t i = 0; i < key.size(); i++) key[i] = static_cast<uint8_t>(i * 37 + 11);
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_RAW_PACKET;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    init.pd = to.pd.get();
    init.rwq_ind_tbl = table.get();
    init.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, static_cast<uint8_t>(key.size()), key.data(),
                         IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_PORT_UDP |
                             IBV_RX_HASH_DST_PORT_UDP};
    hash.reset(ibv_create_qp_ex(to.context.get(), &init));
    return hash != nullptr;
  }
  bool make_rule() {
    struct {
      ibv_flow_attr attr{};
      ibv_flow_spec_eth eth{};
      ibv_flow_spec_ipv4 ip{};
      ibv_flow_spec_tcp_udp udp{};
    } rule;
    rule.attr.type = IBV_FLOW_ATTR_NORMAL;
    rule.attr.size = sizeof rule;
    rule.attr.num_of_specs = 3;
    rule.attr.port = 1;
    rule.eth.type = IBV_FLOW_SPEC_ETH;
    rule.eth.size = sizeof rule.eth;
    std::memcpy(rule.eth.val.dst_mac, frame_headers, 6);
    std::memset(rule.eth.mask.dst_mac, 0xff, 6);
    rule.ip.type = IBV_FLOW_SPEC_IPV4;
    rule.ip.size = sizeof rule.ip;
    rule.udp.type = IBV_FLOW_SPEC_UDP;
    rule.udp.size = sizeof rule.udp;
    flow.reset(ibv_create_flow(hash.get(), &rule.attr));
    return flow != nullptr;
  }
  // Everything of a round that the client does; false: something of the last one failed or was
  // lost.
  bool post() {
    if (!from.drain()) return false;
    for (const SpreadQueue& q : queues)
      if (!q.turn_over(to, came)) return false;
    if (came != sent) return false;
    sent += round_requests;
    return from.send_round();
  }
};

constexpr std::size_t slot = 7;

uint32_t prepare(Rig& r, const Case&) {
  std::shared_ptr<void>& mine = r.of_lines[slot];
  if (mine == nullptr) {
    auto fresh = std::make_shared<SpreadCable>();
    if (!fresh->open()) return 0;
    mine = fresh;
  }
  return static_cast<SpreadCable*>(mine.get())->post() ? 1 : 0;
}

[[gnu::noinline]] uint32_t pass(Rig& r, const Case&) {
  SpreadCable& c = *static_cast<SpreadCable*>(r.of_lines[slot].get());
  c.from.device->poll();
  c.to.device->poll();
  return round_requests;
}

constexpr Case cases[] = {{"64 bytes", frame_bytes}};
constexpr Side peers[] = {{"memcpy, twice", two_copies}};

}  // namespace

const Line device_spread_line = {.metric = "frame sent, spread over four queues by the device",
                                 .time_goal = 0,
                                 .instruction_goal = 0,
                                 .cases = cases,
                                 .kilim = {"cable", pass, prepare},
                                 .peers = peers,
                                 .executing = true,
                                 .most_instructions = 295};

}  // namespace kilim::perf
