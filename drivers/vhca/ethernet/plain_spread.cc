// SPDX-License-Identifier: BSD-3-Clause
// Adapter's lock held. Never allocates. Frames and WQEs are untrusted. One loop with everything in
// line; it is there for the shortest frames and for all, and without products.
#include "vhca/ethernet/plain_spread.hh"

#include <algorithm>
#include <array>
#include <cstdint>

#include "vhca/ethernet/plain_place.hh"
#include "vhca/ethernet/toeplitz_products.hh"
#include "vhca/memory/dma_fours.hh"

namespace kilim::vhca::ethernet {

namespace {

// What the completions of all have in common: their bytes 16 to 31, kind of hash, sums and types.
__m128i words_of_spread(uint8_t type, uint8_t hash_type) noexcept {
  alignas(16) prm::Cqe like{};
  like.rx_hash_type = hash_type;
  like.hds_ip_ext = all_sums_ok;
  like.l4_hdr_type_etc = type;
  return _mm_load_si128(reinterpret_cast<const __m128i*>(&like) + 1);
}

// Frames whose bytes and sums are looked at in the fewest instructions, and all others.
struct ShortFrames {
  using Covered = ShortCovered;
  static Covered covered_by(const SpreadFrames& s) noexcept {
    return short_words_of(s.shape.shape());
  }
  [[gnu::always_inline]] static bool copy(uint64_t to, const std::byte* frame,
                                          std::size_t bytes) noexcept {
    return memory::dma::move_32_to_64(to, reinterpret_cast<uint64_t>(frame), bytes);
  }
};
struct AnyFrames {
  using Covered = CoveredWords;
  static Covered covered_by(const SpreadFrames& s) noexcept { return s.covered; }
  [[gnu::always_inline]] static bool copy(uint64_t to, const std::byte* frame,
                                          std::size_t bytes) noexcept {
    return copy_to_client(to, frame, bytes);
  }
};

struct FourHashes {
  alignas(16) std::array<uint32_t, 4> value, raw;  // numbers, and as they lie in a completion
};

// How they are hashed: both addresses, and both ports if those count too.
struct ByTables {
  const Toeplitz& toeplitz;
  bool ports;
  void hash(const std::byte* frame, std::size_t step, FourHashes& h) const noexcept {
    toeplitz.hash_four({frame + ipv4_frame::addresses_at, step, ports}, h.value, h.raw);
  }
};
struct ByProducts {
  ToeplitzWindows windows;
  [[gnu::target("pclmul,ssse3")]] void hash(const std::byte* frame, std::size_t step,
                                            FourHashes& h) const noexcept {
    multiply_four(windows, frame + ipv4_frame::addresses_at, step, h.value.data(), h.raw.data());
  }
};

struct OneFrame {
  const std::byte* at;
  std::size_t bytes;
  uint32_t hash;  // as it lies in a completion
};

// One frame into the next receive WQE of its queue. False: it is not plain, and nothing but bytes
// behind an unused WQE has changed.
template <typename Frames>
[[gnu::always_inline]] inline bool take_one(Row& row, Taking& t, OneFrame frame,
                                            __m128i second) noexcept {
  uint64_t to;
  if (t.wqe == t.wqes_end || !find_alike_place(t, to)) [[unlikely]] {
    to = learn_place(row, t, frame.bytes);
    if (to == 0) return false;
  }
  if (!Frames::copy(to, frame.at, frame.bytes)) return false;
  if (!memory::dma::give_hashed_entry(t.slot, {second, t.third, t.stamp, frame.hash}, t.last))
    return false;
  t.slot += sizeof(prm::Cqe);
  t.step();
  return true;
}

// What is taken, and what the completions of all have in common.
struct Round {
  wire::FrameRing::Reader& in;
  Row& row;
  const SpreadFrames& frames;
  std::size_t budget;
  __m128i second;  // words of a completion
  bool ports;      // are hashed too
};

template <typename Frames, typename Hasher>
[[gnu::always_inline]] inline std::size_t take_fours(const Round& round,
                                                     const Hasher& hasher) noexcept {
  wire::FrameRing::Reader& in = round.in;
  Row& row = round.row;
  const SpreadFrames& s = round.frames;
  const __m128i second = round.second;
  const SameShape shape = s.shape;
  const typename Frames::Covered covered = Frames::covered_by(s);
  wq::Qp* const* const queues = s.tir.table->queues.data();
  const std::size_t mask = s.tir.table->queues.size() - 1, bytes = shape.frame_bytes();
  const std::size_t step = wire::FrameRing::Reader::step_of(bytes);
  const std::span<const std::byte> piece = in.piece();
  const std::size_t most =
      std::min(std::min(round.budget, wire::FrameRing::bytes) * step, piece.size());
  std::size_t at = 0;
  // Four frames that begin `behind` bytes in front of the next one, of which the first `taken` were
  // taken before. False: they are not of the shape, or one is not plain.
  const auto take_four = [&](std::size_t behind, unsigned taken) noexcept [[gnu::always_inline]] {
    const std::byte* frame = piece.data() + at - behind + wire::FrameRing::Reader::length_ahead;
    if (!shape.is_that_of_four(frame, step) || !sums_of_four_are_right(frame, step, covered))
      return false;
    FourHashes hashes;
    hasher.hash(frame, step, hashes);
    frame += behind;
#pragma GCC unroll 4
    for (unsigned i = taken; i < 4; i++, frame += step, at += step) {
      Taking* t = taking_of(row, *queues[hashes.value[i] & mask]);
      if (t == nullptr || !take_one<Frames>(row, *t, {frame, bytes, hashes.raw[i]}, second))
        return false;
    }
    return true;
  };
  while (most - at >= 4 * step && take_four(0, 0)) {
  }
  // The last one to three, with those in front of them, which still lie there.
  const std::size_t left = (most - at) / step;
  if (left > 0 && left < 4 && at >= (4 - left) * step)
    (void)take_four((4 - left) * step, static_cast<unsigned>(4 - left));
  const std::size_t taken = at / step;
  in.pop_rows(taken, step);
  return taken;
}

template <typename Frames>
[[gnu::target("pclmul,ssse3"), gnu::flatten]] std::size_t take_by_products(
    const Round& round) noexcept {
  const ByProducts products{windows_of(round.frames.tir.toeplitz.products(), round.ports)};
  return take_fours<Frames>(round, products);
}

}  // namespace

std::size_t take_spread(wire::FrameRing::Reader& in, Row& row, const SpreadFrames& s,
                        std::size_t budget) noexcept {
  uint8_t type;
  if (!hashes_all_udp(s.tir, type)) return 0;
  const std::size_t bytes = s.shape.frame_bytes();
  if (row.alike_bytes != bytes) {
    row.alike_bytes = bytes;
    for (Taking& t : row.taken()) t.alike.limit = 0;
  }
  const Round round{
      .in = in,
      .row = row,
      .frames = s,
      .budget = budget,
      .second = words_of_spread(s.shape.shape().type, type),
      .ports = type != prm::cqe::hash_ipv4,
  };
  if (s.tir.toeplitz.products() == nullptr) [[unlikely]]
    return take_fours<AnyFrames>(round, ByTables{s.tir.toeplitz, round.ports});
  return bytes - 32 <= 32 && covers_few(s.shape.shape()) ? take_by_products<ShortFrames>(round)
                                                         : take_by_products<AnyFrames>(round);
}

}  // namespace kilim::vhca::ethernet
