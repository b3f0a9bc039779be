// SPDX-License-Identifier: BSD-3-Clause
// Random packets of 60 to 9,000 bytes through every transmit burst that was compiled, against the
// device: what arrives at the other end of the cable is what the packets and their words say, byte
// for byte (offloads_model.hh). And what ports refuse.
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string_view>

#include "mlx5/tx_caps.hh"
#include "offloads_model.hh"
#include "two_ports_fixture.hh"

namespace offloads_ut {
namespace {

using namespace kilim;
using namespace kilim::burst;
using pool::Handle;
using test::Bytes;
using test::Packet;
using test::TwoPorts;

constexpr uint32_t buffers = 1500, depth = 256;
constexpr uint8_t checksums = queue::EthOffload::l3 | queue::EthOffload::l4;
constexpr port::TxOffloads all_words{.checksums = checksums, .vlan = true, .tso = true};

// Buffers of 9,216 bytes. `near` is a device of the profile.
struct Bench {
  pool::ArenaMemory memory;
  pool::Pool pool;
  std::optional<pool::BufferCache> cache, headers;
  std::unique_ptr<port::Port> near, far;
  MkeySlots slots;
  std::deque<Bytes> due;
  uint64_t received = 0;

  static pool::ArenaMemory arena() {
    CU_ASSERT_TRUE_FATAL(test::start_eal());
    return *std::move(pool::ArenaMemory::create(
        {.buffers = buffers, .stride = pool::stride_for(9216), .side_records = true}));
  }
  explicit Bench(const char* profile,
                 const TxConfig& config = {.multi_seg = true, .offloads = true})
      : memory(arena()),
        pool(*std::move(pool::Pool::create(memory.arena(), {.name = "offl", .count = buffers}))) {
    cache.emplace(pool);
    headers.emplace(pool);
    const std::string wire = test::fresh("cable:c");
    near = test::make_port(test::fresh("vhca"), wire, 0, {}, profile);
    far = test::make_port(test::fresh("vhca"), wire);
    CU_ASSERT_TRUE_FATAL(near != nullptr);
    CU_ASSERT_TRUE_FATAL(far != nullptr);
    const port::QueueSizes sizes{.rxd = depth, .txd = depth};
    for (port::Port* p : {near.get(), far.get()}) {
      CU_ASSERT_TRUE_FATAL(p->configure(sizes, memory).ok());
      CU_ASSERT_TRUE_FATAL(p->set_rx(0, {.cache = &*cache}).ok());
    }
    CU_ASSERT_TRUE_FATAL(
        near->set_tx(0, {.cache = &*cache, .config = config, .words = words(config)}).ok());
    CU_ASSERT_TRUE_FATAL(far->set_tx(0, {.cache = &*cache}).ok());
    CU_ASSERT_TRUE_FATAL(near->start().ok());
    CU_ASSERT_TRUE_FATAL(far->start().ok());
    slots.headers = &*headers;
    near->tx_queue(0).slots = &slots;
    near->tx_queue(0).headers = &*headers;
  }
  ~Bench() {
    near->unconfigure();
    far->unconfigure();
    headers->flush();
    cache->flush();
    EQUAL(pool.size() - pool.available(), 0u);
  }
  port::TxOffloads words(const TxConfig& config) const {
    if (!config.offloads) return {};
    return {checksums, true, near->device().caps().tx.max_tso != 0};
  }

  // Copies the packet into one buffer for each of `pieces`, of which some may be empty; its
  // handles.
  std::vector<Handle> load(const Packet& p, std::span<const std::size_t> pieces) {
    std::vector<Handle> h(pieces.size());
    EQUAL_FATAL(cache->alloc(h, 0), h.size());
    std::size_t at = 0;
    for (std::size_t i = 0; i < h.size(); i++) {
      h[i].meta = pool::meta_at_line(static_cast<uint32_t>(i % 3));
      h[i].length = static_cast<uint16_t>(pieces[i]);
      if (i + 1 != h.size()) h[i].meta |= Handle::more;
      std::memcpy(memory.arena().data(h[i]), p.frame.data() + at, pieces[i]);
      at += pieces[i];
    }
    EQUAL_FATAL(at, p.frame.size());
    if (p.asks) h[0].meta |= Handle::offload;
    memory.arena().side(h[0]).tx = p.word;
    return h;
  }
  void expect(const Packet& p, bool words) {
    Packet as_read = p;
    as_read.asks = p.asks && words;
    for (Bytes& b : test::frames_of(as_read)) due.push_back(std::move(b));
  }
  // Runs the devices and compares what has come.
  void receive() {
    for (port::Port* p : {near.get(), far.get()}) p->poller().fn(p->poller().context, 256);
    Handle h[64];
    const uint32_t n = far->rx(0, h);
    for (uint32_t i = 0; i < n; i++) {
      CU_ASSERT_FALSE_FATAL(due.empty());
      const std::span<const std::byte> got = memory.arena().bytes(h[i]);
      EQUAL_FATAL(got.size(), due.front().size());
      EQUAL_FATAL(std::memcmp(got.data(), due.front().data(), got.size()), 0);
      due.pop_front();
      cache->free_one(h[i]);
      received++;
    }
  }
  void settle() {
    for (int turn = 0; turn < 5000 && !due.empty(); turn++) receive();
    EQUAL_FATAL(due.size(), 0u);
  }
};

// Cuts of a packet that no buffer is too short for; the first piece has any length, also 0.
std::vector<std::size_t> cut(test::PacketMaker& maker, std::size_t bytes, bool several) {
  std::vector<std::size_t> pieces;
  if (several) {
    if (maker.below(4) == 0) pieces.push_back(maker.below(30) % bytes);
    std::size_t left = bytes - (pieces.empty() ? 0 : pieces[0]);
    const std::size_t most = std::min<std::size_t>(1 + left / (1 + maker.below(6)), 9000);
    for (; left > most; left -= most) pieces.push_back(most);
    pieces.push_back(left);
    return pieces;
  }
  return {bytes};
}

struct Sending {
  const TxVariant& variant;
  Bench& bench;
  test::PacketMaker maker;
  std::size_t longest;  // of a packet that is segmented

  void burst() {
    TxQueue& q = bench.near->tx_queue(0);
    std::vector<Handle> in;
    std::vector<Packet> packets;
    for (uint32_t n = 1 + maker.below(20); n > 0; n--) {
      Packet p = maker.make(variant.config.offloads, longest);
      if (q.offer.max_tso == 0 && p.word.mss != 0) continue;
      const std::vector<Handle> h =
          bench.load(p, cut(maker, p.frame.size(), variant.config.multi_seg));
      in.insert(in.end(), h.begin(), h.end());
      packets.push_back(std::move(p));
    }
    for (const Packet& p : packets) bench.expect(p, variant.config.offloads);
    std::span<const Handle> rest(in);
    for (int turn = 0; turn < 3000 && !rest.empty(); turn++) {
      rest = rest.subspan(variant.burst(q, rest));
      bench.receive();
    }
    EQUAL_FATAL(rest.size(), 0u);
  }
  void run(int rounds) {
    for (int i = 0; i < rounds; i++) burst();
    bench.settle();
    TxQueue& q = bench.near->tx_queue(0);
    for (int i = 0; i < 100 && q.sent.held() != 0; i++) (void)variant.reclaim(q);
    EQUAL(q.sent.held(), 0u);
    EQUAL(q.counters.failures.read(), 0u);
  }
};

int rounds() {
  const char* check = std::getenv("KILIM_CHECK");
  return check != nullptr && std::string_view(check) == "long" ? 600 : 30;
}

void through(const char* profile, bool only_inlining) {
  Bench bench(profile);
  unsigned seed = 1;
  for (const TxVariant& v : tx_variants) {
    if (v.needs > widest_simd() || (only_inlining && !v.config.offloads)) continue;
    if (v.config.multi_packet && !bench.near->device().caps().multi_packet) continue;
    Sending s{v, bench, test::PacketMaker(seed++), v.config.multi_seg ? 60000u : 9000u};
    s.run(rounds());
  }
  CU_ASSERT(bench.received > 100);
}

void every_burst_sends_what_was_said() {
  through("cx6dx", false);
}
void headers_are_inlined_where_the_device_wants_them() {
  through("inline-l2", true);
  through("inline-ip", true);
}
void tags_go_with_an_inlined_header_where_the_device_puts_in_none() {
  through("no-tx-offloads", false);
}

// Bytes of WQEs by mode are those of DPDK's MLX5_INLINE_HSIZE_*, cards those of its
// mlx5_set_min_inline().
void what_a_device_does_is_read_from_it() {
  struct Row {
    const char* profile;
    bool tags, tunnels;
    uint32_t max_tso, min_inline;
  };
  for (const Row& row :
       {Row{"cx6dx", true, true, 1u << 18, 0}, Row{"no-tx-offloads", false, true, 0, 0},
        Row{"no-tunnels", true, false, 1u << 18, 0}, Row{"inline-l2", false, true, 1u << 18, 18},
        Row{"inline-ip", false, true, 1u << 18, 58}, Row{"no-devx", false, true, 1u << 18, 0}}) {
    CU_ASSERT_TRUE_FATAL(test::start_eal());
    const std::string wire = test::fresh("cable:c");
    const auto p = test::make_port(test::fresh("vhca"), wire, 0, {}, row.profile);
    CU_ASSERT_TRUE_FATAL(p != nullptr);
    const device::TxCaps& tx = p->device().caps().tx;
    EQUAL(tx.vlan_insertion, row.tags);
    EQUAL(tx.max_tso, row.max_tso);
    EQUAL(tx.min_inline, row.min_inline);
    CU_ASSERT_TRUE(tx.checksums);
    EQUAL(tx.tunnels, row.tunnels);
    CU_ASSERT_TRUE(!tx.pacing);
  }
  constexpr uint32_t of_modes[] = {0, 18, 58, 78, 0, 92, 132, 152};
  for (const uint32_t mode : {0u, 1u, 2u, 3u, 5u, 6u, 7u})
    EQUAL(mlx5::inlined_bytes(mode), of_modes[mode]);
  for (const uint32_t card : {0x1012u, 0x1013u, 0x1016u, 0x1017u, 0x101du})
    EQUAL(mlx5::inlined_bytes_of_card(card), card == 0x1013 || card == 0x1016 ? 18u : 0u);
}

const kilim::test::Case cases[] = {
    {"what a device does is read from it", what_a_device_does_is_read_from_it},
    {"every burst sends what packets and their words say", every_burst_sends_what_was_said},
    {"headers are inlined where the device wants them",
     headers_are_inlined_where_the_device_wants_them},
    {"tags go with an inlined header where the device puts in none",
     tags_go_with_an_inlined_header_where_the_device_puts_in_none},
};

}  // namespace
}  // namespace offloads_ut

KILIM_TEST_SUITE(offloads, offloads_ut::cases)
