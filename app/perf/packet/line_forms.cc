// SPDX-License-Identifier: BSD-3-Clause
// Packets forwarded as line_packet.cc, mode io, received in the other forms that a queue may have:
// compressed completions, buffers of several packets, packets of two buffers each, sent as two
// pieces; and plain ones of which everything is told, or of queues that take joined TCP segments,
// which these are not. Each beside the floor loop of plain packets,
// without goal: it does other work.
#include <vector>

#include "perf/packet/forward.hh"
#include "perf/packet/words.hh"

namespace kilim::perf {
namespace {

constexpr burst::RxConfig side{.side = true};
constexpr burst::RxConfig everything{
    .side = true, .vlan = true, .timestamp = true, .mark = true, .tunnel = true};
constexpr burst::RxConfig joining{.side = true, .lro = true};

template <RxForm F, burst::RxConfig C>
struct FormForwarder {
  static constexpr Way plain = ways::sse;
  static constexpr bool chained = F == RxForm::chained;
  static constexpr uint32_t head_bytes = 32;  // of a packet of two buffers
  EmulatedNic nic;
  std::vector<uint32_t> buffers = std::vector<uint32_t>(packet_ring);
  std::vector<uint32_t> more_buffers = std::vector<uint32_t>(packet_ring);
  std::vector<uint8_t> missing = std::vector<uint8_t>(packet_ring);
  std::vector<uint64_t> wr_ids = std::vector<uint64_t>(packet_ring);
  std::vector<pool::Handle> handles = std::vector<pool::Handle>(2 * packet_ring);
  std::vector<burst::SentRing::Burst> bursts = std::vector<burst::SentRing::Burst>(packet_ring);
  std::optional<pool::BufferCache> cache;
  std::optional<burst::RxChain> chain;
  std::optional<burst::RxQueue> rx;
  std::optional<burst::TxQueue> tx;
  burst::RxBurst receive = receive_of();
  burst::TxBurst send = burst::select_tx({.multi_seg = chained}, burst::Simd::base).burst;
  std::array<pool::Handle, 2 * round_requests> packets{};

  static burst::RxBurst receive_of() {
    if (F == RxForm::compressed) return burst::select_compressed_rx(C, burst::Simd::base).burst;
    if (F == RxForm::strided) return burst::select_strided_rx(C).burst;
    return chained ? burst::select_rx_chain(C).burst : burst::select_rx(C, burst::Simd::base).burst;
  }
  static burst::RxPlace place_in(const pool::Arena& arena) {
    return {arena, packet_key, 0, chained ? head_bytes : 0,
            F == RxForm::strided ? packet_strides : burst::RxStrides{}};
  }
  bool open(const char* name) {
    if (!nic.open(name, F).empty()) return false;
    cache.emplace(nic.pool());
    const burst::RxPlace place = place_in(nic.arena());
    rx.emplace(burst::RxQueue{.rq = burst::RxRing(nic.rq(), buffers, place),
                              .cq = queue::Cq(nic.rx_cq()),
                              .cache = &*cache,
                              .arena = nic.arena(),
                              .mini_hash = true,
                              .strides = place.strides});
    tx.emplace(burst::TxQueue{.sq = queue::Sq(nic.sq(), wr_ids),
                              .cq = queue::Cq(nic.tx_cq()),
                              .sent = burst::SentRing(handles, bursts),
                              .cache = &*cache,
                              .arena = nic.arena(),
                              .key = packet_key});
    if (F == RxForm::strided) return burst::rx_refill_strides(*rx) == packet_ring;
    if (!chained) return burst::rx_refill(*rx) == packet_ring;
    chain.emplace(nic.rq(), more_buffers, missing,
                  burst::RxChainPlace{nic.arena(), packet_key, 2, head_bytes}, *cache);
    rx->chain = &*chain;
    return burst::rx_refill_chain(*rx) == packet_ring;
  }
  void nic_turn() noexcept {
    nic.complete_sent();
    nic.receive(round_requests);
  }
};

// Packets, not pieces.
template <RxForm F, burst::RxConfig C>
[[gnu::noinline]] uint32_t forward_form(Rig& r, const Case&) {
  auto& self = *static_cast<FormForwarder<F, C>*>(r.of_lines[2].get());
  const uint32_t n = self.receive(*self.rx, self.packets);
  return self.send(*self.tx, std::span(self.packets).first(n)) / (F == RxForm::chained ? 2 : 1);
}

template <RxForm F, burst::RxConfig C = side>
constexpr Line form_line(const char* metric, double most_instructions) {
  return {.metric = metric,
          .time_goal = 0,
          .instruction_goal = 0,
          .cases = forward_cases,
          .kilim = {"bursts", forward_form<F, C>, prepare<FormForwarder<F, C>, 2>},
          .peers = floor_sides<ways::sse>,
          .most_instructions = most_instructions};
}

constexpr Line table[] = {
    form_line<RxForm::compressed>("packets forwarded, io, compressed completions", 61),
    form_line<RxForm::strided, burst::RxConfig{}>("packets forwarded, io, buffers of 32 packets",
                                                  108),
    form_line<RxForm::strided>("packets forwarded, io, buffers of 32 packets, side records", 149),
    form_line<RxForm::plain, everything>("packets forwarded, io, all that a CQE says", 74),
    form_line<RxForm::plain, joining>("packets forwarded, io, joined segments looked for", 78),
    form_line<RxForm::chained>("packets forwarded, io, two buffers each", 303),
};

}  // namespace

std::span<const Line> form_lines() noexcept {
  return table;
}

}  // namespace kilim::perf
