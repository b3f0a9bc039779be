// SPDX-License-Identifier: BSD-3-Clause
// Handles shown as mbufs of a real mempool: words and bytes of both, who gets a buffer back, two
// lcores that hand packets to each other.
#include <array>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <rte_mbuf.h>

#include "case_tables.hh"
#include "kilim/detail/pool/chain.hh"
#include "kilim/detail/pool/mbuf.hh"
#include "mbuf_fixture.hh"
#include "ut.hh"

namespace mbuf_ut {
namespace {

using namespace kilim::pool;
using namespace kilim::test;

constexpr uint32_t buffers = 600;
// Our buffers, and mbufs without room to show them.
struct Field {
  Mempool mbufs = make_mempool("shells", 0);
  std::vector<std::byte> memory = std::vector<std::byte>(std::size_t{buffers} * default_stride);
  std::vector<SideRecord> side = std::vector<SideRecord>(buffers);
  std::array<ExtraHolders, buffers> extra{};
  Arena arena;
  std::optional<Pool> pool;
  std::optional<BufferCache> cache;
  std::unique_ptr<ExternalMbufs> external;

  explicit Field(bool holders = false)
      : arena(*Arena::over(memory, default_stride, side.data(), holders ? extra.data() : nullptr)) {
    pool.emplace(*Pool::create(arena, {.name = "shown", .count = buffers}));
    cache.emplace(*pool);
    external = *ExternalMbufs::create(*pool, *mbufs);
  }
  // Buffers in nobody's hands but the pool's and the cache's.
  [[nodiscard]] uint32_t free() const { return pool->available() + cache->held(); }
  void expect_all_back() {
    EQUAL(free(), buffers);
    EQUAL(external->held(), 0u);
    EQUAL(rte_mempool_avail_count(mbufs.get()), mbuf_count);
  }
};

void fill(const Arena& arena, Handle h, uint32_t seed) {
  for (std::byte& b : arena.bytes(h)) b = static_cast<std::byte>(seed++ * 7);
}

void words_and_bytes() {
  Field f;
  Handle h;
  EQUAL_FATAL(f.cache->alloc({&h, 1}, 100), 1u);
  h.meta = static_cast<uint16_t>(meta_at(77) | Handle::side);
  fill(f.arena, h, 3);
  f.arena.side(h) = {.rx_hash = 0x12345678,
                     .packet_type = RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4,
                     .flags = static_cast<uint32_t>(RTE_MBUF_F_RX_RSS_HASH | RTE_MBUF_F_RX_VLAN |
                                                    RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID) |
                              0xabu << 24,
                     .vlan = 0x1234,
                     .mark_low = 0xcdef};
  rte_mbuf* m = nullptr;
  CU_ASSERT_TRUE_FATAL((f.external->to_mbufs({&h, 1}, {&m, 1}) == Converted{1, 1}));
  CU_ASSERT_TRUE(rte_pktmbuf_mtod(m, std::byte*) == f.arena.data(h));
  EQUAL(rte_pktmbuf_pkt_len(m), 100u);
  EQUAL(rte_pktmbuf_headroom(m), 77u);
  EQUAL(rte_pktmbuf_tailroom(m), default_stride - 177);
  CU_ASSERT_TRUE(RTE_MBUF_HAS_EXTBUF(m) != 0);
  EQUAL(m->ol_flags, RTE_MBUF_F_EXTERNAL | RTE_MBUF_F_RX_RSS_HASH | RTE_MBUF_F_RX_VLAN |
                         RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID);
  EQUAL(uint32_t{m->hash.fdir.hi}, 0xabcdefu);
  EQUAL(m->packet_type, uint32_t{RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4});
  EQUAL(uint32_t{m->hash.rss}, 0x12345678u);
  EQUAL(uint32_t{m->vlan_tci}, 0x1234u);
  EQUAL(f.external->held(), 1u);
  EQUAL(rte_mbuf_check(m, 1, nullptr), 0);
  rte_mbuf* clone = rte_pktmbuf_clone(m, f.mbufs.get());
  CU_ASSERT_TRUE_FATAL(clone != nullptr);
  rte_pktmbuf_free(m);
  EQUAL(f.external->held(), 1u);  // the clone's
  EQUAL(rte_pktmbuf_mtod(clone, const std::byte*)[99], std::byte{(3 + 99) * 7 & 0xff});
  rte_pktmbuf_free(clone);
  f.expect_all_back();
  // The same buffer once more, without its record.
  EQUAL_FATAL(f.cache->alloc({&h, 1}, 60), 1u);
  CU_ASSERT_TRUE_FATAL((f.external->to_mbufs({&h, 1}, {&m, 1}) == Converted{1, 1}));
  EQUAL(m->ol_flags, uint64_t{RTE_MBUF_F_EXTERNAL});
  EQUAL(m->packet_type, 0u);
  rte_pktmbuf_free(m);
  f.expect_all_back();
}

void segments_and_shortage() {
  Field f;
  f.external->serve(*f.cache);
  std::vector<Handle> h(300);
  EQUAL_FATAL(f.cache->alloc(h, 40), 300u);
  for (uint32_t i = 0; i < 300; i += 3) chain(std::span(h).subspan(i, 3));
  std::vector<rte_mbuf*> m(200);
  // 255 mbufs are 85 packets of three.
  CU_ASSERT_TRUE((f.external->to_mbufs({&h[1], 2}, m) == Converted{2, 1}));
  rte_pktmbuf_free(m[0]);
  CU_ASSERT_TRUE((f.external->to_mbufs({&h[0], 1}, m) == Converted{}));  // ends behind
  h[1].meta |= Handle::more;
  EQUAL_FATAL(f.cache->alloc({&h[1], 2}, 40), 2u);
  chain(std::span(h).first(3));
  CU_ASSERT_TRUE((f.external->to_mbufs(h, std::span(m).first(7)) == Converted{21, 7}));
  CU_ASSERT_TRUE((f.external->to_mbufs(std::span(h).subspan(21), std::span(m).subspan(7)) ==
                  Converted{78 * 3, 78}));
  for (uint32_t i = 0; i < 85; i++) {
    EQUAL_FATAL(rte_pktmbuf_pkt_len(m[i]), 120u);
    EQUAL_FATAL(uint32_t{m[i]->nb_segs}, 3u);
    EQUAL_FATAL(rte_mbuf_check(m[i], 1, nullptr), 0);
    const rte_mbuf* s = m[i];
    for (uint32_t k = 0; k < 3; k++, s = s->next)
      CU_ASSERT_TRUE_FATAL(rte_pktmbuf_mtod(s, std::byte*) == f.arena.data(h[i * 3 + k]));
  }
  EQUAL(f.external->held(), 255u);
  const uint32_t before = f.cache->held();
  rte_pktmbuf_free_bulk(m.data(), 85);
  EQUAL(f.cache->held(), before + 255);  // not through the ring
  f.cache->free(std::span(h).subspan(255));
  f.external->leave();
  f.expect_all_back();
}

void shared_is_not_shown() {
  Field f(true);
  Handle h[2];
  rte_mbuf* m[2];
  EQUAL_FATAL(f.cache->alloc(h, 40), 2u);
  f.arena.share(h[1].index, 1);
  CU_ASSERT_TRUE((f.external->to_mbufs(h, m) == Converted{1, 1}));
  rte_pktmbuf_free(m[0]);
  f.cache->free_one(h[1]);
  CU_ASSERT_TRUE((f.external->to_mbufs({&h[1], 1}, m) == Converted{1, 1}));
  rte_pktmbuf_free(m[0]);
  f.expect_all_back();
}

void refused_mempools() {
  Field f;
  Mempool plain(rte_mempool_create("plain", 63, 512, 0, 0, nullptr, nullptr, nullptr, nullptr,
                                   SOCKET_ID_ANY, 0));
  CU_ASSERT_TRUE_FATAL(plain != nullptr);
  EQUAL(ExternalMbufs::create(*f.pool, *plain).error().code, EINVAL);
  EQUAL(MbufPool::over(*plain).error().code, EINVAL);
  EQUAL(MbufPool::over(*f.mbufs).error().code, EINVAL);  // no room for data
  const Mempool good = make_mempool("good", 2048);
  auto first = MbufPool::over(*good);
  CU_ASSERT_TRUE_FATAL(first.ok());
  EQUAL(MbufPool::over(*good).error().code, EBUSY);
  EQUAL(ExternalMbufs::create(first->pool(), *f.mbufs).error().code, EINVAL);
}

struct ExternalRun {
  Field f;
  Meeting meeting;
};

// With a cache of its own for the second half.
void free_external(ExternalRun& r) {
  BufferCache own(*r.f.pool);
  uint32_t n = 0;
  r.meeting.receive([&](rte_mbuf* m) {
    if (++n == r.meeting.packets / 2) r.f.external->serve(own);
    rte_pktmbuf_free(m);
  });
  r.f.external->leave();
}

void shown_to_another_lcore() {
  ExternalRun r;
  CU_ASSERT_TRUE_FATAL(r.meeting.ring != nullptr);
  std::thread other = another_lcore([&r] { free_external(r); });
  for (uint32_t sent = 0; sent < r.meeting.packets;) {
    Handle h;
    rte_mbuf* m;
    if (r.f.cache->alloc({&h, 1}, 60) == 0) continue;
    if (r.f.external->to_mbufs({&h, 1}, {&m, 1}).mbufs == 0) {
      r.f.cache->free_one(h);
      continue;
    }
    r.meeting.send(m);
    sent++;
  }
  other.join();
  r.f.expect_all_back();
}

const kilim::test::Case cases[] = {
    {"a handle's words and bytes are the mbuf's", words_and_bytes},
    {"packets of several pieces are shown whole, as far as mbufs last", segments_and_shortage},
    {"a buffer with several holders is not shown", shared_is_not_shown},
    {"mempools that do not do are refused", refused_mempools},
    {"another lcore frees what is shown", shown_to_another_lcore},
};

}  // namespace
}  // namespace mbuf_ut

KILIM_TEST_MAIN(mbuf) {
  return kilim::test::run_tables("pool mbuf", {mbuf_ut::cases, kilim::test::mbuf_pool_cases()},
                                 argc, argv);
}
