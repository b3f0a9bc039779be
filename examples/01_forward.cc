// SPDX-License-Identifier: BSD-3-Clause
// The smallest forwarder: sends back by each port what came by it. The frame (kilim/program.hh)
// does what is the same in every program: EAL, buffers, queues spread over lcores, signals, the
// end; who holds a buffer when is said in doc/buffer-custody.md. It forwards until SIGINT or
// SIGTERM. Without hardware, hugepages or root, from one file of frames to another:
//   usertools/pcap_file.py make in.pcap 1000
//   build/examples/01_forward --no-huge --no-shconf --no-pci -l 0
//       --vdev net_kilim0,hca=vhca0,wire=pcap:in.pcap:out.pcap
// As root, with frames of a network interface: wire=af_packet:veth0. On a card: hca=mlx5_0.
#include "kilim/program.hh"

namespace {

void forward(void*, kilim::app::Burst& burst) noexcept {
  burst.send(burst.port(), burst.packets());
}

}  // namespace

int main(int argc, char** argv) {
  return kilim::app::run(argc, argv, {.name = "01_forward", .on_burst = forward});
}
