// SPDX-License-Identifier: BSD-3-Clause
// Rq: the producer's side of one receive queue.
// Owner: one worker. Never allocates, blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/barrier.hh"
#include "kilim/detail/base/mmio.hh"
#include "kilim/detail/base/owner.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/detail/queue/geometry.hh"
#include "kilim/detail/queue/piece_check.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/prm/data_seg.hh"

namespace kilim::inline v1::queue {

namespace detail {
inline Outcome too_many(std::size_t pieces, uint32_t most) noexcept {
  return {Refusal::many_pieces, pieces < ~0u ? static_cast<uint32_t>(pieces) : ~0u, most};
}
// Writes the pieces of a receive from `seg` on and advances it; empty pieces are skipped.
inline Outcome store_receive(std::byte*& seg, std::span<const Sge> into) noexcept {
  for (const Sge& p : into) {
    if (p.length == 0) continue;
    if (p.length > prm::max_segment_bytes) return refuse_piece(p.length, prm::max_segment_bytes);
    store_data(seg, p);
    seg += octoword_bytes;
  }
  return {};
}
}  // namespace detail

class Rq {
 public:
  // `wr_ids` keeps the caller's number of each posted WQE: one entry per WQE; it outlives the
  // queue.
  Rq(const RqGeometry& geometry, std::span<uint64_t> wr_ids) noexcept
      : geometry_(geometry), wr_ids_(wr_ids.data()), mask_(geometry.wqe_count - 1) {
    KILIM_ASSERT(is_power_of_two(geometry.wqe_count) && geometry.wqe_count <= max_ring_entries);
    KILIM_ASSERT(geometry.stride >= octoword_bytes && geometry.stride % octoword_bytes == 0);
    KILIM_ASSERT(wr_ids.size() >= geometry.wqe_count);
  }
  Rq(Rq&&) = default;
  Rq& operator=(Rq&&) = default;
  Rq(const Rq&) = delete;
  Rq& operator=(const Rq&) = delete;

  [[nodiscard]] const RqGeometry& geometry() const noexcept { return geometry_; }
  // Pieces of one receive, at most.
  [[nodiscard]] uint32_t max_pieces() const noexcept { return geometry_.stride / octoword_bytes; }
  // Receives that can be posted now.
  [[nodiscard]] uint32_t room() const noexcept { return geometry_.wqe_count - (pi_ - ci_); }
  // Receives posted and not retired.
  [[nodiscard]] uint32_t posted() const noexcept { return pi_ - ci_; }

  // Writes a receive into one piece; the device sees it after ring(). Refused: no_room, long_piece.
  Outcome post(const Sge& into, uint64_t wr_id) noexcept {
    owner_.check();
    if (room() == 0) return {Refusal::no_room, 1, 0};
    if (into.length - 1 >= prm::max_segment_bytes - 1) [[unlikely]]
      return post({&into, 1}, wr_id);
    std::byte* wqe = at(pi_);
    store_pointer(wqe, into.address, into.length, into.key);
    if (geometry_.stride > octoword_bytes) store_end(wqe + octoword_bytes);
    wr_ids_[pi_++ & mask_] = wr_id;
    return {};
  }
  // Writes a receive into a list of pieces. Empty pieces are skipped; a list without pieces takes
  // only empty messages. Refused: also many_pieces.
  Outcome post(std::span<const Sge> into, uint64_t wr_id) noexcept {
    owner_.check();
    if (room() == 0) return {Refusal::no_room, 1, 0};
    if (into.size() > max_pieces()) return detail::too_many(into.size(), max_pieces());
    std::byte* seg = at(pi_);
    std::byte* const end = seg + geometry_.stride;
    if (const Outcome a = detail::store_receive(seg, into); !a) return a;
    if (seg != end) store_end(seg);
    wr_ids_[pi_++ & mask_] = wr_id;
    return {};
  }
  // Posts as many one-piece receives as fit, up to one that is refused, and rings once. Returns how
  // many.
  uint32_t post_burst(std::span<const Sge> into, std::span<const uint64_t> wr_ids) noexcept {
    uint32_t n = 0;
    while (n < into.size() && post(into[n], wr_ids[n])) n++;
    if (n != 0) ring();
    return n;
  }

  // Writes the doorbell record: the device may use everything posted so far.
  void ring() noexcept {
    before_doorbell_record();
    record_store(geometry_.record, be32{pi_ & 0xffff});
  }

  // Frees the WQE at `counter` (from a CQE) and all before it, as receives complete in order.
  // Returns its wr id.
  uint64_t retire(uint16_t counter) noexcept {
    owner_.check();
    ci_ += static_cast<uint16_t>(counter - ci_) + 1u;
    KILIM_ASSERT(pi_ - ci_ <= geometry_.wqe_count);
    return wr_ids_[counter & mask_];
  }
  // The wr id at `counter` without retiring it.
  [[nodiscard]] uint64_t wr_id(uint16_t counter) const noexcept { return wr_ids_[counter & mask_]; }

  // Called when the queue pair went through RESET: calls visit(wr_id) for what was posted, and
  // empties the queue.
  template <typename Visit>
  void reset(Visit&& visit) noexcept {
    owner_.check();
    for (; ci_ != pi_; ci_++) visit(wr_ids_[ci_ & mask_]);
    pi_ = ci_ = 0;
    record_store(geometry_.record, be32{0});
  }
  // Lets another worker use the queue from now on; the two never use it at the same time.
  void release_owner() noexcept { owner_.release(); }

 private:
  [[nodiscard]] std::byte* at(uint32_t pi) const noexcept {
    return geometry_.buf + std::size_t{pi & mask_} * geometry_.stride;
  }
  static void store_end(std::byte* seg) noexcept {
    store_pointer(seg, 0, 0, Lkey{prm::list_end_lkey});
  }

  RqGeometry geometry_;
  uint64_t* wr_ids_;
  uint32_t mask_;
  uint32_t pi_ = 0;
  uint32_t ci_ = 0;
  Owner owner_;
};

}  // namespace kilim::inline v1::queue
