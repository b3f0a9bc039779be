// SPDX-License-Identifier: BSD-3-Clause
#include "net/kilim/mbuf_blocks.hh"

#include <algorithm>
#include <cstring>

#include "net/kilim/mbuf_fours.hh"
#include "net/kilim/mbuf_words.hh"

namespace kilim::net {
namespace {

// Describes all packets of a block by its title, as it would describe one by itself.
[[gnu::always_inline]] inline rte_mbuf described(const MbufRx& q, const prm::Cqe& title) noexcept {
  rte_mbuf m;
  write_mbuf<true>(q, {q.rearm, q.base_flags}, m, title);
  return m;
}

// The packet of one mini.
[[gnu::always_inline]] inline uint32_t take_mini(const BlockWords& w, const prm::MiniCqe& mini,
                                                 rte_mbuf& m) noexcept {
  const uint32_t hash = w.mini_hash ? mini.result.host() : 0;
  const auto length = static_cast<uint16_t>(mini.byte_cnt.host());
  std::memcpy(&m.rearm_data, &w.rearm, sizeof w.rearm);
  m.ol_flags = w.flags | (hash != 0 ? burst::hash_flag : 0u);
  m.packet_type = w.type;
  m.pkt_len = length;
  m.data_len = length;
  m.vlan_tci = w.vlan;
  m.hash.rss = hash;
  return length;
}

// Takes `n` packets of a block from number `first` on, as fours of minis that share an entry where
// there is place for as many, else one by one; returns their bytes. What lies behind the last one
// in its four is written too, to `out` and mbufs that the device has, and is no packet. `want`:
// places of `out`.
[[gnu::always_inline]] inline uint64_t take_minis(const MbufRx& q, const BlockWords& words,
                                                  uint32_t n, rte_mbuf** out,
                                                  uint32_t want) noexcept {
  const uint32_t first = q.block_done;
  uint64_t bytes = 0;
  uint32_t i = 0;
#if defined(__SSE4_1__)
  const uint32_t at = q.ci & q.mask, to_end = q.mask + 1 - at, posted = q.pi - q.ci;
  const uint32_t places = std::min({want, to_end, posted});
  const BlockFours fours(words);
  __m128i sum = _mm_setzero_si128();
#endif
  while (i < n) {
    const prm::MiniCqe* mini = &q.cq->mini(first + i);
#if defined(__SSE4_1__)
    if ((first + i) % 4 == 0 && i + 4 <= places) {
      do {  // at most both fours of the entry
        sum = _mm_add_epi32(sum, fours.take(mini, q.mbufs + at + i, out + i));
        mini += 4;
        i += 4;
      } while ((first + i) % 8 != 0 && i < n && i + 4 <= places);
      continue;
    }
#endif
    out[i] = q.mbufs[(q.ci + i) & q.mask];
    bytes += take_mini(words, *mini, *out[i]);
    i++;
  }
#if defined(__SSE4_1__)
  bytes += static_cast<uint32_t>(_mm_extract_epi32(sum, 1));
#endif
  while (i-- > n) bytes -= out[i]->pkt_len;
  return bytes;
}

// Writes what each packet of a block has besides, where its title says so.
[[gnu::noinline]] void write_extra_of_block(const MbufRx& q, const prm::Cqe& title, uint32_t mark,
                                            rte_mbuf* const* out, uint32_t n) noexcept {
  for (uint32_t i = 0; i < n; i++) {
    out[i]->hash.fdir.hi = mark;
    if (q.stamp_offset >= 0)
      *RTE_MBUF_DYNFIELD(out[i], q.stamp_offset, rte_mbuf_timestamp_t*) = title.timestamp.host();
  }
}

}  // namespace

uint16_t take_block(MbufRx& q, const prm::Cqe& title, rte_mbuf** out, uint32_t want) noexcept {
  const uint32_t count = queue::Cq::completions(title), first = q.block_done;
  const uint32_t left = count - first, n = left < want ? left : want;
  q.cq->prefetch_minis(count);
  const rte_mbuf like = described(q, title);
  const BlockWords words{q.rearm, like.ol_flags & ~uint64_t{burst::hash_flag}, like.packet_type,
                         like.vlan_tci, q.mini_hash};
  const uint64_t bytes = take_minis(q, words, n, out, want);
  if (!q.mini_hash && first == 0 && n != 0) {  // the title's own packet
    out[0]->hash.rss = like.hash.rss;
    out[0]->ol_flags = like.ol_flags;
  }
  const bool marked = (like.ol_flags & RTE_MBUF_F_RX_FDIR) != 0;
  if (marked || q.stamp_offset >= 0)
    write_extra_of_block(q, title, marked ? like.hash.fdir.hi : 0, out, n);
  q.ci += n;
  q.counts->packets.add(n);
  q.counts->bytes.add(bytes);
  q.block_done = first + n;
  if (q.block_done < count) return static_cast<uint16_t>(n);
  q.cq->consume_block(count);
  q.counts->compressed.add(count);
  q.block_done = 0;
  return static_cast<uint16_t>(n);
}

}  // namespace kilim::net
