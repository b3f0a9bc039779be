// SPDX-License-Identifier: BSD-3-Clause
// Queues of an ethdev whose reset the kernel refuses at first: bursts try again, each time after a
// longer pause, until it is done. And queues whose error only an event of the device tells.
#include <chrono>
#include <cstdint>

#include "../vhca/verbs/refused_states_fixture.hh"
#include "ethdev_fixture.hh"
#include "kilim/detail/port/port.hh"
#include "net/kilim/ethdev.hh"
#include "net/kilim/native.hh"

namespace kilim::test {
namespace ethdev_down_ut {
namespace {

using Clock = std::chrono::steady_clock;

uint64_t statistic(EthPort& port, const char* name) {
  uint64_t id = 0, value = 0;
  EQUAL(rte_eth_xstats_get_id_by_name(port.id, name, &id), 0);
  EQUAL(rte_eth_xstats_get_by_id(port.id, &id, &value, 1), 1);
  return value;
}

// From the first try on, every change to RESET is refused for 100 ms, in which it is asked for at
// 0, 10, 30 and 70 ms, or later and less often on a busy machine. Then nothing is refused.
template <typename Turn>
void refuse_for_a_while(EthPort& port, const char* recoveries, Turn turn) {
  const uint64_t before = statistic(port, recoveries);
  const auto limit = Clock::now() + std::chrono::seconds{20};
  while (refused_states.asked == 0 && Clock::now() < limit) turn();
  CU_ASSERT(refused_states.asked != 0);
  const auto begin = Clock::now();
  while (Clock::now() - begin < std::chrono::milliseconds{100}) turn();
  CU_ASSERT(refused_states.asked <= 5);
  EQUAL(statistic(port, recoveries), before);
  refused_states = {};
  while (statistic(port, recoveries) == before && Clock::now() < limit) turn();
  EQUAL(statistic(port, recoveries), before + 1);
  EQUAL(refused_states.asked, 1);
}

// Its third send request fails.
void a_send_queue_is_tried_again_after_pauses() {
  EthPair p(",txq_mpw_en=0,fault=wqe@3");
  EQUAL_FATAL(p.start({}), 0);
  const Bytes frame = make_frame({});
  refused_states = {.left = 1'000'000};
  refuse_for_a_while(p.near, "tx_q0_recoveries", [&] {
    rte_mbuf* m = p.near.load(frame);
    if (rte_eth_tx_burst(p.near.id, 0, &m, 1) == 0) rte_pktmbuf_free(m);
    for (rte_mbuf* got : p.receive(p.far, 1)) rte_pktmbuf_free(got);
  });
  p.near.send(frame);
  rte_mbuf* const got = p.receive_one(p.far);
  CU_ASSERT_PTR_NOT_NULL_FATAL(got);
  rte_pktmbuf_free(got);
}

bool fail_last_receive_queue(EthPort& port) {
  device::Device& device = net::native(rte_pmd_kilim_port_of(port.id)).device();
  for (uint32_t n = 64; n != 0; n--)
    if (device.set_rwq_state(device::RwqHandle{n}, device::RwqState::error).ok()) return true;
  return false;
}

void a_receive_queue_is_tried_again_after_pauses() {
  EthPair p;
  EQUAL_FATAL(p.start({}), 0);
  CU_ASSERT_FATAL(fail_last_receive_queue(p.near));
  refused_states = {.left = 1'000'000};
  refuse_for_a_while(p.near, "rx_q0_recoveries", [&] {
    rte_mbuf* got[8];
    const uint16_t n = rte_eth_rx_burst(p.near.id, 0, got, 8);
    for (uint16_t i = 0; i < n; i++) rte_pktmbuf_free(got[i]);
  });
  p.far.send(make_frame({}));
  rte_mbuf* const got = p.receive_one(p.near);
  CU_ASSERT_PTR_NOT_NULL_FATAL(got);
  rte_pktmbuf_free(got);
}

template <typename Queue>
const queue::CqGeometry& completions_of(void* queue) {
  return static_cast<Queue*>(queue)->cq->geometry();
}

// The device takes the record as if nothing had been read for a long time. No reset helps a
// completion queue, so its queue stays down, until the port makes both anew.
template <typename Turn>
void overrun_is_told(EthPair& p, const queue::CqGeometry& g, Turn turn) {
  const auto limit = Clock::now() + std::chrono::seconds{20};
  for (; statistic(p.near, "cq_overruns") == 0 && Clock::now() < limit; turn())
    record_store(g.record, be32{(record_load(g.record).host() - g.cqe_count) & 0xffffff});
  EQUAL(statistic(p.near, "cq_overruns"), 1);
  CU_ASSERT(statistic(p.near, "queue_events") >= 1);
  for (const auto end = Clock::now() + std::chrono::milliseconds{60}; Clock::now() < end;) turn();
  EQUAL(statistic(p.near, "rx_q0_recoveries") + statistic(p.near, "tx_q0_recoveries"), 0);
  EQUAL_FATAL(rte_eth_dev_stop(p.near.id), 0);
  EQUAL_FATAL(rte_eth_dev_start(p.near.id), 0);
  for (rte_mbuf* late : p.receive(p.near, SIZE_MAX)) rte_pktmbuf_free(late);
  const Bytes frame = make_frame({});
  p.far.send(frame);
  rte_mbuf* got = p.receive_one(p.near);
  CU_ASSERT_PTR_NOT_NULL_FATAL(got);
  p.near.send(got);
  got = p.receive_one(p.far);
  CU_ASSERT_PTR_NOT_NULL_FATAL(got);
  rte_pktmbuf_free(got);
  EQUAL(statistic(p.near, "cq_overruns"), 1);
}

void an_overrun_of_receives_is_told() {
  EthPair p;
  EQUAL_FATAL(p.start({}), 0);
  void* const queue = rte_eth_devices[p.near.id].data->rx_queues[0];
  overrun_is_told(p, completions_of<net::MbufRx>(queue), [&] {
    p.far.send(make_frame({}));
    rte_mbuf* got[8];
    const uint16_t n = rte_eth_rx_burst(p.near.id, 0, got, 8);
    for (uint16_t i = 0; i < n; i++) rte_pktmbuf_free(got[i]);
  });
}

void an_overrun_of_sends_is_told() {
  EthPair p;
  EQUAL_FATAL(p.start({}), 0);
  void* const queue = rte_eth_devices[p.near.id].data->tx_queues[0];
  overrun_is_told(p, completions_of<net::MbufTx>(queue), [&] {
    rte_mbuf* m = p.near.load(make_frame({}));
    if (rte_eth_tx_burst(p.near.id, 0, &m, 1) == 0) rte_pktmbuf_free(m);
    for (rte_mbuf* got : p.receive(p.far, 1)) rte_pktmbuf_free(got);
  });
}

constexpr Case cases[] = {
    {"a receive queue whose completion queue ran over is told", an_overrun_of_receives_is_told},
    {"a send queue whose completion queue ran over is told", an_overrun_of_sends_is_told},
    {"a send queue is tried again after pauses", a_send_queue_is_tried_again_after_pauses},
    {"a receive queue is tried again after pauses", a_receive_queue_is_tried_again_after_pauses},
};

}  // namespace
}  // namespace ethdev_down_ut
}  // namespace kilim::test

KILIM_TEST_SUITE(ethdev_down, kilim::test::ethdev_down_ut::cases)
