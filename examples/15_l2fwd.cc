// SPDX-License-Identifier: BSD-3-Clause
// What DPDK's sample program l2fwd does: ports in pairs, the destination becomes
// 02:00:00:00:00:PORT, the source the address of the port that sends. A port without a partner
// sends back what it receives. doc/guides/coming-from-dpdk.md has it beside a DPDK program. Without
// hardware, hugepages or root, from one file of frames to another:
//   usertools/pcap_file.py make in.pcap 1000
//   build/examples/15_l2fwd --no-huge --no-shconf --no-pci -l 0
//       --vdev net_kilim0,hca=vhca0,wire=pcap:in.pcap:out.pcap
#include <cstring>

#include "kilim/program.hh"

namespace {

constexpr uint32_t ether_header_bytes = 14;

void forward(void*, kilim::app::Burst& burst) noexcept {
  const uint32_t partner = burst.port() ^ 1;
  const uint32_t out = partner < burst.ports() ? partner : burst.port();
  for (const kilim::pool::Handle packet : burst.packets()) {
    std::byte* frame = burst.bytes(packet).data();
    if (packet.length < ether_header_bytes) {
      burst.drop(packet);
      continue;
    }
    const uint8_t to[6] = {2, 0, 0, 0, 0, static_cast<uint8_t>(out)};
    std::memcpy(frame, to, sizeof to);
    std::memcpy(frame + sizeof to, burst.mac(out).data(), sizeof to);
    burst.send(out, packet);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return kilim::app::run(argc, argv, {.name = "15_l2fwd", .on_burst = forward});
}
