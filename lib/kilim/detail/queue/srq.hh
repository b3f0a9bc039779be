// SPDX-License-Identifier: BSD-3-Clause
// Srq: the producer's side of one shared receive queue, which several connections use. Free WQEs
// form a linked list; a completed one is appended at its end, in any order. Owner: one worker.
// Never allocates, blocks or logs.
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
#include "kilim/detail/queue/rq.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/prm/av_seg.hh"
#include "kilim/prm/data_seg.hh"

namespace kilim::inline v1::queue {

class Srq {
 public:
  // `wr_ids` keeps the caller's number of each posted WQE: one entry per WQE; it outlives the
  // queue.
  Srq(const SrqGeometry& geometry, std::span<uint64_t> wr_ids) noexcept
      : geometry_(geometry),
        wr_ids_(wr_ids.data()),
        room_(geometry.wqe_count - 1),
        tail_(geometry.wqe_count - 1) {
    KILIM_ASSERT(is_power_of_two(geometry.wqe_count) && geometry.wqe_count <= max_ring_entries);
    KILIM_ASSERT(geometry.wqe_count > 1 && geometry.stride % octoword_bytes == 0);
    KILIM_ASSERT(geometry.stride >= sizeof(prm::SrqNextSeg) + octoword_bytes);
    KILIM_ASSERT(wr_ids.size() >= geometry.wqe_count);
  }
  Srq(Srq&&) = default;
  Srq& operator=(Srq&&) = default;
  Srq(const Srq&) = delete;
  Srq& operator=(const Srq&) = delete;

  [[nodiscard]] const SrqGeometry& geometry() const noexcept { return geometry_; }
  // Pieces of one receive, at most; the first segment of a WQE links to the next one.
  [[nodiscard]] uint32_t max_pieces() const noexcept {
    return geometry_.stride / octoword_bytes - 1;
  }
  // Receives that can be posted now, and those posted and not retired.
  [[nodiscard]] uint32_t room() const noexcept { return room_; }
  [[nodiscard]] uint32_t posted() const noexcept { return geometry_.wqe_count - 1 - room_; }

  // Writes a receive into one piece; the device sees it after ring(). Refused: no_room, long_piece.
  Outcome post(const Sge& into, uint64_t wr_id) noexcept { return post({&into, 1}, wr_id); }
  // Writes a receive into a list of pieces. Empty pieces are skipped; a list without pieces takes
  // only empty messages. Refused: also many_pieces.
  Outcome post(std::span<const Sge> into, uint64_t wr_id) noexcept {
    owner_.check();
    if (room_ == 0) return {Refusal::no_room, 1, 0};
    if (into.size() > max_pieces()) return detail::too_many(into.size(), max_pieces());
    auto* seg = reinterpret_cast<std::byte*>(head_of(head_) + 1);
    std::byte* const end = seg + std::size_t{max_pieces()} * octoword_bytes;
    if (const Outcome a = detail::store_receive(seg, into); !a) return a;
    if (seg != end) store_end(seg);
    pop(wr_id);
    return {};
  }

  // Writes the doorbell record: the device may use everything posted so far.
  void ring() noexcept {
    before_doorbell_record();
    record_store(geometry_.record, be32{pi_ & 0xffff});
  }

  // Frees the WQE at `index` (a CQE's WQE counter), which completed on its own. Returns its wr id.
  uint64_t retire(uint16_t index) noexcept {
    owner_.check();
    KILIM_ASSERT(index < geometry_.wqe_count && room_ < geometry_.wqe_count - 1);
    head_of(tail_)->next_wqe_index = be16{index};
    tail_ = index;
    room_++;
    return wr_ids_[index];
  }
  // The wr id at `index` without retiring it.
  [[nodiscard]] uint64_t wr_id(uint16_t index) const noexcept { return wr_ids_[index]; }
  // Called before the device destroys the queue, when no connection uses it any more: calls
  // visit(wr_id) for what is posted. Nothing can be posted afterwards.
  template <typename Visit>
  void end(Visit&& visit) noexcept {
    owner_.check();
    // Marks free WQEs by linking them to themselves, as no posted one is.
    for (uint32_t left = room_ + 1, i = head_; left != 0; left--) {
      const uint32_t next = next_of(i);
      head_of(i)->next_wqe_index = be16{static_cast<uint16_t>(i)};
      i = next;
    }
    for (uint32_t i = 0; i < geometry_.wqe_count; i++)
      if (next_of(i) != i) visit(wr_ids_[i]);
    room_ = 0;
  }
  // Lets another worker use the queue from now on; the two never use it at the same time.
  void release_owner() noexcept { owner_.release(); }

 private:
  [[nodiscard]] prm::SrqNextSeg* head_of(uint32_t i) const noexcept {
    return reinterpret_cast<prm::SrqNextSeg*>(geometry_.buf + std::size_t{i} * geometry_.stride);
  }
  [[nodiscard]] uint32_t next_of(uint32_t i) const noexcept {
    return head_of(i)->next_wqe_index.host() & (geometry_.wqe_count - 1);
  }
  // Removes the posted WQE from the list.
  void pop(uint64_t wr_id) noexcept {
    const uint32_t i = head_;
    head_ = next_of(i);
    wr_ids_[i] = wr_id;
    room_--;
    pi_++;
  }
  static void store_end(std::byte* seg) noexcept {
    store_pointer(seg, 0, 0, Lkey{prm::list_end_lkey});
  }

  SrqGeometry geometry_;
  uint64_t* wr_ids_;
  uint32_t room_;
  uint32_t tail_;  // the list's end
  uint32_t head_ = 0;
  uint32_t pi_ = 0;  // receives posted
  Owner owner_;
};

}  // namespace kilim::inline v1::queue
