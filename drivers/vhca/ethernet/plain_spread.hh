// SPDX-License-Identifier: BSD-3-Clause
// One frame of several of one shape (describe.hh) that a hash spreads: into the next receive WQE of
// its queue, with what is the same in the completions of all made once. Owner: one row of frames;
// adapter's lock held. Never allocates. Frames and WQEs are untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <emmintrin.h>

#include "kilim/base/be.hh"
#include "kilim/prm/cqe.hh"
#include "vhca/ethernet/describe.hh"
#include "vhca/ethernet/plain_place.hh"
#include "vhca/ethernet/plain_taking.hh"
#include "vhca/memory/dma_fours.hh"

namespace kilim::vhca {

// What the completions of such frames have in common.
struct SpreadWords {
  __m128i second;  // bytes 16 to 31: the kind of hash, sums and types
  uint32_t bytes;  // as it lies there
};
[[nodiscard]] inline SpreadWords words_of_spread(FrameWords words, uint8_t hash_type,
                                                 std::size_t bytes) noexcept {
  alignas(16) prm::Cqe like{};
  like.rx_hash_type = hash_type;
  like.hds_ip_ext = words.ok;
  like.l4_hdr_type_etc = words.type;
  return {_mm_load_si128(reinterpret_cast<const __m128i*>(&like) + 1),
          be32{static_cast<uint32_t>(bytes)}.raw()};
}

// `hash`: as it lies in a completion. False: it is not plain, and nothing but bytes behind an
// unused WQE has changed.
[[gnu::always_inline]] inline bool take_spread(const EngineContext& context, Taking& t,
                                               std::span<const std::byte> frame,
                                               const SpreadWords& words, uint32_t hash) noexcept {
  if (t.ci == t.end) [[unlikely]]
    return false;
  uint64_t to = find_alike_place(t, frame.size());
  if (to == 0) [[unlikely]] {
    to = learn_place(context, t, frame.size());
    if (to == 0) return false;
  }
  if (!copy_to_client(to, frame.data(), frame.size())) return false;
  constexpr unsigned counter_at =
      8 * (offsetof(prm::Cqe, wqe_counter) - offsetof(prm::Cqe, sop_drop_qpn));
  const dma::HashedEntry entry{words.second,
                               _mm_load_si128(reinterpret_cast<const __m128i*>(&t.entry) + 2),
                               t.entry.timestamp.raw(), hash, words.bytes};
  if (!dma::give_hashed_entry(t.slot, entry, t.last | uint64_t{be16{t.ci}.raw()} << counter_at))
    return false;
  t.slot += sizeof(prm::Cqe);
  t.ci++;
  return true;
}

}  // namespace kilim::vhca
