// SPDX-License-Identifier: BSD-3-Clause
// Adapter's lock held. Never allocates. Frames and WQEs are untrusted. One loop with everything in
// line, as what is known of the row fills the registers; it is there for small frames and for all.
#include "vhca/ethernet/plain_spread.hh"

#include <array>
#include <cstdint>

#include "vhca/ethernet/plain_place.hh"
#include "vhca/memory/dma_fours.hh"

namespace kilim::vhca {

namespace {

// What the completions of all have in common: their bytes 16 to 31, kind of hash, sums and types.
__m128i words_of_spread(uint8_t type, uint8_t hash_type) noexcept {
  alignas(16) prm::Cqe like{};
  like.rx_hash_type = hash_type;
  like.hds_ip_ext = all_sums_ok;
  like.l4_hdr_type_etc = type;
  return _mm_load_si128(reinterpret_cast<const __m128i*>(&like) + 1);
}

// Of 32 to 64 bytes, and one group of 16 whose sum is looked at (CoveredWords).
constexpr bool small(std::size_t bytes, const CoveredWords& covered) noexcept {
  return bytes - 32 <= 32 && covered.sixteens == 1;
}

template <bool Small>
[[gnu::always_inline]] inline bool copy_one(uint64_t to, const std::byte* frame,
                                            std::size_t bytes) noexcept {
  if constexpr (Small) return dma::move_32_to_64(to, reinterpret_cast<uint64_t>(frame), bytes);
  return copy_to_client(to, frame, bytes);
}

// One frame into the next receive WQE of its queue. `hash`: as it lies in a completion. False: it
// is not plain, and nothing but bytes behind an unused WQE has changed.
template <bool Small>
[[gnu::always_inline]] inline bool take_one(const EngineContext& context, Taking& t,
                                            const std::byte* frame, std::size_t bytes,
                                            __m128i second, uint32_t hash) noexcept {
  if (t.wqe == t.wqes_end) [[unlikely]] {
    if (!next_run(t)) return false;
  }
  uint64_t to = find_alike_place(t);
  if (to == 0) [[unlikely]] {
    to = learn_place(context, t, bytes);
    if (to == 0) return false;
  }
  if (!copy_one<Small>(to, frame, bytes)) return false;
  if (!dma::give_hashed_entry(t.slot, {second, t.third, t.stamp, hash}, t.last)) return false;
  t.slot += sizeof(prm::Cqe);
  t.step();
  return true;
}

template <bool Small>
std::size_t take_fours(FrameRing::Reader& in, Row& row, const SpreadFrames& s, std::size_t budget,
                       uint8_t hash_type) noexcept {
  Qp* const* const queues = s.tir.table->queues.data();
  const std::size_t mask = s.tir.table->queues.size() - 1, bytes = s.shape.frame_bytes();
  const std::size_t step = FrameRing::Reader::step_of(bytes);
  const bool ports = hash_type != prm::cqe::hash_ipv4;
  const __m128i second = words_of_spread(s.shape.shape().type, hash_type);
  alignas(16) std::array<uint32_t, 4> hashes, raw;  // numbers, and as they lie in a completion
  std::size_t taken = 0;
  while (budget - taken >= 4) {
    const std::byte* frame = in.four(static_cast<uint32_t>(bytes), step);
    if (frame == nullptr || !s.shape.is_that_of_four(frame, step) ||
        !sums_of_four_are_right<Small>(frame, step, s.covered))
      break;
    s.tir.toeplitz.hash_four({frame + ipv4_frame::addresses_at, step, ports}, hashes, raw);
    unsigned n = 0;
#pragma GCC unroll 4
    for (; n < 4; n++, frame += step) {
      Taking* t = taking_of(row, *queues[hashes[n] & mask]);
      if (t == nullptr || !take_one<Small>(row.context, *t, frame, bytes, second, raw[n])) break;
    }
    in.pop_rows(n, step);
    taken += n;
    if (n != 4) break;
  }
  return taken;
}

}  // namespace

std::size_t take_spread(FrameRing::Reader& in, Row& row, const SpreadFrames& s,
                        std::size_t budget) noexcept {
  uint8_t type;
  if (!hashes_all_udp(s.tir, type)) return 0;
  if (row.alike_bytes != s.shape.frame_bytes()) {
    row.alike_bytes = s.shape.frame_bytes();
    for (Taking& t : row.taken()) t.alike.limit = 0;
  }
  return small(row.alike_bytes, s.covered) ? take_fours<true>(in, row, s, budget, type)
                                           : take_fours<false>(in, row, s, budget, type);
}

}  // namespace kilim::vhca
