// SPDX-License-Identifier: BSD-3-Clause
#include "perf/race/wqes.hh"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "kilim/prm/eth_seg.hh"
#include "kilim/prm/lint.hh"
#include "perf/race/mbufs.hh"

namespace kilim::race {
namespace {

// What packets ask for. net_mlx5 has no transmit function for all of it at once without inlining
// (mlx5_tx.c, mlx5_select_tx_function()): three forms of the queue.
struct Form {
  bool several, tags, tso;
  [[nodiscard]] uint64_t offloads() const noexcept {
    return RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM |
           (several ? RTE_ETH_TX_OFFLOAD_MULTI_SEGS : 0) |
           (tags ? RTE_ETH_TX_OFFLOAD_VLAN_INSERT : 0) | (tso ? RTE_ETH_TX_OFFLOAD_TCP_TSO : 0);
  }
};
constexpr Form forms[] = {{true, false, true}, {false, true, false}, {true, true, true}};
constexpr uint32_t header_bytes = 14 + 20 + 20;

// What a WQE means.
struct Said {
  uint32_t opcode = 0, mode = 0;  // completion mode
  uint32_t checksums = 0, mss = 0, inlined = 0, tag = 0, pieces = 0;
  bool some_inline = false;      // among the data segments
  std::vector<std::byte> frame;  // without a tag that the device puts in
};

struct Wire {
  OnNic* driver;
  Rings rings;
  uint16_t at = 0;  // of the next WQE
};

using Wqe = std::vector<std::byte>;

// The WQE that one packet made; empty: none, or more than one.
Wqe read_wqe(Wire& w) {
  const auto end = static_cast<uint16_t>(w.rings.sq.record->host());
  const auto blocks = static_cast<uint16_t>(end - w.at);
  Wqe wqe(std::size_t{blocks} * 64);
  for (uint32_t i = 0; i < blocks; i++) {
    const std::size_t from = (w.at + i) & (w.rings.sq.wqebb_count - 1);
    std::memcpy(wqe.data() + i * 64, w.rings.sq.buf + from * 64, 64);
  }
  w.at = end;
  if (wqe.empty()) return {};
  const auto ctrl = prm::lint::segment_at<prm::CtrlSeg>(wqe, 0);
  const uint32_t ds = prm::ctrl::ds::get(ctrl);
  if (wqebbs_for(Octowords{ds}).value() != blocks) return {};
  wqe.resize(ds * octoword_bytes);
  return wqe;
}

void append(std::vector<std::byte>& frame, const void* from, std::size_t bytes) {
  const auto* b = static_cast<const std::byte*>(from);
  frame.insert(frame.end(), b, b + bytes);
}

// After the linter: every segment lies inside.
Said decode(const Wqe& wqe) {
  Said s;
  const auto ctrl = prm::lint::segment_at<prm::CtrlSeg>(wqe, 0);
  const auto eth = prm::lint::segment_at<prm::EthSeg>(wqe, 16);
  s.opcode = prm::ctrl::opcode::get(ctrl);
  s.mode = prm::ctrl::completion_mode(ctrl.fm_ce_se);
  s.checksums = eth.cs_flags;
  s.mss = eth.mss.host();
  const uint16_t word = eth.inline_hdr_sz.host();
  if ((word & prm::eth::insert_vlan) != 0) {
    s.tag = uint32_t{word} << 16 | static_cast<uint32_t>(eth.inline_hdr_start[0]) << 8 |
            eth.inline_hdr_start[1];
  } else if ((s.inlined = word) != 0) {
    append(s.frame, eth.inline_hdr_start, std::min(s.inlined, 2u));
    if (s.inlined > 2) append(s.frame, wqe.data() + 32, s.inlined - 2);
  }
  std::size_t at = 32;
  if (s.inlined > 2) at += (s.inlined - 2 + 15) / 16 * 16;
  for (; at < wqe.size(); s.pieces++) {
    const auto d = prm::lint::segment_at<prm::DataSeg>(wqe, at);
    const uint32_t n = d.byte_count.host();
    if ((n & prm::inline_flag) != 0) {
      const uint32_t bytes = n & 0x3ff;
      append(s.frame, wqe.data() + at + 4, bytes);
      at += (bytes + 4 + 15) / 16 * 16;
      s.some_inline = true;
      continue;
    }
    append(s.frame, reinterpret_cast<const void*>(d.addr.host()), n);
    at += octoword_bytes;
  }
  return s;
}

// A TCP packet of 1 to 5 mbufs, which asks for nothing, checksums, a tag or TSO, or for several.
rte_mbuf* make_packet(rte_mempool* pool, Form form, std::mt19937& random) {
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  const uint32_t segments = 1 + (form.several && below(2) != 0 ? below(5) : 0);
  rte_mbuf* head = nullptr;
  for (uint32_t k = 0; k < segments; k++) {
    rte_mbuf* const m = rte_pktmbuf_alloc(pool);
    if (m == nullptr) return head;
    const auto n = static_cast<uint16_t>((k == 0 ? 60 : 1) + below(segments == 1 ? 1459 : 700));
    auto* bytes = reinterpret_cast<unsigned char*>(rte_pktmbuf_append(m, n));
    for (uint16_t i = 0; i < n; i++) bytes[i] = static_cast<unsigned char>(random());
    if (head == nullptr)
      head = m;
    else
      (void)rte_pktmbuf_chain(head, m);
  }
  static constexpr uint8_t start[]{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0};
  auto* const frame = rte_pktmbuf_mtod(head, unsigned char*);
  std::memcpy(frame, start, sizeof start);
  frame[20] = frame[21] = 0;  // no fragment
  frame[23] = 6;              // TCP
  frame[46] = 5 << 4;         // a header of 20 bytes
  head->l2_len = 14;
  head->l3_len = 20;
  head->l4_len = 20;
  if (below(2) != 0)
    head->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_TCP_CKSUM;
  if (form.tags && below(4) == 0) {
    head->ol_flags |= RTE_MBUF_F_TX_VLAN;
    head->vlan_tci = static_cast<uint16_t>(random());
  }
  if (form.tso && below(4) == 0 && head->pkt_len > 2 * header_bytes) {
    head->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_TCP_SEG;
    head->tso_segsz = static_cast<uint16_t>(64 + below(1000));
  }
  return head;
}

// The WQE of a packet by one driver, which takes a reference of its own to each mbuf.
std::string send_one(Wire& w, rte_mbuf* packet, Said& said) {
  for (rte_mbuf* m = packet; m != nullptr; m = m->next) rte_mbuf_refcnt_update(m, 1);
  if (w.driver->bursts.send(w.driver->bursts.tx, &packet, 1) != 1) return "was not taken";
  const Wqe wqe = read_wqe(w);
  if (wqe.empty()) return "is not one WQE";
  const prm::lint::Findings found = prm::lint::check_wqe(wqe, prm::lint::QueueKind::raw_packet);
  if (!found.empty()) return "has a WQE that the linter finds fault with";
  said = decode(wqe);
  w.driver->nic->complete();
  return "";
}

constexpr uint32_t plain_tag_bytes = 4;

// With the tag that the device puts in, so that it is one frame whichever way the tag goes.
std::vector<std::byte> tagged(const Said& s) {
  std::vector<std::byte> f = s.frame;
  if (s.tag == 0) return f;
  const std::byte tag[plain_tag_bytes]{std::byte{0x81}, std::byte{0},
                                       static_cast<std::byte>(s.tag >> 8 & 0xff),
                                       static_cast<std::byte>(s.tag & 0xff)};
  f.insert(f.begin() + 12, tag, tag + plain_tag_bytes);
  return f;
}

// One thing said in two ways, for reasons that doc/decisions/0057 has.
enum Way : uint8_t { one_packet, completion, inlining, tag, ways };
constexpr const char* way_names[ways] = {
    "net_mlx5 sends one packet by a multi-packet WQE, net_kilim by a SEND",
    "net_kilim's last WQE of a burst is completed, net_mlx5's not always",
    "net_mlx5 inlines the frame or its start", "net_mlx5 writes the tag among inlined bytes"};
using Ways = std::array<uint32_t, ways>;

bool is_send(uint32_t opcode, prm::Opcode wanted) {
  return opcode == static_cast<uint32_t>(wanted);
}

// The fault; else what of Way it met is counted.
std::string compare(const Said& ours, const Said& theirs, Ways& met) {
  if (tagged(ours) != tagged(theirs)) return "frames of other bytes";
  if (ours.mss != theirs.mss) return "another size of segments";
  if (ours.checksums != theirs.checksums) return "other checksums asked for";
  if (ours.opcode != theirs.opcode) {
    if (!is_send(ours.opcode, prm::Opcode::send) ||
        !is_send(theirs.opcode, prm::Opcode::enhanced_mpsw))
      return "another opcode";
    met[one_packet]++;
  }
  if (ours.mode != theirs.mode) {
    if (ours.mode != prm::ctrl::cq_update || theirs.mode != prm::ctrl::only_first_error)
      return "another completion mode";
    met[completion]++;
  }
  if (ours.tag != theirs.tag) {
    if (theirs.tag != 0 || (theirs.inlined == 0 && !theirs.some_inline)) return "another tag";
    met[tag]++;
  }
  const bool inlines = ours.inlined != theirs.inlined;
  if (inlines && ours.inlined > theirs.inlined) return "bytes inlined by net_kilim alone";
  met[inlining] += inlines || theirs.some_inline;
  if (!inlines && !theirs.some_inline && ours.pieces != theirs.pieces) return "other pieces";
  return "";
}

}  // namespace

std::string compare_wqes(uint32_t packets, uint32_t number) {
  if (number == 0 || number > std::size(forms)) return "there are forms 1 to 3";
  const Form form = forms[number - 1];
  auto kilim = std::make_unique<KilimMbufs>();
  auto mlx5 = std::make_unique<Mlx5Mbufs>();
  if (std::string why = kilim->open(form.offloads()); !why.empty()) return "net_kilim: " + why;
  if (std::string why = mlx5->open(form.offloads()); !why.empty()) return why;
  rte_mempool* pool = rte_pktmbuf_pool_create("race_random", pool_mbufs, 0, 0,
                                              RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  if (pool == nullptr) return "no memory for a mempool";
  perf::EmulatedNic& n = kilim->rings;
  std::array<Wire, 2> wires{Wire{kilim.get(), {n.rq(), n.rx_cq(), n.sq(), n.tx_cq()}, 0},
                            Wire{mlx5.get(), mlx5->port.rings(), 0}};
  wires[1].at = static_cast<uint16_t>(wires[1].rings.sq.record->host());
  std::mt19937 random(number);
  Ways met{};
  for (uint32_t i = 0; i < packets; i++) {
    rte_mbuf* const packet = make_packet(pool, form, random);
    if (packet == nullptr) return "mbufs do not come back";
    std::array<Said, 2> said;
    std::string why;
    for (std::size_t k = 0; k < 2 && why.empty(); k++)
      if (why = send_one(wires[k], packet, said[k]); !why.empty())
        why.insert(0, k == 0 ? "net_kilim: packet " : "net_mlx5: packet ");
    if (why.empty()) why = compare(said[0], said[1], met);
    rte_pktmbuf_free(packet);
    if (!why.empty()) return why + " (packet " + std::to_string(i) + ")";
  }
  for (std::size_t w = 0; w < ways; w++) std::printf("%s: %u\n", way_names[w], met[w]);
  std::printf("%u packets, one meaning\n", packets);
  return "";
}

}  // namespace kilim::race
