// SPDX-License-Identifier: BSD-3-Clause
// A port of DPDK whose one lcore sleeps until a queue's receive interrupt: a line for each time
// that it is woken, "queue Q packets N". Says "sleeps" when it is ready. Main thread only. Usage:
// rx_interrupts EAL-OPTION... -- QUEUES PACKETS       ends when so many packets have come
#include <inttypes.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { port = 0, burst = 32, ring = 512, mbufs = 4095, events = 8, forever = -1 };

static int start(uint16_t queues, struct rte_mempool* pool) {
  struct rte_eth_conf conf = {0};
  conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
  conf.rx_adv_conf.rss_conf.rss_hf = RTE_ETH_RSS_NONFRAG_IPV4_UDP;
  conf.intr_conf.rxq = 1;
  int rc = rte_eth_dev_configure(port, queues, queues, &conf);
  for (uint16_t q = 0; rc == 0 && q < queues; q++) {
    rc = rte_eth_rx_queue_setup(port, q, ring, rte_socket_id(), NULL, pool);
    if (rc == 0) rc = rte_eth_tx_queue_setup(port, q, ring, rte_socket_id(), NULL);
  }
  if (rc == 0) rc = rte_eth_dev_start(port);
  for (uint16_t q = 0; rc == 0 && q < queues; q++) {
    void* const tag = (void*)(uintptr_t)q;
    rc = rte_eth_dev_rx_intr_ctl_q(port, q, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD, tag);
    if (rc == 0) rc = rte_eth_dev_rx_intr_enable(port, q);
  }
  return rc;
}

// All that waits in the queue.
static unsigned drain(uint16_t queue) {
  struct rte_mbuf* packets[burst];
  unsigned all = 0;
  for (uint16_t n = burst; n != 0; all += n) {
    n = rte_eth_rx_burst(port, queue, packets, burst);
    rte_pktmbuf_free_bulk(packets, n);
  }
  return all;
}

// Of one queue whose interrupt came: it is off while the queue is looked at.
static unsigned serve(uint16_t queue) {
  (void)rte_eth_dev_rx_intr_disable(port, queue);
  const unsigned n = drain(queue);
  printf("queue %u packets %u\n", queue, n);
  fflush(stdout);
  (void)rte_eth_dev_rx_intr_enable(port, queue);
  return n;
}

int main(int argc, char** argv) {
  const int own = rte_eal_init(argc, argv);
  if (own < 0 || argc - own != 3) return 2;
  const uint16_t queues = (uint16_t)atoi(argv[own + 1]);
  const unsigned long wanted = strtoul(argv[own + 2], NULL, 10);
  struct rte_mempool* pool =
      rte_pktmbuf_pool_create("mbufs", mbufs, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  if (pool == NULL || start(queues, pool) != 0) return 1;
  printf("sleeps\n");
  fflush(stdout);
  for (unsigned long came = 0; came < wanted;) {
    struct rte_epoll_event woken[events];
    const int n = rte_epoll_wait(RTE_EPOLL_PER_THREAD, woken, events, forever);
    for (int i = 0; i < n; i++) came += serve((uint16_t)(uintptr_t)woken[i].epdata.data);
  }
  (void)rte_eth_dev_stop(port);
  (void)rte_eth_dev_close(port);
  return rte_eal_cleanup() == 0 ? 0 : 1;
}
