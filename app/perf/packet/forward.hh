// SPDX-License-Identifier: BSD-3-Clause
// What the lines of forwarded packets share: Kilim's bursts and the floor loop (floor.hh) in one
// Way, each with rings and a pool of its own, and the line made of the two. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kilim/detail/burst/select.hh"
#include "kilim/packet.hh"
#include "perf/compare/line.hh"
#include "perf/packet/emulated_nic.hh"
#include "perf/packet/floor.hh"

namespace kilim::perf {
namespace {  // each source has its own, so that one does not change what is inlined in another

struct Addresses {
  std::byte both[12];  // destination, source
};
inline constexpr Addresses new_addresses{};

constexpr bool asks(Way w) noexcept {
  return w.words == Way::Words::checksums || w.words == Way::Words::tag;
}
constexpr pool::TxWord word_of(Way w) noexcept {
  if (w.words == Way::Words::tag) return {.tag = pool::VlanTag::customer, .tci = 100};
  return {.checksums = queue::EthOffload::l3 | queue::EthOffload::l4};
}

// Kilim's side: the bursts as a port has them, by one indirect call each.
template <Way W>
struct Ours {
  EmulatedNic nic;
  std::vector<uint32_t> buffers = std::vector<uint32_t>(packet_ring);
  std::vector<uint64_t> wr_ids = std::vector<uint64_t>(packet_ring);
  std::vector<pool::Handle> handles = std::vector<pool::Handle>(packet_ring);
  std::vector<burst::SentRing::Burst> bursts = std::vector<burst::SentRing::Burst>(packet_ring);
  std::optional<pool::BufferCache> cache;
  std::optional<burst::RxQueue> rx;
  std::optional<burst::TxQueue> tx;
  static constexpr burst::TxConfig sends{.multi_packet = W.multi_packet,
                                         .offloads = W.words != Way::Words::none};
  burst::RxBurst receive = burst::select_rx(W.received, W.simd).burst;
  burst::TxBurst send = burst::select_tx(sends, W.simd).burst;
  std::array<pool::Handle, round_requests> packets{};

  bool open(const char* name) {
    if (!nic.open(name).empty()) return false;
    cache.emplace(nic.pool());
    rx.emplace(burst::RxQueue{.rq = burst::RxRing(nic.rq(), buffers, {nic.arena(), packet_key, 0}),
                              .cq = queue::Cq(nic.rx_cq()),
                              .cache = &*cache,
                              .arena = nic.arena()});
    tx.emplace(burst::TxQueue{.sq = queue::Sq(nic.sq(), wr_ids),
                              .cq = queue::Cq(nic.tx_cq()),
                              .sent = burst::SentRing(handles, bursts),
                              .cache = &*cache,
                              .arena = nic.arena(),
                              .key = packet_key,
                              .offer = {.words = sends.offloads, .tags = true, .checksums = 0xff}});
    return burst::rx_refill(*rx) == packet_ring;
  }
  void nic_turn() noexcept {
    nic.complete_sent();
    nic.receive(round_requests);
  }
};

template <Way W>
struct Theirs {
  EmulatedNic nic;
  std::optional<Floor> floor;
  bool open(const char* name) {
    if (!nic.open(name).empty()) return false;
    floor.emplace(nic);
    return true;
  }
  void nic_turn() noexcept {
    nic.complete_sent();
    nic.receive(round_requests);
  }
};

// Each is made when it is needed first. One at a time: a line is measured to its end before the
// next one begins.
template <typename Forwarder>
Forwarder* kept(Rig& r, std::size_t slot) {
  std::shared_ptr<void>& mine = r.of_lines[slot];
  static const void* made = nullptr;  // for this type
  if (made != nullptr && mine.get() == made) return static_cast<Forwarder*>(mine.get());
  mine.reset();
  auto fresh = std::make_shared<Forwarder>();
  if (!fresh->open(slot == 2 ? "packet_kilim" : "packet_floor")) return nullptr;
  mine = fresh;
  made = fresh.get();
  return fresh.get();
}

template <typename Forwarder, std::size_t Slot>
uint32_t prepare(Rig& r, const Case&) {
  auto* self = kept<Forwarder>(r, Slot);
  if (self == nullptr) return 0;
  self->nic_turn();
  return 1;
}

template <Way W>
[[gnu::noinline]] uint32_t forward(Rig& r, const Case&) {
  Ours<W>& self = *static_cast<Ours<W>*>(r.of_lines[2].get());
  const uint32_t n = self.receive(*self.rx, self.packets);
  if constexpr (W.mac) {
    const std::span<const pool::Handle> came = std::span(self.packets).first(n);
    pool::each_data(self.nic.arena(), came, [](std::byte* frame) noexcept {
      std::memcpy(frame, &new_addresses, sizeof new_addresses);
    });
  }
  if constexpr (asks(W)) {
    constexpr pool::TxWord word = word_of(W);
    for (pool::Handle& h : std::span(self.packets).first(n)) {
      self.nic.arena().side(h).tx = word;
      h.meta |= pool::Handle::offload;
    }
  }
  return self.send(*self.tx, std::span(self.packets).first(n));
}

template <Way W>
[[gnu::noinline]] uint32_t floor_forward(Rig& r, const Case&) {
  constexpr Way unasked = ways::with_words(W, Way::Words::none);  // its packets ask for nothing
  return static_cast<Theirs<W>*>(r.of_lines[3].get())
      ->floor->template forward<unasked>(round_requests);
}

inline constexpr Case forward_cases[] = {{"64 bytes", packet_bytes}};
template <Way W>
inline constexpr Side floor_sides[] = {{"floor", floor_forward<W>, prepare<Theirs<W>, 3>}};

// Time against the floor, instructions by themselves: the floor knows its sizes, the bursts do not.
template <Way W>
constexpr Line forward_line(const char* metric, double most_instructions) {
  return {.metric = metric,
          .time_goal = W.words == Way::Words::none ? 1.15 : 0,
          .instruction_goal = 0,
          .cases = forward_cases,
          .kilim = {"bursts", forward<W>, prepare<Ours<W>, 2>},
          .peers = floor_sides<W>,
          .most_instructions = most_instructions};
}

}  // namespace
}  // namespace kilim::perf
