// SPDX-License-Identifier: BSD-3-Clause
// Shapes: what all UMRs of one kind have in common (number of pieces, access, changed fields) is
// encoded once at set-up; a burst fills in the key and the pieces.
// ListShape: a value, any thread. Building WQEs: the queue's worker; never allocates, blocks or
// logs.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/outcome.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/detail/umr/klm_list.hh"
#include "kilim/detail/umr/list_writer.hh"
#include "kilim/detail/umr/umr_head.hh"
#include "kilim/detail/umr/umr_wqe.hh"
#include "kilim/detail/umr/view.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::inline v1::umr {

// The encoded parts of a UMR with an inline list that do not change from one WQE to the next.
class ListShape {
 public:
  // `r` without key, tag and start, which each UMR gives. ok() is false where the list does not fit
  // into a WQE or the key; such a shape must not be used.
  // `have`: what umr_shape_chosen() may use, burst::widest_simd().
  constexpr ListShape(const ListRequest& r, uint32_t pieces, Simd have = Simd::base) noexcept
      : writer_(select_list_writer(have, pieces)),
        pieces_(pieces),
        octowords_(klm_octowords(pieces)) {
    if (pieces == 0 || pieces > max_inline_klms || pieces > r.max_entries) return;
    wqebbs_ = 2 + octowords_ / klms_per_line;
    const auto flags = static_cast<uint8_t>(prm::umr::inline_list | r.checks);
    umr_ = {be64{uint64_t{flags} << 56 | uint64_t{octowords_} << 16}, be64{r.mask()}};
    context_ = be64{uint64_t{r.access} << 40 | prm::mkey::any_qpn << 8};
  }
  [[nodiscard]] constexpr bool ok() const noexcept { return wqebbs_ != 0; }
  [[nodiscard]] constexpr uint32_t pieces() const noexcept { return pieces_; }
  [[nodiscard]] constexpr uint32_t wqebbs() const noexcept { return wqebbs_; }

 private:
  friend struct ShapeWriter;
  // The first two words of a UMR control segment.
  struct alignas(16) UmrWords {
    be64 list{0};
    be64 mask{0};
  };
  UmrWords umr_;
  be64 context_{0};
  ListWriter writer_;
  uint32_t pieces_;
  uint32_t octowords_;
  uint32_t wqebbs_ = 0;
};

// The key of one UMR of a shape.
struct ShapedKey {
  Lkey key;             // with its present tag
  uint8_t new_tag = 0;  // afterwards; tag_of(key) keeps it
  uint64_t start = 0;   // if the shape has a start address
};

// Used by the functions below only.
struct ShapeWriter {
  // Finds the first piece of a written list that is empty or too long.
  [[gnu::cold]] static Outcome first_bad(const std::byte* wqe, uint32_t pieces) noexcept {
    for (uint32_t i = 0; i < pieces; i++) {
      prm::Klm klm;
      std::memcpy(&klm, wqe + 2 * wqebb_bytes + std::size_t{i} * sizeof(klm), sizeof(klm));
      if (klm.byte_count.host() == 0) return {Refusal::empty, 0, max_inline_klms};
      if (const View bad{nullptr, 0, klm.byte_count.host()}; bad.length > prm::umr::max_piece_bytes)
        return why_empty(bad, max_inline_klms);
    }
    return {Refusal::empty, 0, max_inline_klms};
  }
  static constexpr ListWriter writer(const ListShape& s) noexcept { return s.writer_; }
  // A WQE with its list written, and the sum of the pieces' lengths.
  struct Written {
    std::byte* wqe;
    uint64_t length;
    uint32_t wqebbs;
  };
  // Completes the WQE around its list. Stored word by word: the offsets are those of UmrCtrlSeg and
  // MkeyContextSeg (prm/umr_seg.hh).
  [[gnu::always_inline]] static void append(queue::WqeCursor& c, const ListShape& s,
                                            const ShapedKey& k, const Written& w,
                                            const UmrWr& wr) noexcept {
    std::byte* const wqe = w.wqe;
    using Words [[gnu::may_alias, gnu::vector_size(16)]] = uint64_t;
    *reinterpret_cast<Words*>(wqe + 16) = *reinterpret_cast<const Words*>(&s.umr_);
    queue::store_zero(wqe + 32);
    queue::store_zero(wqe + 48);
    queue::store_word(wqe + 64, s.context_ | be64{k.new_tag});
    queue::store_word(wqe + 72, be64{0});
    queue::store_word(wqe + 80, be64{k.start});
    queue::store_word(wqe + 88, be64{w.length});
    queue::store_zero(wqe + 96);
    queue::store_zero(wqe + 112);
    detail::put(c, wqe, w.wqebbs);
    c.control(prm::Opcode::umr, Octowords{umr_head_octowords + s.octowords_}, wr.flags,
              k.key.value());
    c.fence_next_user();
    c.advance(w.wqebbs, wr.id);
  }
};

// Like umr_list(), with the shape's request. The view has as many pieces as the shape. Refused:
// empty, no_room, long_piece.
[[gnu::always_inline]] inline Outcome umr_shape(queue::WqeCursor& c, const ListShape& s,
                                                const ShapedKey& key, const View& view,
                                                const UmrWr& wr) noexcept {
  KILIM_ASSERT(s.ok());
  if (view.count != s.pieces()) [[unlikely]]
    return view.count == 0 ? why_empty(view, s.pieces())
                           : Outcome{Refusal::empty, view.count, s.pieces()};
  if (!c.fits(s.wqebbs())) [[unlikely]]
    return {Refusal::no_room, s.wqebbs(), c.room().value()};
  detail::WrapBuffer wrap;
  std::byte* const wqe = detail::place(c, s.wqebbs(), wrap);
  store_klm_lines(wqe + 2 * wqebb_bytes, view.pieces, view.count);
  ShapeWriter::append(c, s, key, {wqe, view.length, s.wqebbs()}, wr);
  return {};
}

namespace detail {
template <bool Chosen>
[[gnu::always_inline]] inline Outcome shape_unseen(queue::WqeCursor& c, const ListShape& s,
                                                   const ShapedKey& key,
                                                   std::span<const Piece> pieces,
                                                   const UmrWr& wr) noexcept {
  KILIM_ASSERT(s.ok());
  const uint32_t wqebbs = s.wqebbs();
  const auto count = static_cast<uint32_t>(pieces.size());
  if (count != s.pieces()) [[unlikely]]
    return {Refusal::empty, count, s.pieces()};
  if (!c.fits(wqebbs)) [[unlikely]]
    return {Refusal::no_room, wqebbs, c.room().value()};
  WrapBuffer wrap;
  std::byte* const wqe = place(c, wqebbs, wrap);
  const ListWriter by = Chosen ? ShapeWriter::writer(s) : nullptr;
  const uint64_t length = write_list_by(by, wqe + 2 * wqebb_bytes, pieces.data(), count);
  if (length == 0) [[unlikely]]
    return why_bad(pieces, s.pieces());
  ShapeWriter::append(c, s, key, {wqe, length, wqebbs}, wr);
  return {};
}
}  // namespace detail

// Takes pieces that have not been checked: they are written, summed up and checked in one pass.
// umr_shape() inlines the writer for any processor, umr_shape_chosen() calls the shape's where that
// pays.
[[gnu::always_inline]] inline Outcome umr_shape(queue::WqeCursor& c, const ListShape& s,
                                                const ShapedKey& key, std::span<const Piece> pieces,
                                                const UmrWr& wr) noexcept {
  return detail::shape_unseen<false>(c, s, key, pieces, wr);
}
[[gnu::always_inline]] inline Outcome umr_shape_chosen(queue::WqeCursor& c, const ListShape& s,
                                                       const ShapedKey& key,
                                                       std::span<const Piece> pieces,
                                                       const UmrWr& wr) noexcept {
  return detail::shape_unseen<true>(c, s, key, pieces, wr);
}

// Takes the pieces that the callback returns, piece(0) to piece(s.pieces() - 1), and writes them
// into the WQE without an array.
template <typename PieceAt>
[[gnu::always_inline]] inline Outcome umr_shape_of(queue::WqeCursor& c, const ListShape& s,
                                                   const ShapedKey& key, PieceAt piece,
                                                   const UmrWr& wr) noexcept {
  KILIM_ASSERT(s.ok());
  if (!c.fits(s.wqebbs())) [[unlikely]]
    return {Refusal::no_room, s.wqebbs(), c.room().value()};
  detail::WrapBuffer wrap;
  std::byte* const wqe = detail::place(c, s.wqebbs(), wrap);
  std::byte* to = wqe + 2 * wqebb_bytes;
  uint64_t length = 0;
  bool good = true;
  const auto put = [&](uint32_t i, std::byte* at) noexcept {
    const Piece p = piece(i);
    queue::store_pointer(at, p.address, p.length, p.key);
    length += p.length;
    good &= p.length != 0 && p.length <= prm::umr::max_piece_bytes;
  };
  uint32_t i = 0;
  for (; i + klms_per_line <= s.pieces(); i += klms_per_line, to += wqebb_bytes) {
    put(i, to);
    put(i + 1, to + 16);
    put(i + 2, to + 32);
    put(i + 3, to + 48);
  }
  for (; i < s.pieces(); i++, to += octoword_bytes) put(i, to);
  for (const std::byte* end = wqe + std::size_t{s.wqebbs()} * wqebb_bytes; to != end;
       to += octoword_bytes)
    queue::store_zero(to);
  if (!good) [[unlikely]]
    return ShapeWriter::first_bad(wqe, s.pieces());
  ShapeWriter::append(c, s, key, {wqe, length, s.wqebbs()}, wr);
  return {};
}

}  // namespace kilim::inline v1::umr
