// SPDX-License-Identifier: BSD-3-Clause
// Shape templates: what is the same in all UMRs of one kind (number of pieces, access, fields that
// change) is encoded once, at set-up; a burst fills in key, addresses, keys and lengths.
// ListShape: a value, any thread. The WQEs: the queue's worker; never allocates, blocks or logs.
#pragma once

#include <cstdint>
#include <cstring>

#include "kilim/base/be.hh"
#include "kilim/base/units.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/umr_seg.hh"
#include "kilim/queue/sge.hh"
#include "kilim/queue/wqe_cursor.hh"
#include "kilim/umr/klm_list.hh"
#include "kilim/umr/refusal.hh"
#include "kilim/umr/umr_head.hh"
#include "kilim/umr/umr_wqe.hh"
#include "kilim/umr/view.hh"

namespace kilim::umr {

class ListShape {
 public:
  // Of `r`, the key, the tag and the start address's value do not matter here. No shape where the
  // list does not fit into a WQE: then ok() is false, and nothing may be posted with it.
  constexpr ListShape(const ListRequest& r, uint32_t pieces) noexcept
      : pieces_(pieces), octowords_(klm_octowords(pieces)) {
    if (pieces == 0 || pieces > max_inline_klms || pieces > r.max_entries) return;
    wqebbs_ = 2 + octowords_ / klms_per_line;
    const auto flags = static_cast<uint8_t>(prm::umr::inline_list | r.checks);
    list_ = be64{uint64_t{flags} << 56 | uint64_t{octowords_} << 16};
    mask_ = be64{r.mask()};
    context_ = be64{uint64_t{r.access} << 40 | prm::mkey::any_qpn << 8};
  }
  [[nodiscard]] constexpr bool ok() const noexcept { return wqebbs_ != 0; }
  [[nodiscard]] constexpr uint32_t pieces() const noexcept { return pieces_; }
  [[nodiscard]] constexpr uint32_t wqebbs() const noexcept { return wqebbs_; }

 private:
  friend struct ShapeWriter;
  be64 list_{0};
  be64 mask_{0};
  be64 context_{0};
  uint32_t pieces_;
  uint32_t octowords_;
  uint32_t wqebbs_ = 0;
};

// What differs from one UMR of a shape to the next, beside its pieces.
struct ShapedKey {
  Lkey key;             // as it is now
  uint8_t new_tag = 0;  // from now on; tag_of(key) leaves it
  uint64_t start = 0;   // where the shape has a start address
};

struct ShapeWriter {
  // Of a list that was written and holds a piece that it may not.
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
  // A WQE whose list is written, and the sum of its lengths.
  struct Written {
    std::byte* wqe;
    uint64_t length;
  };
  [[gnu::always_inline]] static void append(queue::WqeCursor& c, const ListShape& s,
                                            const ShapedKey& k, const Written& w,
                                            const UmrWr& wr) noexcept {
    std::byte* const wqe = w.wqe;
    queue::store_word(wqe + 16, s.list_);
    queue::store_word(wqe + 24, s.mask_);
    queue::store_zero(wqe + 32);
    queue::store_zero(wqe + 48);
    queue::store_word(wqe + 64, s.context_ | be64{k.new_tag});
    queue::store_word(wqe + 72, be64{0});
    queue::store_word(wqe + 80, be64{k.start});
    queue::store_word(wqe + 88, be64{w.length});
    queue::store_zero(wqe + 96);
    queue::store_zero(wqe + 112);
    detail::put(c, wqe, s.wqebbs_);
    c.control(prm::Opcode::umr, Octowords{umr_head_octowords + s.octowords_}, wr.flags,
              k.key.value());
    c.fence_next_user();
    c.advance(s.wqebbs_, wr.id);
  }
};

// As umr_list() with the shape's request; a view of as many pieces as the shape has.
[[gnu::always_inline]] inline Outcome umr_shape(queue::WqeCursor& c, const ListShape& s,
                                                const ShapedKey& key, const View& view,
                                                const UmrWr& wr) noexcept {
  KILIM_ASSERT(s.ok());
  if (view.count != s.pieces()) [[unlikely]]
    return view.count == 0 ? why_empty(view, s.pieces())
                           : Outcome{Refusal::empty, view.count, s.pieces()};
  if (!c.fits(s.wqebbs())) [[unlikely]]
    return {Refusal::no_room, s.wqebbs(), c.room().value()};
  detail::Aside aside;
  std::byte* const wqe = detail::place(c, s.wqebbs(), aside);
  store_klm_lines(wqe + 2 * wqebb_bytes, view.pieces, view.count);
  ShapeWriter::append(c, s, key, {wqe, view.length}, wr);
  return {};
}

// The same with pieces that are made on the spot, piece(0) to piece(shape's count - 1), and go
// straight into the WQE: nothing is collected first.
template <typename PieceAt>
[[gnu::always_inline]] inline Outcome umr_shape_of(queue::WqeCursor& c, const ListShape& s,
                                                   const ShapedKey& key, PieceAt piece,
                                                   const UmrWr& wr) noexcept {
  KILIM_ASSERT(s.ok());
  if (!c.fits(s.wqebbs())) [[unlikely]]
    return {Refusal::no_room, s.wqebbs(), c.room().value()};
  detail::Aside aside;
  std::byte* const wqe = detail::place(c, s.wqebbs(), aside);
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
  ShapeWriter::append(c, s, key, {wqe, length}, wr);
  return {};
}

}  // namespace kilim::umr
