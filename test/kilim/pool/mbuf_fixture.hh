// SPDX-License-Identifier: BSD-3-Clause
// Real mempools of mbufs, and a second lcore to meet: a thread that registers as one, since the
// machine may have one processor only. Test only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <thread>

#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "eal.hh"
#include "ut.hh"

namespace kilim::test {

inline constexpr uint32_t mbuf_count = 255;

struct FreeMempool {
  void operator()(rte_mempool* m) const noexcept { rte_mempool_free(m); }
};
using Mempool = std::unique_ptr<rte_mempool, FreeMempool>;

inline Mempool make_mempool(const char* name, uint16_t room, uint16_t priv = 0,
                            uint32_t count = mbuf_count) {
  CU_ASSERT_TRUE_FATAL(start_eal());
  Mempool m(rte_pktmbuf_pool_create(name, count, 32, priv, room, SOCKET_ID_ANY));
  CU_ASSERT_TRUE_FATAL(m != nullptr);
  return m;
}

struct FreeRing {
  void operator()(rte_ring* r) const noexcept { rte_ring_free(r); }
};

// One lcore hands mbufs to the other, which frees them.
struct Meeting {
  std::unique_ptr<rte_ring, FreeRing> ring{
      rte_ring_create("meeting", 64, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ)};
  uint32_t packets = 5000;
  void send(rte_mbuf* m) const {
    while (rte_ring_enqueue(ring.get(), m) != 0) std::this_thread::yield();
  }
  template <typename Each>
  void receive(Each each) const {
    for (uint32_t i = 0; i < packets;) {
      void* m;
      if (rte_ring_dequeue(ring.get(), &m) == 0) {
        each(static_cast<rte_mbuf*>(m));
        i++;
      } else {
        std::this_thread::yield();
      }
    }
  }
};

// Runs `work` as an lcore of its own.
template <typename Work>
std::thread another_lcore(Work work) {
  return std::thread([work] {
    if (rte_thread_register() != 0 || rte_lcore_id() >= RTE_MAX_LCORE)
      rte_exit(1, "no second lcore\n");
    work();
    rte_thread_unregister();
  });
}

// The table of the program's other source.
std::span<const Case> mbuf_pool_cases();

}  // namespace kilim::test
