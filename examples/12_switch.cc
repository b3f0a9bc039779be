// SPDX-License-Identifier: BSD-3-Clause
// A learning switch (IEEE 802.1D, "Forwarding Database"): it remembers by which port an address
// sent last, sends a frame for a known address there, and a frame for any other to all ports but
// its own: one buffer with a holder for each. Addresses that were silent for some time are
// forgotten: its one word says how long, in seconds from 0.1 to 400; 300 without it. All lanes
// share the table, which needs no lock: an entry is one word. Without hardware or root, three ports
// of which nothing is at the other end:
//   build/examples/12_switch --no-huge --no-shconf --no-pci -l 0 -m 256 --vdev net_kilim0,hca=vhca0
//       --vdev net_kilim1,hca=vhca1 --vdev net_kilim2,hca=vhca2 -- 60
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "kilim/program.hh"

namespace {

using kilim::app::Burst;
using kilim::pool::Handle;

constexpr uint32_t tick_us = 100'000;
constexpr uint32_t max_ports = 16;
constexpr uint64_t group_bit = uint64_t{1} << 40;  // of an address as a number: not one station's

// An entry: the address in the upper 48 bits, four bits of port, twelve of the tick when it sent
// last. 0: none.
class Table {
 public:
  // Several lanes may learn the same address at once: the last one stays.
  void learn(uint64_t mac, uint32_t port) noexcept {
    if ((mac & group_bit) != 0 || mac == 0) return;
    const uint64_t entry = mac << 16 | port << 12 | now_.load(std::memory_order_relaxed);
    std::atomic<uint64_t>* row = row_of(mac);
    std::atomic<uint64_t>* place = &row[mac % ways];  // where no other one is free
    for (std::size_t i = 0; i < ways; i++) {
      const uint64_t is = row[i].load(std::memory_order_relaxed);
      if (is == entry) return;
      if (is >> 16 == mac) return row[i].store(entry, std::memory_order_relaxed);
      if (is == 0) place = &row[i];
    }
    place->store(entry, std::memory_order_relaxed);
  }
  // max_ports: it is not known.
  [[nodiscard]] uint32_t find(uint64_t mac) noexcept {
    const std::atomic<uint64_t>* row = row_of(mac);
    for (std::size_t i = 0; i < ways; i++)
      if (const uint64_t is = row[i].load(std::memory_order_relaxed); is >> 16 == mac)
        return is >> 12 & 15;
    return max_ports;
  }
  // One lane calls it each tick.
  void age(uint32_t lifetime) noexcept {
    const uint32_t now = (now_.load(std::memory_order_relaxed) + 1) & 4095;
    now_.store(now, std::memory_order_relaxed);
    for (std::atomic<uint64_t>& place : entries_) {
      uint64_t is = place.load(std::memory_order_relaxed);
      if (is == 0 || ((now - is) & 4095) <= lifetime) continue;
      place.compare_exchange_strong(is, 0, std::memory_order_relaxed);  // unless it just sent
    }
  }

 private:
  static constexpr std::size_t rows = 1024, ways = 8;  // a row is a cache line
  std::atomic<uint64_t>* row_of(uint64_t mac) noexcept {
    return &entries_[(mac * 0x9e3779b97f4a7c15u >> 54) * ways];
  }
  alignas(64) std::array<std::atomic<uint64_t>, rows * ways> entries_{};
  std::atomic<uint32_t> now_{0};
};

struct Switch {
  Table table;
  uint32_t lifetime = 3000;  // ticks
};

uint64_t mac_at(std::span<const std::byte> frame, std::size_t at) noexcept {
  uint64_t mac = 0;
  for (std::size_t i = 0; i < 6; i++) mac = mac << 8 | std::to_integer<uint64_t>(frame[at + i]);
  return mac;
}

// To every port but the one that it came by; nowhere if there is no other.
void flood(Burst& burst, Handle packet) noexcept {
  const uint32_t others = burst.ports() - 1;
  if (others == 0) return burst.drop(packet);
  burst.share(packet, static_cast<uint16_t>(others - 1));
  for (uint32_t port = 0; port < burst.ports(); port++)
    if (port != burst.port()) burst.send(port, packet);
}

void on_burst(void* context, Burst& burst) noexcept {
  Table& table = static_cast<Switch*>(context)->table;
  for (const Handle packet : burst.packets()) {
    const std::span<const std::byte> frame = burst.bytes(packet);
    table.learn(mac_at(frame, 6), burst.port());
    const uint64_t to = mac_at(frame, 0);
    const uint32_t port = (to & group_bit) != 0 ? max_ports : table.find(to);
    if (port == max_ports)
      flood(burst, packet);
    else if (port == burst.port())
      burst.drop(packet);  // who asked for it has heard it
    else
      burst.send(port, packet);
  }
}

void on_tick(void* context, uint32_t lane) noexcept {
  auto& s = *static_cast<Switch*>(context);
  if (lane == 0) s.table.age(s.lifetime);
}

std::string prepare(void* context, std::span<char* const> words, uint32_t ports) {
  if (ports > max_ports) return "a switch has 16 ports at most";
  if (words.empty()) return "";
  char* end = nullptr;
  const double seconds = std::strtod(words[0], &end);
  if (words.size() != 1 || *end != 0 || !(seconds >= 0.1 && seconds <= 400))
    return "one word, seconds from 0.1 to 400 after which a silent address is forgotten";
  static_cast<Switch*>(context)->lifetime = static_cast<uint32_t>(seconds * 1e6 / tick_us);
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  static Switch s;
  return kilim::app::run(argc, argv,
                         {.name = "12_switch",
                          .on_burst = on_burst,
                          .on_tick = on_tick,
                          .prepare = prepare,
                          .context = &s,
                          .shared_packets = true,
                          .tick_us = tick_us});
}
