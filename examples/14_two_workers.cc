// SPDX-License-Identifier: BSD-3-Clause
// Two workers share one port: the device spreads frames over the receive queues by a hash of their
// addresses and ports (RSS), so that all frames of a flow come to one queue, one worker and one
// transmit queue, and leave in the order in which they came. At the end it says how many each queue
// had, which lane served it, and how many frames came out of order: the last four bytes of a UDP
// payload are read as the frame's number in its flow, which is its source port. Without hardware or
// root, lcore 0 controls and two others forward:
//   build/examples/14_two_workers --no-huge --no-shconf --no-pci --lcores 0@0,1@0,2@1 -m 256
//       --vdev net_kilim0,hca=vhca0,wire=pcap:in.pcap:out.pcap,rxq=4
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include <rte_byteorder.h>
#include <rte_mbuf_core.h>

#include "kilim/program.hh"

namespace {

using kilim::app::Burst;
using kilim::app::PerLane;
using kilim::pool::Handle;

constexpr std::size_t port_at = 34, headers = 42;  // of IPv4 without options, UDP

// What a lane has seen. Only its worker touches it while packets come.
struct Seen {
  std::array<uint64_t, kilim::port::max_rxq> packets{};       // by queue
  std::vector<uint32_t> next = std::vector<uint32_t>(65536);  // number, by flow
  uint64_t late = 0;       // frames with a smaller number than one before
  uint64_t elsewhere = 0;  // frames without a flow
};

struct Count {
  PerLane<std::unique_ptr<Seen>> seen;
};

void look_at(Seen& seen, std::span<const std::byte> frame, uint32_t packet_type) noexcept {
  if ((packet_type & RTE_PTYPE_L4_MASK) != RTE_PTYPE_L4_UDP || frame.size() < headers + 4) {
    seen.elsewhere++;
    return;
  }
  uint16_t flow;
  uint32_t number;
  std::memcpy(&flow, frame.data() + port_at, sizeof flow);
  std::memcpy(&number, frame.data() + frame.size() - sizeof number, sizeof number);
  number = rte_be_to_cpu_32(number);
  if (number < seen.next[flow])
    seen.late++;
  else
    seen.next[flow] = number + 1;
}

// Back to where they came from.
void on_burst(void* context, Burst& burst) noexcept {
  Seen& seen = *static_cast<Count*>(context)->seen[burst.lane()];
  seen.packets[burst.queue()] += burst.packets().size();
  for (const Handle packet : burst.packets())
    look_at(seen, burst.bytes(packet), burst.side(packet).packet_type);
  burst.send(burst.port(), burst.packets());
}

std::string prepare(void* context, std::span<char* const> words, uint32_t) {
  auto& count = *static_cast<Count*>(context);
  if (!words.empty()) return std::string("unknown word behind --: ") + words[0];
  for (uint32_t lane = 0; lane < kilim::app::max_lanes; lane++)
    count.seen[lane] = std::make_unique<Seen>();
  return "";
}

void finish(void* context) {
  const auto& count = *static_cast<Count*>(context);
  uint64_t late = 0, elsewhere = 0;
  for (uint32_t lane = 0; lane < kilim::app::max_lanes; lane++) {
    if (count.seen[lane] == nullptr) return;  // nothing has run
    const Seen& seen = *count.seen[lane];
    late += seen.late;
    elsewhere += seen.elsewhere;
    for (std::size_t q = 0; q < seen.packets.size(); q++)
      if (seen.packets[q] != 0)
        std::printf("queue %zu: %" PRIu64 " packets, lane %" PRIu32 "\n", q, seen.packets[q], lane);
  }
  std::printf("out of order in their flow: %" PRIu64 ", of no flow: %" PRIu64 "\n", late,
              elsewhere);
}

}  // namespace

int main(int argc, char** argv) {
  Count count;
  return kilim::app::run(argc, argv,
                         {.name = "14_two_workers",
                          .on_burst = on_burst,
                          .prepare = prepare,
                          .finish = finish,
                          .context = &count,
                          .side_records = true});
}
