// SPDX-License-Identifier: BSD-3-Clause
// TCP segments that an ethdev receives as one packet (LRO): each is what its segments are, put
// together here, however time has divided the stream; over one mbuf, several, and strides.
#include <chrono>
#include <numeric>

#include <rte_flow.h>

#include "ethdev_cases.hh"

namespace ethdev_joined_ut {
namespace {

using namespace kilim::test;

constexpr uint8_t ack_flag = 0x10, push_flag = 0x08;

struct Segment {
  FrameSpec spec;
  uint8_t ttl = 64;
  uint32_t ack = 0;
  uint16_t window = 0;
  Bytes frame;
};

// Writes what is not the first segment's alone, lengths and checksums.
void seal(Bytes& b, const Segment& s) {
  const std::size_t l3 = l3_of(s.spec), l4 = l4_of(s.spec);
  put16(b, l3 + (s.spec.ipv6 ? 4 : 2), b.size() - (s.spec.ipv6 ? l4 : l3));
  b[l3 + (s.spec.ipv6 ? 7 : 8)] = static_cast<std::byte>(s.ttl);
  put16(b, l4 + 8, s.ack >> 16);
  put16(b, l4 + 10, s.ack);
  b[l4 + 13] = static_cast<std::byte>(s.spec.tcp_flags);
  put16(b, l4 + 14, s.window);
  if (!s.spec.ipv6) {
    put16(b, l3 + 10, 0);
    put16(b, l3 + 10, ~folded(sum16(b, l3, l4)) & 0xffffu);
  }
  put16(b, l4_checksum_at(s.spec), 0);
  put16(b, l4_checksum_at(s.spec), ~l4_check(b, s.spec) & 0xffffu);
}

Segment make_segment(bool six, uint32_t seq, std::size_t bytes, bool push) {
  Segment s{.spec = {.ipv6 = six, .payload = bytes, .tcp_flags = ack_flag, .seq = seq}};
  if (push) s.spec.tcp_flags |= push_flag;
  s.ttl = static_cast<uint8_t>(60 + seq % 5);
  s.ack = seq * 3;
  s.window = static_cast<uint16_t>(seq * 7);
  s.frame = make_frame(s.spec);
  for (std::size_t i = 0; i < bytes; i++)
    s.frame[payload_of(s.spec) + i] = static_cast<std::byte>((seq + i) * 2654435761u >> 13);
  seal(s.frame, s);
  return s;
}

using Stream = std::vector<Segment>;

// Full segments of data and the rest of it, which pushes.
Stream make_stream(bool six, std::size_t bytes, std::size_t each) {
  Stream all;
  for (std::size_t at = 0; at < bytes; at += each) {
    const std::size_t n = std::min(each, bytes - at);
    all.push_back(make_segment(six, static_cast<uint32_t>(1000 + at), n, at + n == bytes));
  }
  return all;
}

Bytes joined_of(std::span<const Segment> some) {
  Segment sum = some[0];
  for (const Segment& s : some.subspan(1)) {
    sum.frame.insert(sum.frame.end(), s.frame.begin() + static_cast<long>(payload_of(s.spec)),
                     s.frame.end());
    sum.ttl = std::min(sum.ttl, s.ttl);
    sum.ack = s.ack;
    sum.window = s.window;
    sum.spec.tcp_flags |= s.spec.tcp_flags;
  }
  seal(sum.frame, sum);
  return sum.frame;
}

// The packet is the stream's next segments; returns how many.
std::size_t matches(const rte_mbuf* m, std::span<const Segment> rest) {
  const std::size_t headers = payload_of(rest[0].spec);
  std::size_t count = 0, bytes = headers;
  while (count < rest.size() && bytes < m->pkt_len) bytes += rest[count++].spec.payload;
  EQUAL_FATAL(bytes, m->pkt_len);
  EQUAL_FATAL(bytes_of(m), joined_of(rest.first(count)));
  EQUAL((m->ol_flags & RTE_MBUF_F_RX_LRO) != 0, count > 1);
  if (count > 1) EQUAL(m->tso_segsz, (bytes - headers + count - 1) / count);
  EQUAL(m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK, RTE_MBUF_F_RX_L4_CKSUM_GOOD);
  return count;
}

// What `near` makes of a stream that `far` sends; the caller frees.
std::vector<rte_mbuf*> arrives_as(EthPair& p, const Stream& stream) {
  std::vector<rte_mbuf*> got;
  std::size_t seen = 0;
  for (std::size_t at = 0; at < stream.size(); at += 32) {
    const std::size_t n = std::min<std::size_t>(32, stream.size() - at);
    for (std::size_t i = 0; i < n; i++) p.far.send(stream[at + i].frame);
    for (rte_mbuf* m : p.receive(p.near, 1)) got.push_back(m);
  }
  for (std::size_t i = 0; i < got.size() || (seen < stream.size() && i < stream.size()); i++) {
    if (i == got.size())
      for (rte_mbuf* m : p.receive(p.near, 1)) got.push_back(m);
    if (i == got.size()) break;
    seen += matches(got[i], std::span(stream).subspan(seen));
  }
  EQUAL(seen, stream.size());
  return got;
}

void free_all(const std::vector<rte_mbuf*>& all) {
  for (rte_mbuf* m : all) rte_pktmbuf_free(m);
}

// Sends streams until one was joined; counts tell of the whole.
void joins_a_stream(EthPair& p, bool six, std::size_t bytes, std::size_t each) {
  const Stream stream = make_stream(six, bytes, each);
  bool joined = false;
  for (int turn = 0; turn < 20 && !joined; turn++) {
    EQUAL(rte_eth_xstats_reset(p.near.id), 0);
    const std::vector<rte_mbuf*> got = arrives_as(p, stream);
    joined = got.size() < stream.size();
    EQUAL(xstat(p.near, "rx_q0_joined"), stream.size() - got.size());
    EQUAL(xstat(p.near, "rx_joined"), stream.size() - got.size());
    EQUAL(xstat(p.near, "rx_good_packets"), got.size());
    free_all(got);
  }
  CU_ASSERT_TRUE(joined);
}

constexpr const char* patient = ",lro_timeout_usec=1024";

void joins_in_one_mbuf_or_several() {
  struct Row {
    uint32_t max_lro;
    uint32_t longest;  // of the packets: in units of 256 bytes
  };
  for (const Row& row : {Row{0, 1280}, Row{2048, 2048}, Row{16000, 15872}, Row{61440, 61440}}) {
    EthPair p(patient);
    PortAsk ask{.rx = RTE_ETH_RX_OFFLOAD_TCP_LRO | RTE_ETH_RX_OFFLOAD_CHECKSUM,
                .max_lro = row.max_lro};
    if (row.max_lro > 2048) ask.rx |= RTE_ETH_RX_OFFLOAD_SCATTER;
    EQUAL_FATAL(p.start(ask), 0);
    for (const bool six : {false, true}) {
      joins_a_stream(p, six, row.longest * 3 / 2, 250);
      for (const std::size_t each : {250, 1400}) {
        const std::vector<rte_mbuf*> got = arrives_as(p, make_stream(six, 100'000, each));
        for (const rte_mbuf* m : got) {
          EQUAL(m->nb_segs, (m->pkt_len + 2047) / 2048);
          CU_ASSERT_TRUE(m->pkt_len <= std::max<std::size_t>(row.longest, each + 74));
        }
        free_all(got);
      }
    }
    FrameSpec s = udp4;
    s.payload = 1400;
    arrives(p, make_frame(s), RTE_MBUF_F_RX_LRO, 0);
  }
}

// The application keeps more than there are buffers of strides: what does not fit into an mbuf is
// copied into several. What it keeps stays as it was.
void joins_over_strides() {
  EthPair p(std::string(",mprq_en=1,rxqs_min_mprq=1,mprq_log_stride_size=11") + patient);
  PortAsk ask{
      .rx = RTE_ETH_RX_OFFLOAD_TCP_LRO | RTE_ETH_RX_OFFLOAD_CHECKSUM | RTE_ETH_RX_OFFLOAD_SCATTER,
      .max_lro = 16000};
  EQUAL_FATAL(p.start(ask), 0);
  joins_a_stream(p, false, 12000, 500);
  std::vector<rte_mbuf*> kept;
  std::vector<Bytes> before;
  uint32_t attached = 0, chained = 0;
  const Stream stream = make_stream(true, 150'000, 1400);
  for (int turn = 0; turn < 40 && (attached == 0 || chained < 20); turn++)
    for (rte_mbuf* m : arrives_as(p, stream)) {
      kept.push_back(m);
      before.push_back(bytes_of(m));
      attached += RTE_MBUF_HAS_EXTBUF(m) != 0;
      chained += m->nb_segs > 1;
      if (m->nb_segs > 1) EQUAL(m->nb_segs, (m->pkt_len + 2047) / 2048);
    }
  CU_ASSERT_TRUE(attached >= 20);
  CU_ASSERT_TRUE(chained >= 20);
  EQUAL(xstat(p.near, "rx_errors"), 0);
  for (std::size_t i = 0; i < kept.size(); i++) EQUAL_FATAL(bytes_of(kept[i]), before[i]);
  free_all(kept);
  free_all(arrives_as(p, stream));
}

// Targets that lead to one queue are to agree, so that a port joins or does not.
void one_queue_alone_does_not_join() {
  EthPair p;
  EQUAL_FATAL(p.start({.queues = 2}), 0);
  EQUAL(rte_eth_dev_stop(p.near.id), 0);
  EQUAL(p.near.set_up_rx(1, RTE_ETH_RX_OFFLOAD_TCP_LRO), -EINVAL);
}

// What a rule leads to one of several queues.
void one_of_several_queues_joins() {
  EthPair p(patient);
  EQUAL_FATAL(
      p.start({.rx = RTE_ETH_RX_OFFLOAD_TCP_LRO | RTE_ETH_RX_OFFLOAD_CHECKSUM, .queues = 2}), 0);
  const Stream stream = make_stream(false, 900, 100);
  const rte_flow_attr attr{.group = 0, .priority = 0, .ingress = 1};
  const rte_flow_item pattern[] = {{.type = RTE_FLOW_ITEM_TYPE_ETH},
                                   {.type = RTE_FLOW_ITEM_TYPE_END}};
  const rte_flow_action_queue second{1};
  const rte_flow_action actions[] = {{RTE_FLOW_ACTION_TYPE_QUEUE, &second},
                                     {RTE_FLOW_ACTION_TYPE_END, nullptr}};
  CU_ASSERT_PTR_NOT_NULL_FATAL(rte_flow_create(p.near.id, &attr, pattern, actions, nullptr));
  bool joined = false;
  for (int turn = 0; turn < 20 && !joined; turn++) {
    for (const Segment& s : stream) p.far.send(s.frame);
    std::size_t seen = 0, packets = 0;
    for (int more = 0; more < 100 && seen < stream.size(); more++)
      for (rte_mbuf* m : p.receive(p.near, 1, 2)) {
        seen += matches(m, std::span(stream).subspan(seen));
        packets++;
        rte_pktmbuf_free(m);
      }
    EQUAL(seen, stream.size());
    joined = packets < stream.size();
  }
  CU_ASSERT_TRUE(joined);
}

void sizes_that_do_not_fit_are_refused() {
  EthPair p;
  rte_eth_dev_info info{};
  EQUAL(rte_eth_dev_info_get(p.near.id, &info), 0);
  EQUAL(info.max_lro_pkt_size, 65280);
  const uint64_t lro = RTE_ETH_RX_OFFLOAD_TCP_LRO, scatter = RTE_ETH_RX_OFFLOAD_SCATTER;
  struct Row {
    uint64_t rx;
    uint32_t max_lro;
    int error;
  };
  for (const Row& row :
       {Row{lro, 16000, -EINVAL}, Row{lro, 2049, -EINVAL}, Row{lro, 2048, 0},
        Row{lro | scatter, 16000, 0}, Row{lro | scatter, 30 * 2048 + 1, -EINVAL},
        Row{lro | scatter, 65281, -EINVAL}, Row{lro, 255, -EINVAL}, Row{lro, 256, 0}}) {
    const int e = p.start({.rx = row.rx, .max_lro = row.max_lro});
    if (e != row.error) std::printf("max_lro_pkt_size %u: %d\n", row.max_lro, e);
    EQUAL(e, row.error);
  }
  static rte_mempool* const of_121 = mbuf_pool("of_121", 4095, RTE_PKTMBUF_HEADROOM + 121);
  static rte_mempool* const of_122 = mbuf_pool("of_122", 4095, RTE_PKTMBUF_HEADROOM + 122);
  EthPair shorter("", of_121);
  EQUAL(shorter.start({.rx = lro | scatter}), -ENOTSUP);
  EQUAL(shorter.start({.rx = scatter}), 0);
  EthPair enough("", of_122);
  EQUAL(enough.start({.rx = lro | scatter}), 0);
}

// Entries that packets share do not tell of segments: there are none on a port that joins.
void compression_gives_way() {
  EthPair p(std::string(",rxq_cqe_comp_en=1") + patient);
  EQUAL_FATAL(p.start({.rx = RTE_ETH_RX_OFFLOAD_TCP_LRO | RTE_ETH_RX_OFFLOAD_CHECKSUM}), 0);
  rte_eth_burst_mode mode{};
  EQUAL(rte_eth_rx_burst_mode_get(p.near.id, 0, &mode), 0);
  CU_ASSERT_PTR_NOT_NULL(std::strstr(mode.info, "LRO"));
  joins_a_stream(p, false, 900, 100);
  for (uint32_t n = 0; n < 40; n++) p.far.send(frame_of(100, n));
  free_all(p.receive(p.near, 40));
  EQUAL(xstat(p.near, "rx_q0_compressed"), 0);
}

// What lies in a queue that is stopped is counted in frames of the wire.
void a_stopped_queue_counts_segments() {
  EthPair p(patient);
  EQUAL_FATAL(p.start({.rx = RTE_ETH_RX_OFFLOAD_TCP_LRO}), 0);
  for (const Segment& s : make_stream(false, 900, 100)) p.far.send(s.frame);
  for (int turn = 0; turn < 20; turn++) {
    (void)rte_eth_tx_burst(p.far.id, 0, nullptr, 0);
    (void)rte_eth_tx_burst(p.near.id, 0, nullptr, 0);  // runs the device
  }
  EQUAL(rte_eth_dev_rx_queue_stop(p.near.id, 0), 0);
  EQUAL(xstat(p.near, "rx_q0_discarded"), 9);
}

// Room for joined frames is room for a larger MTU.
void the_mtu_grows_into_the_room() {
  EthPair p;
  EQUAL_FATAL(
      p.start({.rx = RTE_ETH_RX_OFFLOAD_TCP_LRO | RTE_ETH_RX_OFFLOAD_SCATTER, .max_lro = 8000}), 0);
  EQUAL(rte_eth_dev_set_mtu(p.near.id, 7000), 0);
  arrives(p, frame_of(7000, 0), RTE_MBUF_F_RX_LRO, 0);
  EQUAL(rte_eth_dev_set_mtu(p.near.id, 9000), -EBUSY);
}

// Frames that do not fit are dropped, more than there are receives, and each receive is posted
// again.
void frames_that_are_too_long_cost_no_receive() {
  constexpr uint32_t frames = 300;
  EthPair p;
  EQUAL_FATAL(p.start({.rx = RTE_ETH_RX_OFFLOAD_TCP_LRO}), 0);
  for (uint32_t n = 0; n < frames; n++) {
    p.far.send(frame_of(3000, n));
    if (n % 20 == 19) p.receive_none(p.near);
  }
  arrives(p, make_frame(udp4), 0, 0);
  EQUAL(xstat(p.near, "rx_q0_too_long"), frames);
}

// True: a second segment becomes part of the first, which the device had for 100 microseconds.
bool waits(EthPair& p) {
  using Clock = std::chrono::steady_clock;
  const Stream two = make_stream(false, 200, 100);
  p.far.send(two[0].frame);
  (void)rte_eth_tx_burst(p.far.id, 0, nullptr, 0);
  rte_mbuf* m = nullptr;
  const auto look = [&p, &m] {
    if (m == nullptr) (void)rte_eth_rx_burst(p.near.id, 0, &m, 1);
  };
  look();  // the device has it
  const auto end = Clock::now() + std::chrono::microseconds(100);
  while (Clock::now() < end) look();
  look();
  p.far.send(two[1].frame);
  while (m == nullptr) m = p.receive_one(p.near);
  const bool joined = matches(m, two) == 2;
  rte_pktmbuf_free(m);
  if (!joined) free_all(p.receive(p.near, 1));
  return joined;
}

void it_waits_as_long_as_devargs_say() {
  for (const bool asked : {false, true}) {
    EthPair p(asked ? patient : "");
    EQUAL_FATAL(p.start({.rx = RTE_ETH_RX_OFFLOAD_TCP_LRO | RTE_ETH_RX_OFFLOAD_CHECKSUM}), 0);
    bool joined = false;
    for (int turn = 0; turn < 50 && !joined; turn++) joined = waits(p);
    EQUAL(joined, asked);
  }
}

const Case of_joined[] = {
    {"segments are joined in one mbuf or several", joins_in_one_mbuf_or_several},
    {"segments are joined over strides", joins_over_strides},
    {"segments are not joined for one queue alone", one_queue_alone_does_not_join},
    {"segments are joined for one of several queues", one_of_several_queues_joins},
    {"sizes of joined packets that do not fit are refused", sizes_that_do_not_fit_are_refused},
    {"compression gives way to joined segments", compression_gives_way},
    {"a stopped queue counts segments", a_stopped_queue_counts_segments},
    {"the MTU grows into the room of joined packets", the_mtu_grows_into_the_room},
    {"frames that are too long cost a port that joins no receive",
     frames_that_are_too_long_cost_no_receive},
    {"a joined packet waits as long as devargs say", it_waits_as_long_as_devargs_say},
};

}  // namespace
}  // namespace ethdev_joined_ut

const std::span<const kilim::test::Case> kilim::test::ethdev_joined = ethdev_joined_ut::of_joined;

void kilim::test::joins_segments(EthPair& p) {
  const ethdev_joined_ut::Stream stream = ethdev_joined_ut::make_stream(false, 900, 100);
  bool joined = false;
  for (int turn = 0; turn < 20 && !joined; turn++) {
    const std::vector<rte_mbuf*> got = ethdev_joined_ut::arrives_as(p, stream);
    joined = got.size() < stream.size();
    ethdev_joined_ut::free_all(got);
  }
  CU_ASSERT_TRUE(joined);
}
