// SPDX-License-Identifier: BSD-3-Clause
// WQEs of a reliable connection: send, write, read and the two atomics, each from one piece or from
// a list of pieces. Appended through a WqeCursor; refused, and nothing appended, with the numbers:
// where the queue has no room, a length or a number of pieces fits into no WQE or no message.
// Owner: the queue's worker. Never allocates, blocks or logs.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "kilim/base/be.hh"
#include "kilim/base/ident.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/queue/appended.hh"
#include "kilim/queue/sge.hh"
#include "kilim/queue/wqe_cursor.hh"

namespace kilim::queue {

// Memory of the peer. The key is kept as it travels: made once, used for many requests.
struct Remote {
  constexpr Remote(uint64_t at, Rkey rkey) noexcept
      : address(at), key(eight_of(be32{rkey.value()}, be32{0})) {}
  Remote() noexcept : Remote(0, Rkey{}) {}

  uint64_t address;
  be64 key;  // and the four bytes behind it
};

// What every work request has beside its operands.
struct Wr {
  uint64_t id = 0;
  uint8_t flags = WrFlags::none;
  uint32_t imm = 0;  // as it lies in host order; travels big endian
};

namespace detail {
inline void store_remote(std::byte* dst, const Remote& r) noexcept {
  store_word(dst, be64{r.address});
  store_word(dst + 8, r.key);
}

[[nodiscard]] constexpr uint32_t number(uint64_t n) noexcept {
  return n < ~0u ? static_cast<uint32_t>(n) : ~0u;
}
inline Appended no_room(const WqeCursor& c, uint32_t wqebbs) noexcept {
  return {Refused::no_room, wqebbs, c.room().value()};
}

// Writes the pieces from segment `ds` on and moves it; empty ones are left out (libmlx5 does so in
// mlx5_post_send and _mlx5_send_wr_set_sge_list), since a length of 0 stands for 2 GiB.
inline Appended store_pieces(WqeCursor& c, uint32_t& ds, std::span<const Sge> pieces,
                             uint32_t most) noexcept {
  uint64_t bytes = 0;
  for (const Sge& p : pieces) {
    if (p.length == 0) continue;
    if (p.length > prm::max_segment_bytes) return refuse_piece(p.length, most);
    store_data(c.segment(ds++), p);
    bytes += p.length;
  }
  if (bytes > most) return {Refused::long_message, number(bytes), most};
  return {};
}

// Whether a WQE with so many octowords before its data can have so many pieces.
[[nodiscard]] inline Appended room_for(const WqeCursor& c, uint32_t head,
                                       std::size_t pieces) noexcept {
  if (pieces > prm::max_ds - head)
    return {Refused::many_pieces, number(pieces), prm::max_ds - head};
  const Octowords ds{head + static_cast<uint32_t>(pieces)};
  return c.fits(ds) ? Appended{} : no_room(c, wqebbs_for(ds).value());
}
// One piece, which is not empty. It comes as it is to be read: from memory, or out of registers. Of
// 2 GiB it is a list's: no port is known to send so much, and telling it apart here costs the
// others.
template <typename Piece>
[[gnu::always_inline]] inline Appended rdma_one(WqeCursor& c, prm::Opcode op, const Remote& remote,
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
[[gnu::always_inline]] inline Appended send_one(WqeCursor& c, prm::Opcode op, uint32_t imm,
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

// One piece to remote memory: one that lies ready, or one made on the spot. It is not empty.
[[gnu::always_inline]] inline Appended rdma_write(WqeCursor& c, const Remote& to, const Sge& from,
                                                  const Wr& wr) noexcept {
  return detail::rdma_one(c, prm::Opcode::rdma_write, to, from, wr);
}
[[gnu::always_inline]] inline Appended rdma_write(WqeCursor& c, const Remote& to, Sge&& from,
                                                  const Wr& wr) noexcept {
  return detail::rdma_one(c, prm::Opcode::rdma_write, to, static_cast<Sge&&>(from), wr);
}

// Remote memory into one piece, likewise.
[[gnu::always_inline]] inline Appended rdma_read(WqeCursor& c, const Remote& from, const Sge& into,
                                                 const Wr& wr) noexcept {
  return detail::rdma_one(c, prm::Opcode::rdma_read, from, into, wr);
}
[[gnu::always_inline]] inline Appended rdma_read(WqeCursor& c, const Remote& from, Sge&& into,
                                                 const Wr& wr) noexcept {
  return detail::rdma_one(c, prm::Opcode::rdma_read, from, static_cast<Sge&&>(into), wr);
}

// One piece to the peer's next receive, likewise.
[[gnu::always_inline]] inline Appended send(WqeCursor& c, const Sge& piece, const Wr& wr) noexcept {
  return detail::send_one(c, prm::Opcode::send, 0, piece, wr);
}
[[gnu::always_inline]] inline Appended send(WqeCursor& c, Sge&& piece, const Wr& wr) noexcept {
  return detail::send_one(c, prm::Opcode::send, 0, static_cast<Sge&&>(piece), wr);
}

// The same, and the peer's key `freed` becomes free: no access through it from then on. The key
// allows that if it was made so. The peer's completion says which key.
[[gnu::always_inline]] inline Appended send_invalidate(WqeCursor& c, const Sge& piece, Rkey freed,
                                                       const Wr& wr) noexcept {
  return detail::send_one(c, prm::Opcode::send_inval, freed.value(), piece, wr);
}

// RDMA_WRITE, RDMA_WRITE_IMM or RDMA_READ with a list of pieces; a READ has 30 at most.
inline Appended rdma_list(WqeCursor& c, prm::Opcode op, const Remote& remote,
                          std::span<const Sge> pieces, const Wr& wr) noexcept {
  if (const Appended a = detail::room_for(c, 2, pieces.size()); !a) return a;
  uint32_t ds = 2;
  if (const Appended a = detail::store_pieces(c, ds, pieces, c.max_message()); !a) return a;
  if (op == prm::Opcode::rdma_read && ds > prm::max_read_ds) [[unlikely]]
    return {Refused::many_pieces, ds - 2, prm::max_read_segments};
  c.control(op, Octowords{ds}, wr.flags, op == prm::Opcode::rdma_write_imm ? wr.imm : 0);
  detail::store_remote(c.segment(1), remote);
  c.advance(wqebbs_for(Octowords{ds}).value(), wr.id);
  return {};
}
inline Appended rdma_write(WqeCursor& c, const Remote& to, std::span<const Sge> from,
                           const Wr& wr) noexcept {
  return rdma_list(c, prm::Opcode::rdma_write, to, from, wr);
}
inline Appended rdma_write_imm(WqeCursor& c, const Remote& to, std::span<const Sge> from,
                               const Wr& wr) noexcept {
  return rdma_list(c, prm::Opcode::rdma_write_imm, to, from, wr);
}
inline Appended rdma_read(WqeCursor& c, const Remote& from, std::span<const Sge> into,
                          const Wr& wr) noexcept {
  return rdma_list(c, prm::Opcode::rdma_read, from, into, wr);
}

// SEND or SEND_IMM with a list of pieces; none sends an empty message.
inline Appended send_list(WqeCursor& c, prm::Opcode op, std::span<const Sge> pieces,
                          const Wr& wr) noexcept {
  if (const Appended a = detail::room_for(c, 1, pieces.size()); !a) return a;
  uint32_t ds = 1;
  if (const Appended a = detail::store_pieces(c, ds, pieces, c.max_message()); !a) return a;
  c.control(op, Octowords{ds}, wr.flags, op == prm::Opcode::send_imm ? wr.imm : 0);
  c.advance(wqebbs_for(Octowords{ds}).value(), wr.id);
  return {};
}
inline Appended send(WqeCursor& c, std::span<const Sge> pieces, const Wr& wr) noexcept {
  return send_list(c, prm::Opcode::send, pieces, wr);
}
inline Appended send_imm(WqeCursor& c, std::span<const Sge> pieces, const Wr& wr) noexcept {
  return send_list(c, prm::Opcode::send_imm, pieces, wr);
}

// The operands of an atomic on 8 bytes of remote memory; the old value comes into `result`.
struct Atomic {
  Remote target;
  uint64_t result_address = 0;
  Lkey result_key;
  uint64_t swap_or_add = 0;
  uint64_t compare = 0;  // of a compare and swap only
};

inline Appended atomic(WqeCursor& c, prm::Opcode op, const Atomic& a, const Wr& wr) noexcept {
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
inline Appended compare_and_swap(WqeCursor& c, const Atomic& a, const Wr& wr) noexcept {
  return atomic(c, prm::Opcode::atomic_cs, a, wr);
}
inline Appended fetch_and_add(WqeCursor& c, const Atomic& a, const Wr& wr) noexcept {
  return atomic(c, prm::Opcode::atomic_fa, a, wr);
}

}  // namespace kilim::queue
