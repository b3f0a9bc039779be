// SPDX-License-Identifier: BSD-3-Clause
// WQEs of a reliable connection: send, write, read and the two atomics, each from one piece or from
// a list of pieces. Appended through a WqeCursor; false, and nothing appended, where the queue has
// no room. Owner: the queue's worker. Never allocates, blocks or logs.
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

// Writes the pieces from segment `first` on; empty pieces are left out, as a length of 0 stands for
// 2^31 bytes. Returns the octowords of the WQE.
inline uint32_t store_pieces(WqeCursor& c, uint32_t first, std::span<const Sge> pieces) noexcept {
  uint32_t ds = first;
  for (const Sge& p : pieces) {
    if (p.length != 0) store_pointer(c.segment(ds++), p);
  }
  return ds;
}

[[nodiscard]] inline bool room_for(const WqeCursor& c, uint32_t head, std::size_t pieces) noexcept {
  return pieces <= prm::max_ds - head && c.fits(Octowords{head + static_cast<uint32_t>(pieces)});
}
// One piece, which is not empty. It comes as it is to be read: from memory, or out of registers.
template <typename Piece>
[[gnu::always_inline]] inline bool rdma_one(WqeCursor& c, prm::Opcode op, const Remote& remote,
                                            Piece&& piece, const Wr& wr) noexcept {
  if (!c.fits(1)) return false;
  KILIM_ASSERT(piece.length != 0);
  std::byte* wqe = c.line();
  c.control(op, Octowords{3}, wr.flags, 0);
  store_remote(wqe + 16, remote);
  store_pointer(wqe + 32, std::forward<Piece>(piece));
  c.advance(1, wr.id);
  return true;
}
template <typename Piece>
[[gnu::always_inline]] inline bool send_one(WqeCursor& c, prm::Opcode op, uint32_t imm,
                                            Piece&& piece, const Wr& wr) noexcept {
  if (!c.fits(1)) return false;
  KILIM_ASSERT(piece.length != 0);
  std::byte* wqe = c.line();
  c.control(op, Octowords{2}, wr.flags, imm);
  store_pointer(wqe + 16, std::forward<Piece>(piece));
  c.advance(1, wr.id);
  return true;
}
}  // namespace detail

// One piece to remote memory: one that lies ready, or one made on the spot. It is not empty.
[[gnu::always_inline]] inline bool rdma_write(WqeCursor& c, const Remote& to, const Sge& from,
                                              const Wr& wr) noexcept {
  return detail::rdma_one(c, prm::Opcode::rdma_write, to, from, wr);
}
[[gnu::always_inline]] inline bool rdma_write(WqeCursor& c, const Remote& to, Sge&& from,
                                              const Wr& wr) noexcept {
  return detail::rdma_one(c, prm::Opcode::rdma_write, to, static_cast<Sge&&>(from), wr);
}

// Remote memory into one piece, likewise.
[[gnu::always_inline]] inline bool rdma_read(WqeCursor& c, const Remote& from, const Sge& into,
                                             const Wr& wr) noexcept {
  return detail::rdma_one(c, prm::Opcode::rdma_read, from, into, wr);
}
[[gnu::always_inline]] inline bool rdma_read(WqeCursor& c, const Remote& from, Sge&& into,
                                             const Wr& wr) noexcept {
  return detail::rdma_one(c, prm::Opcode::rdma_read, from, static_cast<Sge&&>(into), wr);
}

// One piece to the peer's next receive, likewise.
[[gnu::always_inline]] inline bool send(WqeCursor& c, const Sge& piece, const Wr& wr) noexcept {
  return detail::send_one(c, prm::Opcode::send, 0, piece, wr);
}
[[gnu::always_inline]] inline bool send(WqeCursor& c, Sge&& piece, const Wr& wr) noexcept {
  return detail::send_one(c, prm::Opcode::send, 0, static_cast<Sge&&>(piece), wr);
}

// The same, and the peer's key `freed` becomes free: no access through it from then on. The key
// allows that if it was made so. The peer's completion says which key.
[[gnu::always_inline]] inline bool send_invalidate(WqeCursor& c, const Sge& piece, Rkey freed,
                                                   const Wr& wr) noexcept {
  return detail::send_one(c, prm::Opcode::send_inval, freed.value(), piece, wr);
}

// RDMA_WRITE, RDMA_WRITE_IMM or RDMA_READ with a list of pieces.
inline bool rdma_list(WqeCursor& c, prm::Opcode op, const Remote& remote,
                      std::span<const Sge> pieces, const Wr& wr) noexcept {
  if (!detail::room_for(c, 2, pieces.size())) return false;
  const uint32_t ds = detail::store_pieces(c, 2, pieces);
  c.control(op, Octowords{ds}, wr.flags, op == prm::Opcode::rdma_write_imm ? wr.imm : 0);
  detail::store_remote(c.segment(1), remote);
  c.advance(wqebbs_for(Octowords{ds}).value(), wr.id);
  return true;
}
inline bool rdma_write(WqeCursor& c, const Remote& to, std::span<const Sge> from,
                       const Wr& wr) noexcept {
  return rdma_list(c, prm::Opcode::rdma_write, to, from, wr);
}
inline bool rdma_write_imm(WqeCursor& c, const Remote& to, std::span<const Sge> from,
                           const Wr& wr) noexcept {
  return rdma_list(c, prm::Opcode::rdma_write_imm, to, from, wr);
}
inline bool rdma_read(WqeCursor& c, const Remote& from, std::span<const Sge> into,
                      const Wr& wr) noexcept {
  return rdma_list(c, prm::Opcode::rdma_read, from, into, wr);
}

// SEND or SEND_IMM with a list of pieces; none sends an empty message.
inline bool send_list(WqeCursor& c, prm::Opcode op, std::span<const Sge> pieces,
                      const Wr& wr) noexcept {
  if (!detail::room_for(c, 1, pieces.size())) return false;
  const uint32_t ds = detail::store_pieces(c, 1, pieces);
  c.control(op, Octowords{ds}, wr.flags, op == prm::Opcode::send_imm ? wr.imm : 0);
  c.advance(wqebbs_for(Octowords{ds}).value(), wr.id);
  return true;
}
inline bool send(WqeCursor& c, std::span<const Sge> pieces, const Wr& wr) noexcept {
  return send_list(c, prm::Opcode::send, pieces, wr);
}
inline bool send_imm(WqeCursor& c, std::span<const Sge> pieces, const Wr& wr) noexcept {
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

inline bool atomic(WqeCursor& c, prm::Opcode op, const Atomic& a, const Wr& wr) noexcept {
  if (!c.fits(1)) return false;
  std::byte* wqe = c.line();
  c.control(op, Octowords{4}, wr.flags, 0);
  detail::store_remote(wqe + 16, a.target);
  const be64 words[2] = {be64{a.swap_or_add}, be64{a.compare}};
  std::memcpy(wqe + 32, words, sizeof words);
  store_pointer(wqe + 48, a.result_address, 8, a.result_key);
  c.advance(1, wr.id);
  return true;
}
inline bool compare_and_swap(WqeCursor& c, const Atomic& a, const Wr& wr) noexcept {
  return atomic(c, prm::Opcode::atomic_cs, a, wr);
}
inline bool fetch_and_add(WqeCursor& c, const Atomic& a, const Wr& wr) noexcept {
  return atomic(c, prm::Opcode::atomic_fa, a, wr);
}

}  // namespace kilim::queue
