// SPDX-License-Identifier: BSD-3-Clause
// The DPDK side of doc/guides/coming-from-dpdk.md, which shows it beside examples/15_l2fwd.cc:
// ports in pairs, one queue each, forwarded by the main lcore until a signal. Compiled, so that the
// guide stays true; main thread only.
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <signal.h>
#include <stdint.h>

enum { burst = 32, ring = 1024, cache = 256 };

static volatile sig_atomic_t stop_asked;

static void on_signal(int number) {
  (void)number;
  stop_asked = 1;
}

static int start(uint16_t port, struct rte_mempool* pool) {
  const struct rte_eth_conf conf = {0};
  const int node = rte_eth_dev_socket_id(port);
  int rc = rte_eth_dev_configure(port, 1, 1, &conf);
  if (rc == 0) rc = rte_eth_rx_queue_setup(port, 0, ring, (unsigned)node, NULL, pool);
  if (rc == 0) rc = rte_eth_tx_queue_setup(port, 0, ring, (unsigned)node, NULL);
  if (rc == 0) rc = rte_eth_dev_start(port);
  return rc != 0 ? rc : rte_eth_promiscuous_enable(port);
}

static void forward(uint16_t in, uint16_t out, const struct rte_ether_addr* own) {
  struct rte_mbuf* packets[burst];
  const uint16_t n = rte_eth_rx_burst(in, 0, packets, burst);
  for (uint16_t i = 0; i < n; i++) {
    struct rte_ether_hdr* eth = rte_pktmbuf_mtod(packets[i], struct rte_ether_hdr*);
    const struct rte_ether_addr to = {{2, 0, 0, 0, 0, (uint8_t)out}};
    eth->dst_addr = to;
    eth->src_addr = *own;
  }
  const uint16_t sent = rte_eth_tx_burst(out, 0, packets, n);
  rte_pktmbuf_free_bulk(packets + sent, (unsigned)(n - sent));
}

int main(int argc, char** argv) {
  if (rte_eal_init(argc, argv) < 0) return 1;
  const uint16_t ports = rte_eth_dev_count_avail();
  struct rte_mempool* pool =
      rte_pktmbuf_pool_create("mbufs", 4u * ring * (ports + 1u) - 1, cache, 0,
                              RTE_MBUF_DEFAULT_BUF_SIZE, (int)rte_socket_id());
  struct rte_ether_addr own[RTE_MAX_ETHPORTS];
  if (ports == 0 || pool == NULL) return 1;
  for (uint16_t p = 0; p < ports; p++)
    if (start(p, pool) != 0 || rte_eth_macaddr_get(p, &own[p]) != 0) return 1;
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  while (!stop_asked) {
    for (uint16_t p = 0; p < ports; p++) {
      const uint16_t out = (p ^ 1) < ports ? (uint16_t)(p ^ 1) : p;
      forward(p, out, &own[out]);
    }
  }
  for (uint16_t p = 0; p < ports; p++) (void)rte_eth_dev_stop(p);
  return rte_eal_cleanup() == 0 ? 0 : 1;
}
