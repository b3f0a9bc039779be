// SPDX-License-Identifier: BSD-3-Clause
// Kilim's own bursts, in handles, with SSE4.2 and AVX2, as a port has them: by one indirect call
// each; many packets a WQE where a packet is one piece, as net_mlx5 sends them.
#include <algorithm>
#include <array>
#include <cstring>

#include "kilim/detail/burst/select.hh"
#include "kilim/packet.hh"
#include "perf/packet/emulated_nic.hh"
#include "perf/race/mlx5_port.hh"
#include "perf/race/racers.hh"

namespace kilim::race {
namespace {

constexpr uint32_t most_segments = 4;

burst::TxConfig sends_of(const Setting& s) {
  const bool chains = s.work.segments > 1;
  return {.multi_seg = chains, .multi_packet = !chains, .offloads = s.work.ask != Ask::nothing};
}

struct Native {
  perf::EmulatedNic rings;
  std::vector<uint32_t> buffers = std::vector<uint32_t>(ring);
  std::vector<uint64_t> wr_ids = std::vector<uint64_t>(ring);
  std::vector<pool::Handle> handles = std::vector<pool::Handle>(most_segments * ring);
  std::vector<burst::SentRing::Burst> bursts = std::vector<burst::SentRing::Burst>(ring);
  std::optional<pool::BufferCache> cache;
  std::optional<burst::RxQueue> rx;
  std::optional<burst::TxQueue> tx;
  burst::RxBurst receive = nullptr;
  burst::TxBurst send = nullptr;
  std::array<pool::Handle, burst_packets> packets{};
  std::array<pool::Handle, most_segments * burst_packets> pieces{};
  std::unique_ptr<Nic> nic;

  std::string open(const char* pool, const Setting& s, burst::Simd simd);
};

std::string Native::open(const char* pool, const Setting& s, burst::Simd simd) {
  if (std::string why = rings.open(pool); !why.empty()) return why;
  constexpr burst::RxConfig side{.side = true};
  receive = s.is_single() ? burst::select_rx(side, simd).burst
                          : burst::select_compressed_rx(side, simd).burst;
  const burst::TxConfig config = sends_of(s);
  send = burst::select_tx(config, simd).burst;
  cache.emplace(rings.pool());
  rx.emplace(
      burst::RxQueue{.rq = burst::RxRing(rings.rq(), buffers, {rings.arena(), perf::packet_key, 0}),
                     .cq = queue::Cq(rings.rx_cq()),
                     .cache = &*cache,
                     .arena = rings.arena(),
                     .mini_hash = s.reception != Reception::sum_minis});
  tx.emplace(burst::TxQueue{
      .sq = queue::Sq(rings.sq(), wr_ids),
      .cq = queue::Cq(rings.tx_cq()),
      .sent = burst::SentRing(handles, bursts),
      .cache = &*cache,
      .arena = rings.arena(),
      .key = perf::packet_key,
      .offer = {.words = config.offloads, .tags = true, .checksums = 0xff, .max_tso = 1 << 18}});
  if (burst::rx_refill(*rx) != ring) return "its receive queue is not full";
  nic = std::make_unique<Nic>(Rings{rings.rq(), rings.rx_cq(), rings.sq(), rings.tx_cq()});
  return "";
}

constexpr pool::TxWord word_of(Ask a, uint32_t i) noexcept {
  constexpr uint8_t sums = queue::EthOffload::l3 | queue::EthOffload::l4;
  if (a == Ask::tag || a == Ask::tags)
    return {.tag = pool::VlanTag::customer,
            .tci = static_cast<uint16_t>(first_tag + (a == Ask::tags ? i : 0))};
  if (a == Ask::tso) return {.checksums = sums, .mss = segment_size, .headers = 54};
  return {.checksums = sums};
}

uint64_t read_handles(const pool::Arena& arena, std::span<const pool::Handle> came) noexcept {
  uint64_t total = 0;
  for (const pool::Handle h : came) {
    uint32_t to;
    std::memcpy(&to, arena.bytes(h).data() + ipv4_destination, sizeof to);
    const pool::SideRecord& d = arena.side(h);
    total += to ^ d.rx_hash;
    total += d.packet_type + h.length + (d.flags & sums_good);
  }
  return total;
}

// Puts fresh buffers behind each packet; returns how many pieces there are.
template <Work W>
[[gnu::always_inline]] inline uint32_t add_tails(Native& s, uint32_t n) noexcept {
  constexpr uint32_t more = W.segments - 1;
  pool::Handle tails[more * burst_packets];
  if (s.cache->alloc(std::span(tails).first(more * n), tail_bytes) != more * n) return 0;
  const pool::Handle* next = tails;
  pool::Handle* to = s.pieces.data();
  for (uint32_t i = 0; i < n; i++) {
    *to = s.packets[i];
    for (uint32_t k = 0; k < more; k++) {
      to->meta |= pool::Handle::more;
      *++to = *next++;
    }
    to++;
  }
  return W.segments * n;
}

template <Work W>
[[gnu::noinline]] uint32_t forward(void* self) {
  auto& s = *static_cast<Native*>(self);
  const uint32_t n = s.receive(*s.rx, s.packets);
  const std::span<pool::Handle> came = std::span(s.packets).first(n);
  if constexpr (W.job == Job::mac) {
    pool::each_data(s.rings.arena(), came, [](std::byte* frame) noexcept {
      std::memcpy(frame, new_addresses.both, sizeof new_addresses.both);
    });
  }
  if constexpr (W.job == Job::read) sink = read_handles(s.rings.arena(), came);
  if constexpr (W.ask != Ask::nothing) {
    for (uint32_t i = 0; i < n; i++) {
      if (!asks(W.ask, i)) continue;
      s.rings.arena().side(came[i]).tx = word_of(W.ask, i);
      came[i].meta |= pool::Handle::offload;
    }
  }
  if constexpr (W.segments > 1)
    return s.send(*s.tx, std::span(s.pieces).first(add_tails<W>(s, n))) / W.segments;
  else
    return s.send(*s.tx, came);
}

uint32_t receive(void* self, std::span<Seen> out) {
  auto& s = *static_cast<Native*>(self);
  const pool::Arena& arena = s.rings.arena();
  const std::size_t want = std::min(out.size(), s.packets.size());
  const uint32_t n = s.receive(*s.rx, std::span(s.packets).first(want));
  for (uint32_t i = 0; i < n; i++) {
    const pool::Handle h = s.packets[i];
    const pool::SideRecord& d = arena.side(h);
    out[i] = {.bytes = h.length,
              .type = d.packet_type,
              .hash = d.rx_hash,
              .flags = d.flags & pool::SideRecord::flag_bits,
              .is_whole = h.has(pool::Handle::side) && !h.has(pool::Handle::more) && d.vlan == 0 &&
                          d.mark() == 0};
    std::memcpy(&out[i].frame, arena.bytes(h).data(), sizeof out[i].frame);
  }
  s.cache->free(std::span<const pool::Handle>(s.packets).first(n));
  return n;
}

std::string add(std::vector<Racer>& racers, const char* name, const char* pool, const Setting& s,
                burst::Simd simd) {
  auto self = std::make_shared<Native>();
  if (std::string why = self->open(pool, s, simd); !why.empty())
    return std::string(name) + ": " + why;
  const auto forward_it = function_of<uint32_t (*)(void*)>(
      s.work, []<Work W>() noexcept -> uint32_t (*)(void*) { return &forward<W>; });
  racers.push_back({.name = name,
                    .self = self,
                    .forward = forward_it,
                    .receive = receive,
                    .nic = self->nic.get()});
  return "";
}

}  // namespace

std::string add_native(std::vector<Racer>& racers, const Setting& s) {
  if (s.of_mbufs) return "";
  std::string why = add(racers, "kilim", "race_sse", s, burst::Simd::base);
  if (why.empty() && burst::widest_simd() >= burst::Simd::avx2)
    why = add(racers, "kilim, AVX2", "race_avx2", s, burst::Simd::avx2);
  return why;
}

}  // namespace kilim::race
