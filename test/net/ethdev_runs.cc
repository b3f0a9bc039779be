// SPDX-License-Identifier: BSD-3-Clause
// How an ethdev runs: receive interrupts, mlx5's devargs seen in what queues do, and the native
// port beside it.
#include <memory>
#include <set>

#include <rte_errno.h>
#include <rte_interrupts.h>

#include "ethdev_cases.hh"
#include "net/kilim/ethdev_abi.hh"

namespace ethdev_runs_ut {
namespace {

using namespace kilim::test;

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

// The event adapter looks at a queue's vector by this, and gives all queues one vector else.
void each_queue_has_a_vector() {
  EthPair p(",progress=thread");
  EQUAL_FATAL(p.start({.queues = 4, .interrupts = true}), 0);
  rte_intr_handle* const h = rte_eth_devices[p.near.id].intr_handle;
  CU_ASSERT_PTR_NOT_NULL_FATAL(h);
  EQUAL(rte_intr_cap_multiple(h), 1);
  std::set<int> all;
  for (uint16_t q = 0; q < 4; q++) all.insert(rte_eth_dev_rx_intr_ctl_q_get_fd(p.near.id, q));
  EQUAL(all.size(), 4);
}

void receive_interrupts_are_refused_where_nothing_runs() {
  EthPair p;
  CU_ASSERT_TRUE(p.near.configure({.interrupts = true}) < 0);  // a device that bursts run
  EQUAL_FATAL(p.start({}), 0);
  CU_ASSERT_TRUE(rte_eth_dev_rx_intr_enable(p.near.id, 0) < 0);
}

std::string burst_mode(EthPort& port) {
  rte_eth_burst_mode mode{};
  EQUAL(rte_eth_rx_burst_mode_get(port.id, 0, &mode), 0);
  return mode.info;
}

constexpr const char* strided = ",mprq_en=1,rxqs_min_mprq=1,mprq_log_stride_size=11";

// The application keeps more packets than there are buffers: the others are copied, none is lost,
// and what it keeps stays as it was, also when the port is gone.
void receives_of_several_packets_lose_and_change_nothing() {
  constexpr uint32_t frames = 1200;
  std::vector<Bytes> sent;
  std::vector<rte_mbuf*> kept;
  uint32_t attached = 0, copied = 0;
  const uint32_t before = rte_mempool_in_use_count(EthPair::shared_pool());
  {
    EthPair p(strided);
    EQUAL_FATAL(p.start({.rx = RTE_ETH_RX_OFFLOAD_CHECKSUM}), 0);
    CU_ASSERT_TRUE(burst_mode(p.near).find("MPRQ") != std::string::npos);
    for (uint32_t n = 0; n < frames; n++) {
      sent.push_back(frame_of(60 + n * 37 % 1940, n));
      p.far.send(sent.back());
      if (n % 20 != 19) continue;
      for (rte_mbuf* m : p.receive(p.near, 20)) kept.push_back(m);
    }
    EQUAL_FATAL(kept.size(), frames);
    EQUAL(xstat(p.near, "rx_missed_errors"), 0);
  }
  // An application may write to the headroom of what it was given.
  for (rte_mbuf* m : kept) std::memset(m->buf_addr, 0xee, rte_pktmbuf_headroom(m));
  for (uint32_t n = 0; n < frames; n++) {
    const rte_mbuf* m = kept[n];
    const bool outside = RTE_MBUF_HAS_EXTBUF(m);
    if (m->pkt_len <= 128) EQUAL(outside, false);
    if (outside) CU_ASSERT_TRUE(rte_pktmbuf_headroom(m) == RTE_PKTMBUF_HEADROOM);
    (outside ? attached : copied) += m->pkt_len > 128;
    EQUAL(m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK, RTE_MBUF_F_RX_L4_CKSUM_GOOD);
    EQUAL_FATAL(bytes_of(m), sent[n]);
  }
  CU_ASSERT_TRUE(attached >= 64);  // a buffer's
  CU_ASSERT_TRUE(copied >= 64);
  for (rte_mbuf* m : kept) rte_pktmbuf_free(m);
  EQUAL(rte_mempool_in_use_count(EthPair::shared_pool()), before);
}

// Mbufs that are freed give their buffers back: the next ones are attached again.
void buffers_of_several_packets_come_back() {
  EthPair p(strided);
  EQUAL_FATAL(p.start({}), 0);
  for (uint32_t n = 0; n < 3000; n++) {
    const Bytes frame = frame_of(1000, n);
    p.far.send(frame);
    rte_mbuf* const m = p.receive_one(p.near);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    EQUAL_FATAL(RTE_MBUF_HAS_EXTBUF(m) != 0, true);
    EQUAL_FATAL(bytes_of(m), frame);
    // Forwarded from where it lies.
    EQUAL_FATAL(rte_eth_tx_burst(p.near.id, 0, const_cast<rte_mbuf**>(&m), 1), 1);
    rte_mbuf* const back = p.receive_one(p.far);
    CU_ASSERT_PTR_NOT_NULL_FATAL(back);
    EQUAL_FATAL(bytes_of(back), frame);
    rte_pktmbuf_free(back);
  }
  const Bytes jumbo = frame_of(5000, 1);
  p.far.send(jumbo);
  rte_mbuf* const m = p.receive_one(p.near);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  EQUAL(m->nb_segs, 1);
  EQUAL(bytes_of(m), jumbo);
  rte_pktmbuf_free(m);
}

void several_packets_a_receive_need_many_queues() {
  EthPair p(",mprq_en=1");
  EQUAL_FATAL(p.start({}), 0);
  CU_ASSERT_TRUE(burst_mode(p.near).find("MPRQ") == std::string::npos);
  p.far.send(frame_of(1000, 0));
  rte_mbuf* const m = p.receive_one(p.near);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  EQUAL(RTE_MBUF_HAS_EXTBUF(m) != 0, false);
  rte_pktmbuf_free(m);
  EthPair few(",mprq_en=1,mprq_log_stride_num=2");
  CU_ASSERT_TRUE(few.near.configure({}) < 0);
}

// Descriptors are strides: how many wait, and which.
void descriptors_of_several_packets_are_told() {
  EthPair p(strided);
  EQUAL_FATAL(p.start({}), 0);
  EQUAL(rte_eth_rx_descriptor_status(p.near.id, 0, 127), RTE_ETH_RX_DESC_AVAIL);
  for (uint32_t n = 0; n < 5; n++) p.far.send(frame_of(500, n));
  for (int turn = 0; turn < 5; turn++) (void)rte_eth_tx_burst(p.far.id, 0, nullptr, 0);
  rte_mbuf* got[8];
  (void)rte_eth_tx_burst(p.near.id, 0, nullptr, 0);  // runs the device
  EQUAL(rte_eth_rx_queue_count(p.near.id, 0), 5);
  EQUAL(rte_eth_rx_descriptor_status(p.near.id, 0, 4), RTE_ETH_RX_DESC_DONE);
  EQUAL(rte_eth_rx_descriptor_status(p.near.id, 0, 5), RTE_ETH_RX_DESC_AVAIL);
  EQUAL(rte_eth_rx_burst(p.near.id, 0, got, 2), 2);
  rte_pktmbuf_free_bulk(got, 2);
  EQUAL(rte_eth_dev_stop(p.near.id), 0);
  EQUAL(xstat(p.near, "rx_q0_discarded"), 3);
}

// Sends a frame and changes its bytes before the device reads them: what had been copied into the
// WQE arrives as it was. Returns how many bytes did.
std::size_t bytes_copied(EthPair& p, std::size_t length) {
  const Bytes frame = frame_of(length, 7);
  rte_mbuf* const m = p.near.load(frame);
  std::byte* const at = rte_pktmbuf_mtod(m, std::byte*);
  p.near.send(m);
  for (std::size_t i = 0; i < length; i++) at[i] ^= std::byte{0xff};
  rte_mbuf* const got = p.receive_one(p.far);
  CU_ASSERT_PTR_NOT_NULL_FATAL(got);
  const Bytes b = bytes_of(got);
  rte_pktmbuf_free(got);
  EQUAL_FATAL(b.size(), length);
  std::size_t same = 0;
  while (same < length && b[same] == frame[same]) same++;
  for (std::size_t i = same; i < length; i++) EQUAL_FATAL(b[i], frame[i] ^ std::byte{0xff});
  return same;
}

void frames_are_inlined_as_devargs_say() {
  struct Row {
    const char* args;
    std::size_t length, inlined;
  };
  const Row rows[] = {
      {"", 60, 0},
      {",txq_inline_max=200", 60, 60},
      {",txq_inline_max=200", 200, 200},
      {",txq_inline_max=200", 201, 0},
      {",txq_inline_max=974", 974, 974},
      {",txq_inline_min=18", 60, 18},
      {",txq_inline_min=254", 200, 200},
      {",txq_inline_min=18,txq_inline_max=100", 100, 100},
      {",txq_inline_min=18,txq_inline_max=100", 101, 18},
      {",txq_inline_max=200,txqs_min_inline=1", 60, 60},
      {",txq_inline_max=200,txqs_min_inline=2", 60, 0},
      {",txq_inline_max=200,txq_mpw_en=0", 60, 60},
  };
  std::unique_ptr<EthPair> p;
  const char* made = nullptr;
  for (const Row& row : rows) {
    if (made == nullptr || std::strcmp(made, row.args) != 0) {
      p = std::make_unique<EthPair>(made = row.args);
      EQUAL_FATAL(p->start({.tx = RTE_ETH_TX_OFFLOAD_VLAN_INSERT}), 0);
    }
    const std::size_t same = bytes_copied(*p, row.length);
    if (same != row.inlined) std::printf("%s: %zu bytes\n", row.args, row.length);
    EQUAL(same, row.inlined);
  }
}

// A burst of both kinds, with tags among them, keeps its order.
void inlined_frames_keep_their_order() {
  EthPair p(",txq_inline_max=300");
  EQUAL_FATAL(p.start({.tx = RTE_ETH_TX_OFFLOAD_VLAN_INSERT}), 0);
  rte_mbuf* burst[30];
  std::vector<Bytes> sent;
  for (uint32_t n = 0; n < 30; n++) {
    sent.push_back(frame_of(60 + n * n, n));
    burst[n] = p.near.load(sent.back());
    if (n % 4 != 3) continue;
    burst[n]->ol_flags |= RTE_MBUF_F_TX_VLAN;
    burst[n]->vlan_tci = static_cast<uint16_t>(n);
    const std::byte tag[] = {std::byte{0x81}, {}, {}, static_cast<std::byte>(n)};
    sent.back().insert(sent.back().begin() + 12, std::begin(tag), std::end(tag));
  }
  EQUAL(rte_eth_tx_burst(p.near.id, 0, burst, 30), 30);
  const std::vector<rte_mbuf*> got = p.receive(p.far, 30);
  EQUAL_FATAL(got.size(), 30);
  for (uint32_t n = 0; n < 30; n++) {
    EQUAL(bytes_of(got[n]), sent[n]);
    rte_pktmbuf_free(got[n]);
  }
}

void completions_share_entries_as_devargs_say() {
  for (const bool asked : {false, true}) {
    EthPair p(asked ? ",rxq_cqe_comp_en=1" : "");
    EQUAL_FATAL(p.start({}), 0);
    for (uint32_t n = 0; n < 40; n++) p.far.send(frame_of(100, n));
    const std::vector<rte_mbuf*> got = p.receive(p.near, 40);
    EQUAL_FATAL(got.size(), 40);
    for (uint32_t n = 0; n < 40; n++) {
      EQUAL(bytes_of(got[n]), frame_of(100, n));
      rte_pktmbuf_free(got[n]);
    }
    EQUAL(xstat(p.near, "rx_q0_compressed") != 0, asked);
  }
}

const Case of_runs[] = {
    {"receive interrupts wake a sleeper, and only when enabled", receive_interrupts_wake_a_sleeper},
    {"each receive queue has an interrupt of its own", each_queue_has_a_vector},
    {"receive interrupts are refused where nothing would raise them",
     receive_interrupts_are_refused_where_nothing_runs},
    {"receives of several packets lose and change nothing",
     receives_of_several_packets_lose_and_change_nothing},
    {"buffers of several packets come back", buffers_of_several_packets_come_back},
    {"several packets a receive need many queues", several_packets_a_receive_need_many_queues},
    {"descriptors of several packets are told", descriptors_of_several_packets_are_told},
    {"frames are inlined as devargs say", frames_are_inlined_as_devargs_say},
    {"inlined frames keep their order", inlined_frames_keep_their_order},
    {"completions share entries as devargs say", completions_share_entries_as_devargs_say},
};

}  // namespace
}  // namespace ethdev_runs_ut

const std::span<const kilim::test::Case> kilim::test::ethdev_runs = ethdev_runs_ut::of_runs;
