// SPDX-License-Identifier: BSD-3-Clause
// How an ethdev runs: receive interrupts, mlx5's devargs seen in what queues do, and the native
// port beside it.
#include <rte_errno.h>
#include <rte_interrupts.h>

#include "ethdev_cases.hh"
#include "ethdev_fixture.hh"

namespace {

using namespace kilim::test;

const FrameSpec udp4{.tcp = false};

int wait_for(int ms) {
  rte_epoll_event event[4];
  return rte_epoll_wait(RTE_EPOLL_PER_THREAD, event, 4, ms);
}

// An interrupt that is enabled comes with a frame, once; one that is not, or is disabled, does not.
// A frame that came before the enabling wakes too, as from a card: else the lcore would sleep on
// it.
void receive_interrupts_wake_a_sleeper() {
  EthPair p(",progress=thread");
  EQUAL_FATAL(p.start({.queues = 2, .interrupts = true}), 0);
  for (uint16_t q = 0; q < 2; q++)
    EQUAL(
        rte_eth_dev_rx_intr_ctl_q(p.near.id, q, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD, nullptr),
        0);
  for (int turn = 0; turn < 3; turn++) {
    EQUAL(rte_eth_dev_rx_intr_enable(p.near.id, 0), 0);
    EQUAL(wait_for(0), 0);
    p.far.send(make_frame(udp4));
    (void)rte_eth_tx_burst(p.far.id, 0, nullptr, 0);
    EQUAL(wait_for(5000), 1);
    rte_mbuf* const m = p.receive_one(p.near);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    rte_pktmbuf_free(m);
    EQUAL(rte_eth_dev_rx_intr_disable(p.near.id, 0), 0);
    p.far.send(make_frame(udp4));
    (void)rte_eth_tx_burst(p.far.id, 0, nullptr, 0);
    EQUAL(wait_for(20), 0);
    EQUAL(rte_eth_dev_rx_intr_enable(p.near.id, 0), 0);
    EQUAL(wait_for(5000), 1);
    rte_mbuf* const waited = p.receive_one(p.near);
    CU_ASSERT_PTR_NOT_NULL_FATAL(waited);
    rte_pktmbuf_free(waited);
    EQUAL(rte_eth_dev_rx_intr_disable(p.near.id, 0), 0);
  }
  EQUAL(rte_eth_dev_rx_intr_ctl_q(p.near.id, 0, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_DEL, nullptr),
        0);
}

void receive_interrupts_are_refused_where_nothing_runs() {
  EthPair p;
  CU_ASSERT_TRUE(p.near.configure({.interrupts = true}) < 0);  // a device that bursts run
  EQUAL_FATAL(p.start({}), 0);
  CU_ASSERT_TRUE(rte_eth_dev_rx_intr_enable(p.near.id, 0) < 0);
}

const Case cases[] = {
    {"receive interrupts wake a sleeper, and only when enabled", receive_interrupts_wake_a_sleeper},
    {"receive interrupts are refused where nothing would raise them",
     receive_interrupts_are_refused_where_nothing_runs},
};

}  // namespace

const std::span<const Case> kilim::test::ethdev_runs = cases;
