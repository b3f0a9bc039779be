// SPDX-License-Identifier: BSD-3-Clause
// The smallest forwarder: one lcore sends back on each port what it receives there. Shows the order
// of set-up (EAL, arena, pool, cache, port) and who holds a buffer when. It forwards until SIGINT
// or SIGTERM. Without hardware, hugepages or root, from one file of frames to another:
//   usertools/pcap_file.py make in.pcap 1000
//   build/examples/01_forward --no-huge --no-shconf --no-pci -l 0
//       --vdev net_kilim0,hca=vhca0,wire=pcap:in.pcap:out.pcap
// As root, with frames of a network interface: wire=af_packet:veth0. On a card: hca=mlx5_0.
#include <cstdio>
#include <cstring>

#include <rte_eal.h>
#include <signal.h>

#include "kilim/pool/pool.hh"
#include "kilim/port/port.hh"
#include "net/kilim/native.hh"

namespace {

using kilim::pool::Handle;
using kilim::port::Port;

volatile sig_atomic_t stop = 0;

int refused(const char* what, const kilim::Error& e) {
  std::fprintf(stderr, "01_forward: %s: %s (%s)\n", what, e.what, std::strerror(e.code));
  return 1;
}

// Configures the port's one receive and one transmit queue for this lcore and starts it.
kilim::Status start(Port& port, const kilim::pool::ArenaMemory& memory,
                    kilim::pool::BufferCache& cache) {
  if (auto s = port.configure(port.defaults(), memory); !s) return s;
  if (auto s = port.set_rx(0, {.cache = &cache}); !s) return s;
  for (uint32_t q = 0; q < port.sizes().txq; q++)
    if (auto s = port.set_tx(q, {.cache = &cache}); !s) return s;
  return port.start();
}

void forward(Port& port, kilim::pool::BufferCache& cache) {
  // A virtual device without a thread of its own makes progress only when its users run its poller.
  if (port.poller().fn != nullptr) port.poller().fn(port.poller().context, 64);
  Handle packets[32];
  const uint32_t n = port.rx(0, packets);          // this lcore holds the buffers from here on
  const uint32_t sent = port.tx(0, {packets, n});  // the queue holds these until they are sent
  cache.free({packets + sent, n - sent});          // the queue was full: the rest is dropped
}

// One port. The order of the members matters: what is made last is destroyed first, so nothing
// outlives what it uses.
int run(Port& port) {
  auto memory = kilim::pool::ArenaMemory::create({.buffers = 8192});
  if (!memory) return refused("packet buffers", memory.error());
  auto pool = kilim::pool::Pool::create(memory->arena(), {.name = "example", .count = 8192});
  if (!pool) return refused("packet pool", pool.error());
  kilim::pool::BufferCache cache(*pool);
  if (auto s = start(port, *memory, cache); !s) {
    port.unconfigure();
    return refused(port.name().c_str(), s.error());
  }
  std::printf("01_forward: %s sends back what it receives; SIGINT stops\n", port.name().c_str());
  while (stop == 0) forward(port, cache);
  const kilim::port::PortStats s = port.stats();
  std::printf("received %lu packets, sent %lu\n", s.rx_packets, s.tx_packets);
  port.unconfigure();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (rte_eal_init(argc, argv) < 0) {
    std::fprintf(stderr, "01_forward: EAL did not start; try --no-huge --no-shconf\n");
    return 1;
  }
  signal(SIGINT, [](int) { stop = 1; });
  signal(SIGTERM, [](int) { stop = 1; });
  kilim_port* port = rte_pmd_kilim_port_at(0);
  if (port == nullptr) std::fprintf(stderr, "01_forward: no port; give EAL --vdev net_kilim0\n");
  const int code = port == nullptr ? 1 : run(kilim::net::native(port));
  rte_eal_cleanup();
  return code;
}
