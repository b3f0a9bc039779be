// SPDX-License-Identifier: BSD-3-Clause
// Packets of 64 bytes forwarded from one queue to another, 32 at a time, with packet type, hash,
// checksum status and statistics: Kilim's bursts against the floor loop (floor.hh), each with rings
// and a pool of its own. Mode mac writes both Ethernet addresses.
#include <cstring>

#include "kilim/burst/select.hh"
#include "perf/compare/line.hh"
#include "perf/packet/emulated_nic.hh"
#include "perf/packet/floor.hh"

namespace kilim::perf {
namespace {

constexpr burst::RxConfig received{.side = true};

struct Addresses {
  std::byte both[12];  // destination, source
};
constexpr Addresses new_addresses{};

// Kilim's side: the bursts as a port has them, by one indirect call each.
struct Ours {
  EmulatedNic nic;
  std::vector<uint32_t> buffers = std::vector<uint32_t>(packet_ring);
  std::vector<uint64_t> wr_ids = std::vector<uint64_t>(packet_ring);
  std::vector<pool::Handle> handles = std::vector<pool::Handle>(packet_ring);
  std::vector<burst::SentRing::Burst> bursts = std::vector<burst::SentRing::Burst>(packet_ring);
  std::optional<pool::BufferCache> cache;
  std::optional<burst::RxQueue> rx;
  std::optional<burst::TxQueue> tx;
  burst::RxBurst receive = burst::select_rx(received);
  burst::TxBurst send = burst::select_tx({});
  std::array<pool::Handle, round_requests> packets{};

  bool open() {
    if (!nic.open("packet_kilim").empty()) return false;
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
                              .key = packet_key});
    return burst::rx_refill(*rx) == packet_ring;
  }
  void nic_turn() noexcept {
    nic.complete_sent();
    nic.receive(round_requests);
  }
};

struct Floors {
  EmulatedNic nic;
  std::optional<Floor> floor;
  bool open() {
    if (!nic.open("packet_floor").empty()) return false;
    floor.emplace(nic);
    return true;
  }
  void nic_turn() noexcept {
    nic.complete_sent();
    nic.receive(round_requests);
  }
};

// Made when it is needed first, and kept.
template <typename Forwarder, std::size_t Slot>
Forwarder* forwarder(Rig& r) {
  std::shared_ptr<void>& mine = r.of_lines[Slot];
  if (mine != nullptr) return static_cast<Forwarder*>(mine.get());
  auto fresh = std::make_shared<Forwarder>();
  if (!fresh->open()) return nullptr;
  mine = fresh;
  return fresh.get();
}
Ours* ours(Rig& r) {
  return forwarder<Ours, 2>(r);
}
Floors* floors(Rig& r) {
  return forwarder<Floors, 3>(r);
}

template <auto Get>
uint32_t prepare(Rig& r, const Case&) {
  auto* self = Get(r);
  if (self == nullptr) return 0;
  self->nic_turn();
  return 1;
}

template <bool Mac>
[[gnu::noinline]] uint32_t forward(Rig& r, const Case&) {
  Ours& self = *static_cast<Ours*>(r.of_lines[2].get());
  const uint32_t n = self.receive(*self.rx, self.packets);
  if constexpr (Mac) {
    for (uint32_t i = 0; i < n; i++)
      std::memcpy(self.nic.arena().data(self.packets[i]), &new_addresses, sizeof new_addresses);
  }
  return self.send(*self.tx, std::span(self.packets).first(n));
}

template <bool Mac>
[[gnu::noinline]] uint32_t floor_forward(Rig& r, const Case&) {
  return static_cast<Floors*>(r.of_lines[3].get())->floor->forward<Mac>(round_requests);
}

constexpr Case cases[] = {{"64 bytes", packet_bytes}};
constexpr Side io_floor[] = {{"floor", floor_forward<false>, prepare<floors>}};
constexpr Side mac_floor[] = {{"floor", floor_forward<true>, prepare<floors>}};

}  // namespace

// Time against the floor, instructions by themselves: the floor knows its sizes, the bursts do not.
const Line packet_io_line = {.metric = "packets forwarded, io",
                             .time_goal = 1.15,
                             .instruction_goal = 0,
                             .cases = cases,
                             .kilim = {"bursts", forward<false>, prepare<ours>},
                             .peers = io_floor,
                             .most_instructions = 71};
const Line packet_mac_line = {.metric = "packets forwarded, mac",
                              .time_goal = 1.15,
                              .instruction_goal = 0,
                              .cases = cases,
                              .kilim = {"bursts", forward<true>, prepare<ours>},
                              .peers = mac_floor,
                              .most_instructions = 81};

}  // namespace kilim::perf
