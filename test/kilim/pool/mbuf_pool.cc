// SPDX-License-Identifier: BSD-3-Clause
// A mempool of mbufs as pool and arena: what is sent from its place and what is not, where it goes
// back to, and another lcore that sends.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include <rte_mbuf.h>

#include "kilim/detail/pool/chain.hh"
#include "kilim/detail/pool/mbuf.hh"
#include "mbuf_fixture.hh"
#include "ut.hh"

namespace mbuf_pool_ut {
namespace {

using namespace kilim::pool;
using namespace kilim::test;

// A mempool in two pieces of memory that are far apart.
void memory_in_pieces() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  constexpr std::size_t piece = 1 << 16;
  alignas(4096) static std::byte memory[4 * piece];
  rte_pktmbuf_pool_private words{};
  words.mbuf_data_room_size = 2048;
  Mempool m(rte_mempool_create_empty("pieces", 40, sizeof(rte_mbuf) + 2048, 0, sizeof words,
                                     SOCKET_ID_ANY, 0));
  CU_ASSERT_TRUE_FATAL(m != nullptr);
  rte_pktmbuf_pool_init(m.get(), &words);
  CU_ASSERT_TRUE(rte_mempool_populate_iova(m.get(), reinterpret_cast<char*>(memory), RTE_BAD_IOVA,
                                           piece, nullptr, nullptr) > 0);
  CU_ASSERT_TRUE(rte_mempool_populate_iova(m.get(), reinterpret_cast<char*>(memory + 2 * piece),
                                           RTE_BAD_IOVA, piece, nullptr, nullptr) > 0);
  rte_mempool_obj_iter(m.get(), rte_pktmbuf_init, nullptr);
  EQUAL(MbufPool::over(*m).error().code, EINVAL);
}

void sent_and_freed() {
  for (const uint16_t priv : {uint16_t{0}, uint16_t{8}, uint16_t{64}}) {
    const Mempool mempool = make_mempool("sent", 2048 + RTE_PKTMBUF_HEADROOM, priv);
    auto made = MbufPool::over(*mempool);
    CU_ASSERT_TRUE_FATAL(made.ok());
    MbufPool& p = *made;
    BufferCache cache(p.pool());
    EQUAL(p.pool().size(), mbuf_count);
    EQUAL(p.pool().available(), mbuf_count);
    std::vector<rte_mbuf*> m(mbuf_count);
    EQUAL_FATAL(rte_pktmbuf_alloc_bulk(mempool.get(), m.data(), mbuf_count), 0);
    EQUAL(p.pool().available(), 0u);
    std::vector<Handle> h(mbuf_count);
    for (uint32_t i = 0; i < mbuf_count; i++)
      (void)rte_pktmbuf_append(m[i], static_cast<uint16_t>(1 + i));
    (void)rte_pktmbuf_adj(m[5], 3);
    CU_ASSERT_TRUE_FATAL((p.to_handles(m, h) == Converted{mbuf_count, mbuf_count}));
    for (uint32_t i = 0; i < mbuf_count; i++) {
      CU_ASSERT_TRUE_FATAL(p.arena().data(h[i]) == rte_pktmbuf_mtod(m[i], std::byte*));
      EQUAL_FATAL(uint32_t{h[i].length}, i == 5 ? 3 : i + 1);
      EQUAL_FATAL(tailroom(p.arena(), h[i]), uint32_t{rte_pktmbuf_tailroom(m[i])});
      const auto all = p.arena().memory();
      CU_ASSERT_TRUE_FATAL(p.arena().data(h[i]) >= all.data());
      CU_ASSERT_TRUE_FATAL(p.arena().data(h[i]) + h[i].length <= all.data() + all.size());
    }
    cache.free(std::span<const Handle>(h).first(200));
    EQUAL(cache.held(), 0u);
    for (uint32_t i = 200; i < mbuf_count; i++) cache.free_one(h[i]);
    EQUAL(rte_mempool_avail_count(mempool.get()), mbuf_count);
  }
}

void not_taken() {
  const Mempool mempool = make_mempool("mine", 2048), other = make_mempool("other", 2048);
  auto made = MbufPool::over(*mempool, RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM);
  CU_ASSERT_TRUE_FATAL(made.ok());
  rte_mbuf* m[3];
  Handle h[4];
  EQUAL_FATAL(rte_pktmbuf_alloc_bulk(mempool.get(), m, 2), 0);
  const auto takes = [&](uint32_t handles, uint32_t mbufs) {
    CU_ASSERT_TRUE((made->to_handles({m, 2}, h) == Converted{handles, mbufs}));
  };
  takes(0, 0);  // no data
  (void)rte_pktmbuf_append(m[0], 60);
  (void)rte_pktmbuf_append(m[1], 60);
  takes(2, 2);
  m[1]->ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
  takes(2, 2);
  m[1]->ol_flags |= RTE_MBUF_F_TX_UDP_CKSUM;
  takes(1, 1);
  m[1]->ol_flags = 0;
  m[2] = m[1];
  m[1] = rte_pktmbuf_alloc(other.get());
  (void)rte_pktmbuf_append(m[1], 60);
  takes(1, 1);
  rte_pktmbuf_free(m[1]);
  m[1] = rte_pktmbuf_clone(m[2], mempool.get());
  takes(1, 1);  // a clone's data lie elsewhere
  rte_pktmbuf_free(m[1]);
  m[1] = m[2];
  // Whoever has another reference keeps the mbuf.
  rte_mbuf_refcnt_update(m[1], 1);
  takes(2, 2);
  BufferCache cache(made->pool());
  cache.free({h, 2});
  EQUAL(rte_mempool_avail_count(mempool.get()), mbuf_count - 1);
  EQUAL(uint32_t{rte_mbuf_refcnt_read(m[1])}, 1u);
  rte_pktmbuf_free(m[1]);
  EQUAL(rte_mempool_avail_count(mempool.get()), mbuf_count);
}

void chains_there_and_back() {
  const Mempool mempool = make_mempool("chains", 256);
  auto made = MbufPool::over(*mempool);
  CU_ASSERT_TRUE_FATAL(made.ok());
  BufferCache cache(made->pool());
  rte_mbuf* m[3];
  EQUAL_FATAL(rte_pktmbuf_alloc_bulk(mempool.get(), m, 3), 0);
  for (rte_mbuf* s : m) (void)rte_pktmbuf_append(s, 100);
  EQUAL(rte_pktmbuf_chain(m[0], m[1]), 0);
  EQUAL(rte_pktmbuf_chain(m[0], m[2]), 0);
  Handle h[3];
  CU_ASSERT_TRUE((made->to_handles({m, 1}, std::span(h).first(2)) == Converted{}));
  CU_ASSERT_TRUE((made->to_handles({m, 1}, h) == Converted{3, 1}));
  EQUAL(first_packet(std::span<Handle>(h)).size(), 3);
  EQUAL(packet_length(h), 300);
  cache.free(h);
  EQUAL(rte_mempool_avail_count(mempool.get()), mbuf_count);
  // Received: out of the mempool by the cache, on as mbufs.
  EQUAL_FATAL(cache.alloc(h, 90), 3u);
  for (Handle& one : h) one.meta = meta_at(10);
  chain(std::span(h).first(2));
  rte_mbuf* got[3];
  CU_ASSERT_TRUE((made->to_mbufs(h, got) == Converted{3, 2}));
  EQUAL(rte_pktmbuf_pkt_len(got[0]), 180u);
  EQUAL(uint32_t{got[0]->nb_segs}, 2u);
  EQUAL(rte_pktmbuf_headroom(got[1]), 10u);
  EQUAL(rte_mbuf_check(got[0], 1, nullptr), 0);
  EQUAL(rte_mbuf_check(got[1], 1, nullptr), 0);
  rte_pktmbuf_free_bulk(got, 2);
  EQUAL(rte_mempool_avail_count(mempool.get()), mbuf_count);
  // All but the odd ones, and no more than there are.
  std::vector<Handle> all(400);
  EQUAL(cache.alloc(all, 60), mbuf_count);
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < mbuf_count; i++) indices.push_back(all[i].index);
  std::sort(indices.begin(), indices.end());
  CU_ASSERT_TRUE(std::unique(indices.begin(), indices.end()) == indices.end());
  cache.free(std::span(all).first(mbuf_count));
  EQUAL(rte_mempool_avail_count(mempool.get()), mbuf_count);
}

struct PoolRun {
  Mempool mempool = make_mempool("two_lcores", 512);
  std::optional<MbufPool> pool{*MbufPool::over(*mempool)};
  Meeting meeting;
};

// As a transmit queue's worker: packets become handles, which are freed when they were sent.
void free_handles(PoolRun& r) {
  BufferCache cache(r.pool->pool());
  std::vector<Handle> sent;
  r.meeting.receive([&](rte_mbuf* m) {
    Handle h[2];
    const Converted c = r.pool->to_handles({&m, 1}, h);
    if (c.mbufs != 1) rte_exit(1, "an mbuf was not taken\n");
    sent.insert(sent.end(), h, h + c.handles);
    if (sent.size() < 32) return;
    cache.free(sent);
    sent.clear();
  });
  cache.free(sent);
}

void sent_by_another_lcore() {
  PoolRun r;
  std::thread other = another_lcore([&r] { free_handles(r); });
  for (uint32_t sent = 0; sent < r.meeting.packets;) {
    rte_mbuf* m = rte_pktmbuf_alloc(r.mempool.get());
    if (m == nullptr) {
      std::this_thread::yield();
      continue;
    }
    (void)rte_pktmbuf_append(m, 60);
    r.meeting.send(m);
    sent++;
  }
  other.join();
  EQUAL(rte_mempool_avail_count(r.mempool.get()), mbuf_count);
}

const Case of_pools[] = {
    {"a mempool in pieces is refused", memory_in_pieces},
    {"mbufs are sent where they lie and freed to their mempool", sent_and_freed},
    {"what cannot be sent from its place is not taken", not_taken},
    {"chains and received packets go there and back", chains_there_and_back},
    {"another lcore sends a mempool's mbufs", sent_by_another_lcore},
};

}  // namespace
}  // namespace mbuf_pool_ut

std::span<const kilim::test::Case> kilim::test::mbuf_pool_cases() {
  return mbuf_pool_ut::of_pools;
}
