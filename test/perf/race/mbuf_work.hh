// SPDX-License-Identifier: BSD-3-Clause
// What an application does with a burst of mbufs, between the two functions of an ethdev. The same
// code for net_kilim, net_mlx5 and drivers for context. One thread.
#pragma once

#include <cstdint>
#include <cstring>

#include <rte_mbuf.h>

#include "perf/race/racers.hh"

namespace kilim::race {

// Two functions of an ethdev, and their queues.
struct MbufBursts {
  uint16_t (*receive)(void*, rte_mbuf**, uint16_t);
  void* rx;
  uint16_t (*send)(void*, rte_mbuf**, uint16_t);
  void* tx;
  rte_mbuf* packets[burst_packets];
  rte_mbuf* held[burst_packets];  // of the burst before, with a reference each
  uint16_t held_packets = 0;
  rte_mempool* pool = nullptr;  // of segments behind the first
};

// l2_len, l3_len, l4_len, tso_segsz of a TCP packet, as they lie in an mbuf.
constexpr uint64_t tcp_lengths(bool tso) noexcept {
  constexpr uint64_t l2 = 14, l3 = 20, l4 = 20;
  return l2 | l3 << RTE_MBUF_L2_LEN_BITS | l4 << (RTE_MBUF_L2_LEN_BITS + RTE_MBUF_L3_LEN_BITS) |
         (tso ? uint64_t{segment_size}
                    << (RTE_MBUF_L2_LEN_BITS + RTE_MBUF_L3_LEN_BITS + RTE_MBUF_L4_LEN_BITS)
              : 0);
}
constexpr uint64_t asked_flags(Ask a) noexcept {
  constexpr uint64_t sums = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_TCP_CKSUM;
  if (a == Ask::tag || a == Ask::tags) return RTE_MBUF_F_TX_VLAN;
  return a == Ask::tso ? sums | RTE_MBUF_F_TX_TCP_SEG : sums;
}

template <Work W>
[[gnu::always_inline]] inline void ask_mbuf(rte_mbuf& m, uint32_t i) noexcept {
  m.ol_flags |= asked_flags(W.ask);
  if constexpr (W.ask == Ask::tag || W.ask == Ask::tags)
    m.vlan_tci = static_cast<uint16_t>(first_tag + (W.ask == Ask::tags ? i : 0));
  else
    m.tx_offload = tcp_lengths(W.ask == Ask::tso);
}

// Puts fresh mbufs behind each packet. False: there are none.
template <Work W>
[[gnu::always_inline]] inline bool add_tails(MbufBursts& b, uint16_t n) noexcept {
  constexpr uint32_t more = W.segments - 1;
  rte_mbuf* tails[more * burst_packets];
  if (rte_pktmbuf_alloc_bulk(b.pool, tails, more * n) != 0) return false;
  rte_mbuf* const* next = tails;
  for (uint16_t i = 0; i < n; i++) {
    rte_mbuf* last = b.packets[i];
    last->nb_segs = W.segments;
    last->pkt_len += more * tail_bytes;
    for (uint32_t k = 0; k < more; k++) {
      rte_mbuf* const t = *next++;
      t->data_len = tail_bytes;
      last->next = t;
      last = t;
    }
  }
  return true;
}

inline uint64_t read_mbufs(rte_mbuf* const* packets, uint16_t n) noexcept {
  uint64_t total = 0;
  for (uint16_t i = 0; i < n; i++) {
    const rte_mbuf& m = *packets[i];
    uint32_t to;
    std::memcpy(&to, rte_pktmbuf_mtod_offset(&m, const char*, ipv4_destination), sizeof to);
    total += to ^ m.hash.rss;
    total += m.packet_type + m.pkt_len + (m.ol_flags & sums_good);
  }
  return total;
}

// The references of the burst before go when this one was sent.
inline void hold_mbufs(MbufBursts& b, uint16_t n) noexcept {
  rte_pktmbuf_free_bulk(b.held, b.held_packets);
  std::memcpy(b.held, b.packets, n * sizeof b.packets[0]);
  b.held_packets = n;
}

template <Work W>
[[gnu::always_inline]] inline uint32_t forward_mbufs(MbufBursts& b) {
  const uint16_t n = b.receive(b.rx, b.packets, burst_packets);
  if constexpr (W.job == Job::mac) {
    for (uint16_t i = 0; i < n; i++)
      std::memcpy(rte_pktmbuf_mtod(b.packets[i], void*), new_addresses.both,
                  sizeof new_addresses.both);
  }
  if constexpr (W.job == Job::read) sink = read_mbufs(b.packets, n);
  if constexpr (W.ask != Ask::nothing) {
    for (uint16_t i = 0; i < n; i++)
      if (asks(W.ask, i)) ask_mbuf<W>(*b.packets[i], i);
  }
  if constexpr (W.segments > 1)
    if (!add_tails<W>(b, n)) return 0;
  if constexpr (W.held) {
    for (uint16_t i = 0; i < n; i++) rte_mbuf_refcnt_update(b.packets[i], 1);
  }
  const uint32_t sent = b.send(b.tx, b.packets, n);
  if constexpr (W.held) hold_mbufs(b, n);
  return sent;
}

}  // namespace kilim::race
