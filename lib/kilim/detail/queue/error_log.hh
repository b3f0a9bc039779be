// SPDX-License-Identifier: BSD-3-Clause
// ErrorLog: the last completion with an error of a group of queues, with the bytes of its work
// request as they stood in the ring. Its maker owns it, and it outlives the queues. The queues'
// workers note, any thread reads; who finds it in use leaves it alone: a burst waits for nobody.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kilim/detail/base/units.hh"
#include "kilim/detail/queue/completion.hh"
#include "kilim/detail/queue/geometry.hh"
#include "kilim/prm/ctrl_seg.hh"

namespace kilim::inline v1::queue {

struct NotedError {
  static constexpr std::size_t most = 256;  // bytes of a work request that are kept
  Completion completion;
  uint64_t number = 0;     // of the error, counted from 1; 0: there was none
  uint32_t wqe_bytes = 0;  // of `wqe`
  std::array<std::byte, most> wqe{};

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {wqe.data(), wqe_bytes};
  }
};

class ErrorLog {
 public:
  // Before the queue retires the request. A flushed one says nothing by itself and is not noted.
  [[gnu::noinline, gnu::cold]] void note_send(const Completion& c, const SqGeometry& g) noexcept {
    const Ring ring{g.buf, g.wqebb_count, wqebb_bytes, NotedError::most / wqebb_bytes};
    if (!note(c, ring)) return;
    prm::CtrlSeg head;
    std::memcpy(&head, last_.wqe.data(), sizeof head);
    last_.wqe_bytes =
        std::min(last_.wqe_bytes, prm::ctrl::ds::get(head) * static_cast<uint32_t>(octoword_bytes));
    busy_.store(false, std::memory_order_release);
  }
  [[gnu::noinline, gnu::cold]] void note_receive(const Completion& c,
                                                 const RqGeometry& g) noexcept {
    if (note(c, {g.buf, g.wqe_count, g.stride, 1})) busy_.store(false, std::memory_order_release);
  }
  // False: there was none, or one is being noted at this moment.
  bool read(NotedError& out) noexcept {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    out = last_;
    busy_.store(false, std::memory_order_release);
    return out.number != 0;
  }

 private:
  // A ring of `count` pieces of `stride` bytes; a request lies in at most `pieces` of them.
  struct Ring {
    const std::byte* buf;
    uint32_t count;
    std::size_t stride;
    std::size_t pieces;
  };
  // True: the log is in use by the caller.
  bool note(const Completion& c, const Ring& r) noexcept {
    if (c.ok() || c.syndrome == prm::Syndrome::wr_flush) return false;
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    last_.completion = c;
    last_.number++;
    last_.wqe_bytes = 0;
    const std::size_t each = std::min(r.stride, NotedError::most);
    for (std::size_t i = 0; i < std::min<std::size_t>(r.pieces, r.count); i++) {
      const std::size_t place = (c.wqe_counter + i) & (r.count - 1);
      std::memcpy(last_.wqe.data() + last_.wqe_bytes, r.buf + place * r.stride, each);
      last_.wqe_bytes += static_cast<uint32_t>(each);
    }
    return true;
  }

  std::atomic<bool> busy_{false};
  NotedError last_;
};

}  // namespace kilim::inline v1::queue
