// SPDX-License-Identifier: BSD-3-Clause
// Queues of an ethdev whose reset the kernel refuses at first: bursts try again, each time after a
// longer pause, until it is done.
#include <chrono>
#include <cstdint>

#include "../vhca/verbs/refused_states_fixture.hh"
#include "ethdev_fixture.hh"
#include "kilim/detail/port/port.hh"
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

constexpr Case cases[] = {
    {"a send queue is tried again after pauses", a_send_queue_is_tried_again_after_pauses},
    {"a receive queue is tried again after pauses", a_receive_queue_is_tried_again_after_pauses},
};

}  // namespace
}  // namespace ethdev_down_ut
}  // namespace kilim::test

KILIM_TEST_SUITE(ethdev_down, kilim::test::ethdev_down_ut::cases)
