// SPDX-License-Identifier: BSD-3-Clause
// Transmit of packets of one buffer each whose words ask for checksums or a tag, in rows: the same
// WQEs as one by one (burst/tx_packet.hh), and the same packets a multi-packet WQE where all of
// them ask for the same checksums (DPDK mlx5_tx.h, mlx5_tx_match_empw()). Owner: the queue's
// worker. For processors with SSE4.1; others take each packet by itself.
#pragma once

#if defined(__SSE4_1__)

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <immintrin.h>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/burst/simd.hh"
#include "kilim/detail/burst/tx_packet.hh"
#include "kilim/detail/burst/tx_queue.hh"
#include "kilim/detail/burst/tx_row.hh"
#include "kilim/detail/pool/handle.hh"
#include "kilim/detail/queue/eth_row.hh"
#include "kilim/prm/eth_seg.hh"

namespace kilim::inline v1::burst::detail {

// From a handle's flag Handle::offload to the sign of its lane.
inline constexpr int asks_to_sign = 63 - 48 - 2;
static_assert(pool::Handle::offload == 1u << 2);

// How many packets at the front of `in`, which is not empty, ask for something as the first does,
// or for nothing as it.
inline uint32_t alike(std::span<const pool::Handle> in) noexcept {
  const bool asks = in[0].has(pool::Handle::offload);
  const int all = asks ? 3 : 0;
  uint32_t n = 0;
  for (; n + 2 <= in.size(); n += 2) {
    const __m128i two = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&in[n]));
    if (_mm_movemask_pd(_mm_castsi128_pd(_mm_slli_epi64(two, asks_to_sign))) != all) break;
  }
  while (n < in.size() && in[n].has(pool::Handle::offload) == asks) n++;
  return n;
}
KILIM_AVX2 inline uint32_t alike_avx2(std::span<const pool::Handle> in) noexcept {
  const bool asks = in[0].has(pool::Handle::offload);
  const int all = asks ? 15 : 0;
  uint32_t n = 0;
  for (; n + 4 <= in.size(); n += 4) {
    const __m256i four = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(&in[n]));
    if (_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_slli_epi64(four, asks_to_sign))) != all)
      break;
  }
  while (n < in.size() && in[n].has(pool::Handle::offload) == asks) n++;
  return n;
}

// Words of packets as numbers, and the Ethernet segments that they ask for.
class Words {
 public:
  explicit Words(const TxQueue& q) noexcept
      : sides_(q.arena.sides()),
        checksums_(q.offer.checksums),
        always_(q.offload),
        others_(q.offer.tags ? mss : mss | tag) {}

  [[nodiscard]] uint64_t of(pool::Handle h) const noexcept {
    uint64_t w;
    std::memcpy(&w, &sides_[h.index].tx, sizeof w);
    return w;
  }
  // What needs a WQE of another form.
  [[nodiscard]] uint64_t others(uint64_t word) const noexcept { return word & others_; }
  // Nothing but checksums, which a WQE of many packets can have.
  [[nodiscard]] static bool shares(uint64_t word) noexcept { return (word & (mss | tag)) == 0; }
  [[nodiscard]] uint8_t checksums(uint64_t word) const noexcept {
    return static_cast<uint8_t>((word & checksums_) | always_);
  }
  // The Ethernet segment of a WQE of one packet.
  [[nodiscard]] __m128i segment(uint64_t word) const noexcept {
    const uint64_t first = uint64_t{checksums(word)} << 32;
    const __m128i untagged = _mm_cvtsi64_si128(static_cast<long long>(first));
    if ((word & tag) == 0) return untagged;
    // inline_hdr_sz and inline_hdr_start, the last four bytes: kind of the tag, then the TCI.
    constexpr uint32_t insert = be16{prm::eth::insert_vlan}.raw();
    const uint32_t kind = insert | ((static_cast<uint32_t>(word) & service) >> 1);
    const uint32_t last = be32{static_cast<uint32_t>(word)}.raw() << 16 | kind;
    return _mm_insert_epi32(untagged, static_cast<int>(last), 3);
  }

 private:
  // Fields of a TxWord in the number.
  static constexpr uint64_t tag = uint64_t{0xff} << 8, mss = uint64_t{0xffff} << 32;
  static_assert(offsetof(pool::TxWord, tag) == 1 && offsetof(pool::TxWord, tci) == 2 &&
                offsetof(pool::TxWord, mss) == 4);
  // The kind "service" is twice the bit that the segment has for it.
  static constexpr uint32_t service = static_cast<uint32_t>(pool::VlanTag::service) << 8;
  static_assert(service >> 1 == be16{prm::eth::svlan}.raw());

  const pool::SideRecord* sides_;
  uint64_t checksums_;
  uint64_t always_;
  uint64_t others_;
};

// How many packets at the front of `in`, all of which ask, can share a WQE; 1: the first cannot.
inline uint32_t sharing(const Words& words, std::span<const pool::Handle> in) noexcept {
  const uint64_t first = words.of(in[0]);
  uint32_t n = 1;
  if (!Words::shares(first)) return n;
  while (n < in.size() && words.of(in[n]) == first) n++;
  return n;
}
// How many packets at the front, at least one, have a WQE of their own, although others share.
inline uint32_t alone(const Words& words, std::span<const pool::Handle> in) noexcept {
  uint64_t word = words.of(in[0]);
  uint32_t n = 1;
  for (; n < in.size(); n++) {
    const uint64_t next = words.of(in[n]);
    if (!Words::shares(next)) continue;
    if (next == word) return n > 1 ? n - 1 : n;
    word = next;
  }
  return n;
}

// Appends like append_row(), a WQE a packet, each with what its word asks for. Returns the bytes of
// all; 0: one of them is empty or asks for what needs another form, and nothing has been appended.
[[gnu::always_inline]] inline uint64_t append_asking_row(queue::WqeCursor& c, const RowShape& shape,
                                                         const Words& words,
                                                         std::span<const pool::Handle> in,
                                                         pool::Handle* sent) noexcept {
  const Segments segments(*shape.arena, shape.key);
  queue::EthRow row(c, shape.offload, shape.flags);
  Lengths lengths;
  uint64_t others = 0;
  const auto segment = [&words, &others](pool::Handle h) noexcept {
    const uint64_t word = words.of(h);
    others |= words.others(word);
    return words.segment(word);
  };
  std::size_t i = 0;
  for (; i + 2 <= in.size(); i += 2) {
    const __m128i two = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&in[i]));
    const __m128i heads = segments.heads(two), addresses = segments.addresses(two);
    row.put(_mm_unpacklo_epi64(heads, addresses), segment(in[i]));
    row.put(_mm_unpackhi_epi64(heads, addresses), segment(in[i + 1]));
    lengths.add(two);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(sent + i), two);
  }
  if (i != in.size()) {
    const __m128i one = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(&in[i]));
    const __m128i twice = _mm_unpacklo_epi64(one, one);
    row.put(_mm_unpacklo_epi64(segments.heads(twice), segments.addresses(twice)), segment(in[i]));
    sent[i] = in[i];
    lengths.add(one, twice);
  }
  if (others != 0 || lengths.any_empty()) return 0;
  row.close(c, static_cast<uint32_t>(in.size()));
  return lengths.bytes();
}

}  // namespace kilim::inline v1::burst::detail

#endif
