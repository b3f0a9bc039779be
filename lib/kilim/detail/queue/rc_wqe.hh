// SPDX-License-Identifier: BSD-3-Clause
// WQEs of a reliable connection: SEND, RDMA WRITE and READ, from one piece or a list of pieces, and
// the two atomics. Each function appends one WQE at a cursor or returns a refusal and appends
// nothing: no_room, empty_piece, long_piece, long_message, many_pieces. Owner: the queue's worker.
// Never allocates, blocks or logs.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/detail/queue/piece_check.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/opcode.hh"

namespace kilim::inline v1::queue {

// Memory of the peer. Made once and used for many requests, so the key is kept in wire order.
struct Remote {
  constexpr Remote(uint64_t at, Rkey rkey) noexcept
      : address(at), key(eight_of(be32{rkey.value()}, be32{0})) {}
  Remote() noexcept : Remote(0, Rkey{}) {}

  uint64_t address;
  be64 key;  // and the four bytes behind it
};

// What every work request has besides its operands.
struct Wr {
  uint64_t id = 0;
  uint8_t flags = WrFlags::none;
  uint32_t imm = 0;  // in host order; big endian on the wire
};

namespace detail {
inline void store_remote(std::byte* dst, const Remote& r) noexcept {
  store_word(dst, be64{r.address});
  store_word(dst + 8, r.key);
}

[[nodiscard]] constexpr uint32_t number(uint64_t n) noexcept {
  return n < ~0u ? static_cast<uint32_t>(n) : ~0u;
}
inline Outcome no_room(const WqeCursor& c, uint32_t wqebbs) noexcept {
  return {Refusal::no_room, wqebbs, c.room().value()};
}

// Writes the pieces from segment `ds` on and advances it. Empty pieces are skipped, as in libmlx5
// (mlx5_post_send, _mlx5_send_wr_set_sge_list), because a length of 0 means 2 GiB.
inline Outcome store_pieces(WqeCursor& c, uint32_t& ds, std::span<const Sge> pieces,
                            uint32_t most) noexcept {
  uint64_t bytes = 0;
  for (const Sge& p : pieces) {
    if (p.length == 0) continue;
    if (p.length > prm::max_segment_bytes) return refuse_piece(p.length, most);
    store_data(c.segment(ds++), p);
    bytes += p.length;
  }
  if (bytes > most) return {Refusal::long_message, number(bytes), most};
  return {};
}

// Checks that a WQE with `head` octowords before its data segments can have so many pieces.
[[nodiscard]] inline Outcome room_for(const WqeCursor& c, uint32_t head,
                                      std::size_t pieces) noexcept {
  if (pieces > prm::max_ds - head)
    return {Refusal::many_pieces, number(pieces), prm::max_ds - head};
  const Octowords ds{head + static_cast<uint32_t>(pieces)};
  return c.fits(ds) ? Outcome{} : no_room(c, wqebbs_for(ds).value());
}
// One piece of 1 byte to less than 2 GiB, read from memory or from registers. A piece of exactly 2
// GiB takes the list form: no known port sends so much, and the check would cost every other
// request.
template <typename Piece>
[[gnu::always_inline]] inline Outcome rdma_one(WqeCursor& c, prm::Opcode op, const Remote& remote,
                                               Piece&& piece, const Wr& wr) noexcept {
  if (!c.fits(1)) return no_room(c, 1);
  if (piece.length - 1 >= c.plain_bytes()) [[unlikely]]
    return refuse_piece(piece.length, c.plain_bytes());
  std::byte* wqe = c.line();
  c.control(op, Octowords{3}, wr.flags, 0);
  store_remote(wqe + 16, remote);
  store_pointer(wqe + 32, std::forward<Piece>(piece));
  c.advance(1, wr.id);
  return {};
}
template <typename Piece>
[[gnu::always_inline]] inline Outcome send_one(WqeCursor& c, prm::Opcode op, uint32_t imm,
                                               Piece&& piece, const Wr& wr) noexcept {
  if (!c.fits(1)) return no_room(c, 1);
  if (piece.length - 1 >= c.plain_bytes()) [[unlikely]]
    return refuse_piece(piece.length, c.plain_bytes());
  std::byte* wqe = c.line();
  c.control(op, Octowords{2}, wr.flags, imm);
  store_pointer(wqe + 16, std::forward<Piece>(piece));
  c.advance(1, wr.id);
  return {};
}
}  // namespace detail

// Appends an RDMA WRITE of one piece, which is not empty: from an lvalue, or from registers.
[[gnu::always_inline]] inline Outcome rdma_write(WqeCursor& c, const Remote& to, const Sge& from,
                                                 const Wr& wr) noexcept {
  return detail::rdma_one(c, prm::Opcode::rdma_write, to, from, wr);
}
[[gnu::always_inline]] inline Outcome rdma_write(WqeCursor& c, const Remote& to, Sge&& from,
                                                 const Wr& wr) noexcept {
  return detail::rdma_one(c, prm::Opcode::rdma_write, to, static_cast<Sge&&>(from), wr);
}

// Appends an RDMA READ into one piece, likewise.
[[gnu::always_inline]] inline Outcome rdma_read(WqeCursor& c, const Remote& from, const Sge& into,
                                                const Wr& wr) noexcept {
  return detail::rdma_one(c, prm::Opcode::rdma_read, from, into, wr);
}
[[gnu::always_inline]] inline Outcome rdma_read(WqeCursor& c, const Remote& from, Sge&& into,
                                                const Wr& wr) noexcept {
  return detail::rdma_one(c, prm::Opcode::rdma_read, from, static_cast<Sge&&>(into), wr);
}

// Appends a SEND of one piece, likewise.
[[gnu::always_inline]] inline Outcome send(WqeCursor& c, const Sge& piece, const Wr& wr) noexcept {
  return detail::send_one(c, prm::Opcode::send, 0, piece, wr);
}
[[gnu::always_inline]] inline Outcome send(WqeCursor& c, Sge&& piece, const Wr& wr) noexcept {
  return detail::send_one(c, prm::Opcode::send, 0, static_cast<Sge&&>(piece), wr);
}

// Appends a SEND that also invalidates the peer's key `freed`, which must allow it
// (mr::MkeyRequest::remote_invalidate). The peer's completion contains the key.
[[gnu::always_inline]] inline Outcome send_invalidate(WqeCursor& c, const Sge& piece, Rkey freed,
                                                      const Wr& wr) noexcept {
  return detail::send_one(c, prm::Opcode::send_inval, freed.value(), piece, wr);
}

// Appends an RDMA_WRITE, RDMA_WRITE_IMM or RDMA_READ with a list of pieces; a READ has at most 30.
inline Outcome rdma_list(WqeCursor& c, prm::Opcode op, const Remote& remote,
                         std::span<const Sge> pieces, const Wr& wr) noexcept {
  if (const Outcome a = detail::room_for(c, 2, pieces.size()); !a) return a;
  uint32_t ds = 2;
  if (const Outcome a = detail::store_pieces(c, ds, pieces, c.max_message()); !a) return a;
  if (op == prm::Opcode::rdma_read && ds > prm::max_read_ds) [[unlikely]]
    return {Refusal::many_pieces, ds - 2, prm::max_read_segments};
  c.control(op, Octowords{ds}, wr.flags, op == prm::Opcode::rdma_write_imm ? wr.imm : 0);
  detail::store_remote(c.segment(1), remote);
  c.advance(wqebbs_for(Octowords{ds}).value(), wr.id);
  return {};
}
inline Outcome rdma_write(WqeCursor& c, const Remote& to, std::span<const Sge> from,
                          const Wr& wr) noexcept {
  return rdma_list(c, prm::Opcode::rdma_write, to, from, wr);
}
inline Outcome rdma_write_imm(WqeCursor& c, const Remote& to, std::span<const Sge> from,
                              const Wr& wr) noexcept {
  return rdma_list(c, prm::Opcode::rdma_write_imm, to, from, wr);
}
inline Outcome rdma_read(WqeCursor& c, const Remote& from, std::span<const Sge> into,
                         const Wr& wr) noexcept {
  return rdma_list(c, prm::Opcode::rdma_read, from, into, wr);
}

// Appends a SEND or SEND_IMM with a list of pieces; no pieces make an empty message.
inline Outcome send_list(WqeCursor& c, prm::Opcode op, std::span<const Sge> pieces,
                         const Wr& wr) noexcept {
  if (const Outcome a = detail::room_for(c, 1, pieces.size()); !a) return a;
  uint32_t ds = 1;
  if (const Outcome a = detail::store_pieces(c, ds, pieces, c.max_message()); !a) return a;
  c.control(op, Octowords{ds}, wr.flags, op == prm::Opcode::send_imm ? wr.imm : 0);
  c.advance(wqebbs_for(Octowords{ds}).value(), wr.id);
  return {};
}
inline Outcome send(WqeCursor& c, std::span<const Sge> pieces, const Wr& wr) noexcept {
  return send_list(c, prm::Opcode::send, pieces, wr);
}
inline Outcome send_imm(WqeCursor& c, std::span<const Sge> pieces, const Wr& wr) noexcept {
  return send_list(c, prm::Opcode::send_imm, pieces, wr);
}

// An atomic on 8 bytes of remote memory; the old value is written to result_address.
struct Atomic {
  Remote target;
  uint64_t result_address = 0;
  Lkey result_key;
  uint64_t swap_or_add = 0;
  uint64_t compare = 0;  // compare and swap only
};

// Appends an ATOMIC_CS or ATOMIC_FA. Refused: no_room.
inline Outcome atomic(WqeCursor& c, prm::Opcode op, const Atomic& a, const Wr& wr) noexcept {
  if (!c.fits(1)) return detail::no_room(c, 1);
  std::byte* wqe = c.line();
  c.control(op, Octowords{4}, wr.flags, 0);
  detail::store_remote(wqe + 16, a.target);
  const be64 words[2] = {be64{a.swap_or_add}, be64{a.compare}};
  std::memcpy(wqe + 32, words, sizeof words);
  store_pointer(wqe + 48, a.result_address, 8, a.result_key);
  c.advance(1, wr.id);
  return {};
}
inline Outcome compare_and_swap(WqeCursor& c, const Atomic& a, const Wr& wr) noexcept {
  return atomic(c, prm::Opcode::atomic_cs, a, wr);
}
inline Outcome fetch_and_add(WqeCursor& c, const Atomic& a, const Wr& wr) noexcept {
  return atomic(c, prm::Opcode::atomic_fa, a, wr);
}

}  // namespace kilim::inline v1::queue
