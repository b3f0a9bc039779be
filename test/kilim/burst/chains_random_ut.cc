// SPDX-License-Identifier: BSD-3-Clause
// Packets of 60 to 9,000 bytes with any contents in receives of several buffers: what the test
// writes through the segments of the WQEs, as a device does, is compared byte for byte with the
// chains that a burst returns, and what a transmit queue's WQEs name with the packets sent.
#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "eal.hh"
#include "rings_fixture.hh"
#include "rows_fixture.hh"
#include "ut.hh"

namespace chains_random_ut {
namespace {

using namespace kilim;
using namespace kilim::burst;
using pool::Handle;

constexpr Lkey arena_key{0x4711};
constexpr uint32_t wqes = 32, wqe_bytes = 128, buffers = 600, headers = 120;
constexpr uint32_t stride = pool::default_stride;

// How the receives of a queue look.
struct Layout {
  uint32_t segments;
  uint32_t header_bytes;  // 0: not split
  uint16_t head_lines;
};
constexpr Layout layouts[] = {{5, 0, 0},  {5, 0, 2},   {8, 0, 0}, {2, 64, 0},
                              {2, 14, 1}, {6, 128, 0}, {6, 54, 2}};

struct Bench {
  std::vector<std::byte> memory{std::size_t{buffers + headers} * stride};
  std::array<pool::SideRecord, buffers + headers> side{};
  pool::Arena arena = *pool::Arena::over(memory, stride, side.data());
  pool::Pool pool, header_pool;
  pool::BufferCache cache{pool}, header_cache{header_pool};
  alignas(64) std::array<std::byte, wqes * wqe_bytes> ring{};
  be32 record{0};
  std::array<uint32_t, wqes> first{};
  std::array<uint32_t, wqes*(max_rx_segments - 1)> further{};
  std::array<uint8_t, wqes> missing{};
  test::CqMemory cq;
  Layout layout;
  RxQueue rx;
  RxChain chain;

  static pool::Pool make_pool(const pool::Arena& arena, const char* kind, uint32_t from,
                              uint32_t count) {
    static int number = 0;
    const std::string name = kind + std::to_string(number++);
    return *std::move(
        pool::Pool::create(arena, {.name = name.c_str(), .first = from, .count = count}));
  }
  explicit Bench(const Layout& l)
      : pool(make_pool(arena, "chain", 0, buffers)),
        header_pool(make_pool(arena, "head", buffers, headers)),
        layout(l),
        rx{.rq = RxRing(geometry(), first, place()),
           .cq = queue::Cq(cq.geometry()),
           .cache = l.header_bytes != 0 ? &header_cache : &cache,
           .arena = arena,
           .head_lines = l.head_lines,
           .refill_at = 8},
        chain(geometry(), further, missing, {arena, arena_key, l.segments, place().room()}, cache) {
    rx.chain = &chain;
  }
  queue::RqGeometry geometry() { return {ring.data(), wqes, wqe_bytes, &record}; }
  [[nodiscard]] RxPlace place() const {
    return {arena, arena_key, layout.head_lines, layout.header_bytes};
  }
  const prm::DataSeg& segment(uint32_t wqe, uint32_t i) const {
    return reinterpret_cast<const prm::DataSeg&>(ring[(wqe % wqes) * wqe_bytes + i * 16]);
  }
  // Buffers that neither pools nor caches hold.
  uint32_t out() {
    cache.flush();
    header_cache.flush();
    return buffers + headers - pool.available() - header_pool.available();
  }
  void free(std::span<const Handle> all) {
    for (const Handle h : all) (header_pool.has(h.index) ? header_cache : cache).free_one(h);
  }
};

// The device's hand: what comes, and what is to come back.
class Receiver {
 public:
  Receiver(const RxVariant& v, const Layout& l) : b_(l), burst_(v.burst), config_(v.config) {
    EQUAL_FATAL(rx_refill_chain(b_.rx), wqes);
  }
  void round() {
    for (uint32_t n = below(28); n > 0 && arrived_ < b_.rx.rq.posted(); n--) arrive();
    std::array<Handle, 80> out;
    const uint32_t places = max_rx_segments + below(80 - max_rx_segments);
    const uint32_t before = b_.cq.record.host();
    const uint32_t n = burst_(b_.rx, std::span(out).first(places));
    arrived_ -= b_.cq.record.host() - before;
    CU_ASSERT_TRUE_FATAL(n <= places);
    for (uint32_t i = 0, k; i < n; i += k) {
      k = burst::chain_length(std::span(out).subspan(i, n - i));
      CU_ASSERT_TRUE_FATAL(k != 0);
      compare(std::span(out).subspan(i, k));
    }
    if (below(3) == 0) free_held();
  }
  void finish() {
    while (!due_.empty()) round();
    free_held();
    EQUAL(b_.rx.counters.packets.read(), packets_);
    EQUAL(b_.rx.counters.bytes.read(), bytes_);
    EQUAL(b_.out(), b_.rx.rq.posted() + b_.chain.held());
    b_.rx.rq.reset([this](uint32_t i) noexcept { b_.rx.cache->free_indices({&i, 1}); });
    b_.chain.reset([this](uint32_t i) noexcept { b_.cache.free_indices({&i, 1}); });
    EQUAL(b_.chain.held(), 0u);
    EQUAL(b_.out(), 0u);
    EQUAL(b_.pool.available(), buffers);
    CU_ASSERT_TRUE(packets_ > 100);
  }

 private:
  uint32_t below(std::size_t n) { return static_cast<uint32_t>(random_() % n); }
  void free_held() {
    b_.free(held_);
    held_.clear();
  }

  // Fills the segments of a WQE in order, up to the one that ends the list.
  void arrive() {
    const auto wqe = static_cast<uint16_t>(next_++);
    arrived_++;
    const uint32_t room = room_of(wqe);
    const uint32_t length = std::min(60 + below(8941), room);
    if (below(40) == 0) {
      b_.cq.write_error(prm::CqeOpcode::resp_err, wqe, prm::Syndrome::local_length);
      return;
    }
    std::vector<std::byte> packet(length);
    for (std::byte& x : packet) x = static_cast<std::byte>(random_());
    std::size_t done = 0;
    for (uint32_t i = 0; done < length; i++) {
      const prm::DataSeg& s = b_.segment(wqe, i);
      const std::size_t n = std::min<std::size_t>(s.byte_count.host(), length - done);
      std::memcpy(reinterpret_cast<std::byte*>(s.addr.host()), packet.data() + done, n);
      done += n;
    }
    prm::Cqe& e = b_.cq.write(prm::CqeOpcode::resp_send, wqe, length);
    e.rx_hash_result = be32{static_cast<uint32_t>(random_()) | 1};
    hashes_.push_back(e.rx_hash_result.host());
    due_.push_back(std::move(packet));
  }
  // Also: each segment is a whole buffer of its pool, and none is posted twice.
  uint32_t room_of(uint32_t wqe) {
    uint32_t room = 0, i = 0;
    std::vector<uint64_t> seen;
    for (; i < max_rx_segments; i++) {
      const prm::DataSeg& s = b_.segment(wqe, i);
      if (s.lkey.host() == prm::list_end_lkey) break;
      EQUAL_FATAL(s.lkey.host(), arena_key.value());
      const uint64_t at = s.addr.host() - b_.arena.first_address().value();
      const uint64_t head = i == 0 ? b_.layout.head_lines * 64u : 0;
      EQUAL_FATAL(at % stride, head);
      const bool of_headers = i == 0 && b_.layout.header_bytes != 0;
      EQUAL_FATAL(b_.header_pool.has(static_cast<uint32_t>(at / stride)), of_headers);
      EQUAL_FATAL(s.byte_count.host(), of_headers ? b_.layout.header_bytes : stride - head);
      CU_ASSERT_TRUE_FATAL(std::find(seen.begin(), seen.end(), at / stride) == seen.end());
      seen.push_back(at / stride);
      room += s.byte_count.host();
    }
    EQUAL_FATAL(i, b_.layout.segments);
    return room;
  }
  void compare(std::span<const Handle> chain) {
    CU_ASSERT_FALSE_FATAL(due_.empty());
    std::vector<std::byte> got;
    for (const Handle h : chain) {
      CU_ASSERT_TRUE(h.length != 0);
      const auto bytes = b_.arena.bytes(h);
      got.insert(got.end(), bytes.begin(), bytes.end());
      CU_ASSERT_TRUE(
          std::none_of(held_.begin(), held_.end(), [h](Handle o) { return o.index == h.index; }));
      held_.push_back(h);
    }
    CU_ASSERT_TRUE_FATAL(got == due_.front());
    EQUAL(chain[0].has(Handle::side), config_.side);
    if (config_.side) EQUAL(b_.arena.side(chain[0]).rx_hash, hashes_.front());
    due_.pop_front();
    hashes_.pop_front();
    packets_++;
    bytes_ += got.size();
  }

  Bench b_;
  RxBurst burst_;
  RxConfig config_;
  std::mt19937_64 random_{11};
  std::deque<std::vector<std::byte>> due_;
  std::deque<uint32_t> hashes_;
  std::vector<Handle> held_;
  uint32_t next_ = 0, arrived_ = 0;
  uint64_t packets_ = 0, bytes_ = 0;
};

void chains_of_every_variant() {
  CU_ASSERT_TRUE_FATAL(test::start_eal());
  EQUAL(test::compiled().chains.size(), 10u);
  for (const RxVariant& v : test::compiled().chains) {
    for (const Layout& l : layouts) {
      Receiver r(v, l);
      for (uint32_t i = 0; i < 60; i++) r.round();
      r.finish();
    }
  }
}

// A packet for which `out` has no room stays, with its buffers, until it has.
void a_packet_without_room_waits() {
  CU_ASSERT_TRUE_FATAL(test::start_eal());
  Bench b({5, 0, 0});
  rx_refill_chain(b.rx);
  b.cq.write(prm::CqeOpcode::resp_send, 0, 9000);
  b.cq.write(prm::CqeOpcode::resp_send, 1, 2112);
  b.cq.write(prm::CqeOpcode::resp_send, 2, 2113);
  std::array<Handle, 8> out;
  EQUAL(rx_burst_chain<RxConfig{}>(b.rx, std::span(out).first(7)), 6u);
  CU_ASSERT_TRUE(out[3].has(Handle::more));
  CU_ASSERT_TRUE(!out[4].has(Handle::more));
  EQUAL(out[4].length, 552);
  EQUAL(out[5].length, 2112);
  CU_ASSERT_TRUE(!out[5].has(Handle::more));
  b.free(std::span(out).first(6));
  EQUAL(rx_burst_chain<RxConfig{}>(b.rx, out), 2u);
  EQUAL(out[0].length, 2112);
  CU_ASSERT_TRUE(out[0].has(Handle::more));
  EQUAL(out[1].length, 1);
  b.free(std::span(out).first(2));
  EQUAL(b.out(), b.rx.rq.posted() + b.chain.held());
}

// A pool with fewer buffers than the ring takes: WQEs are made whole one by one, what misses
// waits, and nothing stands still while a WQE can be posted.
void a_dry_pool_posts_whole_receives() {
  CU_ASSERT_TRUE_FATAL(test::start_eal());
  for (const uint32_t left : {4u, 5u, 23u, 99u}) {
    Bench b({5, 0, 0});
    std::vector<uint32_t> taken(buffers - left);
    EQUAL_FATAL(b.cache.alloc_indices(taken), buffers - left);
    EQUAL(rx_refill_chain(b.rx), left / 5);
    EQUAL(b.rx.counters.no_buffer.read(), 1u);
    CU_ASSERT_TRUE(b.out() - taken.size() >= left / 5 * 5);
    b.cache.free_indices({taken.data(), 1});
    EQUAL(rx_refill_chain(b.rx), left % 5 == 4 ? 1u : 0u);
    b.cache.free_indices({taken.data() + 1, taken.size() - 1});
    rx_refill_chain(b.rx);
    EQUAL(b.rx.rq.room(), 0u);
  }
}

// Each goes back to its pool, packets of one piece and under a key too.
void sent_buffers_return_to_their_pools() {
  CU_ASSERT_TRUE_FATAL(test::start_eal());
  Bench b({2, 64, 0});
  test::TxMemory memory;
  const std::array<Lkey, 2> keys{Lkey{0x100}, Lkey{0x101}};
  std::array<uint32_t, 2> free_slots{1, 0};
  MkeySlots slots{keys.data(), free_slots.data(), 0, &b.header_cache};
  for (const bool gathered : {false, true}) {
    const TxConfig config{.multi_seg = true, .gathered = gathered, .two_pools = true};
    const TxVariant& v = test::chosen_tx(config, Simd::avx2);
    CU_ASSERT_TRUE_FATAL(v.config == config);
    TxQueue tx{.sq = queue::Sq(memory.geometry(), memory.ids),
               .cq = queue::Cq(memory.cq.geometry()),
               .sent = SentRing(memory.handles, memory.bursts),
               .cache = &b.cache,
               .arena = b.arena,
               .key = arena_key,
               .slots = &slots,
               .headers = &b.header_cache};
    memory.cq = {};
    Handle p[6];
    EQUAL_FATAL(b.header_cache.alloc({p, 2}, 64), 2u);
    EQUAL_FATAL(b.cache.alloc({p + 2, 2}, 1000), 2u);
    Handle in[] = {p[0], p[2], p[3], p[1]};
    in[0].meta |= Handle::more;
    in[1].meta |= Handle::more;
    const Handle key[] = {{0, 64, Handle::key | Handle::more}};
    uint32_t sent = v.burst(tx, std::span<const Handle>(in));
    EQUAL(sent, 4u);
    if (gathered) {
      Handle under[] = {key[0], {}, {}};
      EQUAL_FATAL(b.header_cache.alloc({under + 1, 1}, 14), 1u);
      EQUAL_FATAL(b.cache.alloc({under + 2, 1}, 50), 1u);
      under[1].meta |= Handle::more;
      sent += v.burst(tx, std::span<const Handle>(under));
      EQUAL(sent, 7u);
      EQUAL(memory.data(3).lkey.host(), 0x100u);
    }
    EQUAL(memory.data(0, 2).byte_count.host(), 1000u);
    memory.cq.write(prm::CqeOpcode::req, 2);
    if (gathered) memory.cq.write(prm::CqeOpcode::req, 3);
    EQUAL(v.reclaim(tx), sent);
    EQUAL(slots.free_count, gathered ? 1u : 0u);
    EQUAL(b.out(), 0u);
    EQUAL(b.header_pool.available(), headers);
  }
}

const kilim::test::Case cases[] = {
    {"chains have the bytes that came, in every variant", chains_of_every_variant},
    {"a packet without room in the burst waits", a_packet_without_room_waits},
    {"a dry pool posts whole receives only, and as many as it can",
     a_dry_pool_posts_whole_receives},
    {"sent buffers return to their pools", sent_buffers_return_to_their_pools},
};

}  // namespace
}  // namespace chains_random_ut

KILIM_TEST_SUITE(chains_random, chains_random_ut::cases)
