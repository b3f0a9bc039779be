// SPDX-License-Identifier: BSD-3-Clause
// A port whose buffers are a mempool's mbufs, and one of our pool, at the ends of a cable: mbufs go
// out and come in where they lie, and show our buffers on the other side. Every buffer of both
// comes back.
#include <cstring>
#include <vector>

#include <rte_mbuf.h>

#include "kilim/detail/pool/mbuf.hh"
#include "traffic_fixture.hh"
#include "ut.hh"

namespace traffic_mbufs_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

constexpr uint32_t mbuf_count = 1023;

struct FreeMempool {
  void operator()(rte_mempool* m) const noexcept { rte_mempool_free(m); }
};
using Mempool = std::unique_ptr<rte_mempool, FreeMempool>;

Mempool make_mempool(const char* name, uint16_t room) {
  Mempool m(rte_pktmbuf_pool_create(name, mbuf_count, 32, 0, room, SOCKET_ID_ANY));
  CU_ASSERT_TRUE_FATAL(m != nullptr);
  return m;
}

struct Sides {
  TwoPorts t{1024};  // `far` uses its pool, `near` the mempool
  Mempool mempool = make_mempool("near", RTE_MBUF_DEFAULT_BUF_SIZE);
  Mempool shells = make_mempool("shells", 0);
  pool::MbufPool mbufs = *pool::MbufPool::over(*mempool);
  pool::BufferCache near_cache{mbufs.pool()};
  std::unique_ptr<pool::ExternalMbufs> external = *pool::ExternalMbufs::create(t.pool, *shells);

  Sides() {
    CU_ASSERT_TRUE_FATAL(t.start(*t.far, {.rxd = 128, .txd = 128}).ok());
    CU_ASSERT_TRUE_FATAL(t.near->configure({.rxd = 128, .txd = 128}, mbufs.arena()).ok());
    CU_ASSERT_TRUE_FATAL(t.near->set_rx(0, {.cache = &near_cache, .head_lines = 2}).ok());
    CU_ASSERT_TRUE_FATAL(t.near->set_tx(0, {.cache = &near_cache}).ok());
    CU_ASSERT_TRUE_FATAL(t.near->start().ok());
    external->serve(*t.cache);
  }
  // The mbuf goes out as it is; true: the port took it.
  bool send(rte_mbuf* m) {
    Handle h;
    CU_ASSERT_TRUE_FATAL(mbufs.to_handles({&m, 1}, {&h, 1}).mbufs == 1);
    return t.near->tx(0, {&h, 1}) == 1;
  }
  // What arrived at the far end, as an mbuf; nullptr: nothing did.
  rte_mbuf* receive() {
    Handle h;
    rte_mbuf* m = nullptr;
    if (t.far->rx(0, {&h, 1}) == 1)
      CU_ASSERT_TRUE_FATAL(external->to_mbufs({&h, 1}, {&m, 1}).mbufs == 1);
    return m;
  }
  // The buffer that an mbuf shows goes back over the cable.
  void answer(rte_mbuf* m) {
    Handle h;
    EQUAL_FATAL(t.cache->alloc({&h, 1}, static_cast<uint16_t>(m->data_len)), 1u);
    std::memcpy(t.memory.arena().data(h), rte_pktmbuf_mtod(m, void*), m->data_len);
    rte_pktmbuf_free(m);
    EQUAL_FATAL(t.far->tx(0, {&h, 1}), 1u);
  }
  rte_mbuf* receive_answer() {
    Handle h;
    rte_mbuf* m = nullptr;
    if (t.near->rx(0, {&h, 1}) == 1)
      CU_ASSERT_TRUE_FATAL(mbufs.to_mbufs({&h, 1}, {&m, 1}).mbufs == 1);
    return m;
  }
};

bool holds(const rte_mbuf* m, const Frame& f) {
  return m->pkt_len == f.size() &&
         std::memcmp(rte_pktmbuf_mtod(m, const void*), f.data(), f.size()) == 0;
}

void there_and_back() {
  const std::vector<Frame> frames = make_frames(1500, 8);
  Sides s;
  uint32_t wrong = 0, back = 0;
  for (const Frame& f : frames) {
    rte_mbuf* m = rte_pktmbuf_alloc(s.mempool.get());
    CU_ASSERT_TRUE_FATAL(m != nullptr);
    std::memcpy(rte_pktmbuf_append(m, static_cast<uint16_t>(f.size())), f.data(), f.size());
    CU_ASSERT_TRUE_FATAL(s.send(m));
    rte_mbuf *seen = nullptr, *answer = nullptr;
    for (int i = 0; i < 100 && seen == nullptr; i++) {
      s.t.run_devices();
      seen = s.receive();
    }
    CU_ASSERT_TRUE_FATAL(seen != nullptr);
    wrong += holds(seen, f) ? 0 : 1;
    s.answer(seen);
    for (int i = 0; i < 100 && answer == nullptr; i++) {
      s.t.run_devices();
      answer = s.receive_answer();
    }
    CU_ASSERT_TRUE_FATAL(answer != nullptr);
    wrong += holds(answer, f) && rte_pktmbuf_headroom(answer) == 128 ? 0 : 1;
    rte_pktmbuf_free(answer);
    s.t.near->reclaim(0);
    s.t.far->reclaim(0);
    back++;
  }
  EQUAL(back, frames.size());
  EQUAL(wrong, 0u);
  s.t.near->stop();
  s.t.far->stop();
  EQUAL(s.external->held(), 0u);
  EQUAL(s.t.out(), 0u);
  EQUAL(rte_mempool_avail_count(s.mempool.get()), mbuf_count);
  EQUAL(rte_mempool_avail_count(s.shells.get()), mbuf_count);
  s.t.near->unconfigure();
}

const Case of_mbufs[] = {
    {"mbufs go out and come in where they lie, and show our buffers", there_and_back},
};

}  // namespace
}  // namespace traffic_mbufs_ut

std::span<const kilim::test::Case> kilim::test::mbuf_cases() {
  return traffic_mbufs_ut::of_mbufs;
}
