// SPDX-License-Identifier: BSD-3-Clause
// Program: a packet application in a few words: its name, the function that gets each burst, and
// what it wants of its ports. main() hands it to run(), which does the rest:
//   int main(int argc, char** argv) { return kilim::app::run(argc, argv, {"echo", on_burst}); }
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kilim/detail/port/queues.hh"
#include "kilim/detail/queue/eth_wqe.hh"
#include "kilim/detail/worker/worker.hh"

namespace kilim::inline v1::port {
class Port;
}

namespace kilim::inline v1::app {

class Burst;

struct Program {
  const char* name = "kilim";
  // Called on every lane for each burst of at least one packet, by several lcores at once.
  void (*on_burst)(void* context, Burst& burst) noexcept = nullptr;
  // Called every tick_us microseconds on every lane, between two bursts, on the lane's lcore, which
  // may do there what it may in a burst; a lane that sleeps is woken for it. Null: no tick.
  void (*on_tick)(void* context, uint32_t lane) noexcept = nullptr;
  // Called once on the main lcore, when the ports are known and not yet started, with the words
  // behind `--`. Empty: go on; else a sentence for people that ends the program. Null: no words.
  std::string (*prepare)(void* context, std::span<char* const> words, uint32_t ports) = nullptr;
  // Called once on the main lcore, when the ports are started and no burst has run: flow rules, how
  // frames are spread and which are received (Port::add_rule(), set_rss(), set_filter()). Ports are
  // in the order of their numbers. Empty: go on; else a sentence that ends the program. Null: the
  // ports receive everything, spread by outer addresses and ports.
  std::string (*started)(void* context, std::span<port::Port* const> ports) = nullptr;
  // Called once on the main lcore behind everything else, EAL still being up; also where prepare()
  // ended the program. Null: nothing to give back.
  void (*finish)(void* context) = nullptr;
  void* context = nullptr;  // of the five functions; outlives run()

  uint32_t burst = 32;          // packets of one call at most, 1 to max_burst
  uint32_t packet_room = 2048;  // bytes of a buffer
  bool side_records = false;    // packet type, hash and checksum status: Burst::side()
  bool marks = false;           // and the mark of the flow rule: SideRecord::mark()
  bool tunnels = false;         // and packet types of the headers inside VXLAN and GRE, by which
                                // frames may be spread then (flow::Rss::inner)
  // The ports' devices join TCP segments, up to packet_room bytes: RTE_MBUF_F_RX_LRO in
  // SideRecord::flags, and ask(h, side(h).tx) has them sent as segments where tx_words.tso.
  bool lro = false;
  bool shared_packets = false;  // one packet may be sent several times: Burst::share()
  uint8_t tx_offload = queue::EthOffload::none;  // checksums that the device writes
  port::TxOffloads tx_words;                     // what single packets ask for: Burst::ask()
  uint32_t tick_us = 100'000;                    // of on_tick
  worker::Idle idle = worker::Idle::yield;  // what a lane does while nothing comes; --idle says it
                                            // too

  [[nodiscard]] bool has_side() const noexcept { return side_records || marks || tunnels || lro; }
};

// The whole life of a program: EAL starts with the words before `--`, its ports (--vdev net_kilimN)
// are started with their receive queues spread over the lcores and one transmit queue for each, and
// on_burst runs until SIGINT or SIGTERM, or until a port's device is lost. Then nothing more is
// received, what was sent leaves (for a second at most), counts are printed and everything is given
// back. With one lcore (-l 0) it forwards and controls alike; else the main lcore controls. Of the
// words behind `--` the first may be --pcap=PORT:FILE, which writes a port's packets to a file, and
// --idle=spin, pause, yield or sleep; the others are prepare()'s. Returns the program's exit code:
// 0, or 1 after a sentence on stderr. Main thread.
int run(int argc, char** argv, const Program& program);

}  // namespace kilim::inline v1::app
