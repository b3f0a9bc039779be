// SPDX-License-Identifier: BSD-3-Clause
// The consumer's side of one completion queue. Three ways to read it: poll() decodes into values;
// peek()/consume() show the CQEs themselves to a burst; drain() only counts, for transmit.
// Owner: the worker that made it; no other thread may touch it. Never allocates, blocks or logs.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/base/assert.hh"
#include "kilim/base/barrier.hh"
#include "kilim/base/mmio.hh"
#include "kilim/base/owner.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/queue/completion.hh"
#include "kilim/queue/geometry.hh"

namespace kilim::queue {

class Cq {
 public:
  explicit Cq(const CqGeometry& geometry) noexcept
      : geometry_(geometry),
        ring_{.cqes = geometry.buf + (geometry.cqe_bytes - sizeof(prm::Cqe)),
              .mask = geometry.cqe_count - 1,
              .log_count = static_cast<uint8_t>(std::countr_zero(geometry.cqe_count)),
              .log_bytes = static_cast<uint8_t>(std::countr_zero(geometry.cqe_bytes))} {
    KILIM_ASSERT(is_power_of_two(geometry.cqe_count));
    KILIM_ASSERT(geometry.cqe_bytes == 64 || geometry.cqe_bytes == 128);
  }
  Cq(Cq&&) = default;
  Cq& operator=(Cq&&) = default;
  Cq(const Cq&) = delete;
  Cq& operator=(const Cq&) = delete;

  [[nodiscard]] const CqGeometry& geometry() const noexcept { return geometry_; }

  // Decodes up to out.size() completions and gives their places back. Errors come as values.
  uint32_t poll(std::span<Completion> out) noexcept {
    owner_.check();
    const Ring ring = ring_;  // in registers: what is written below might be anywhere
    const uint32_t first = ci_;
    uint32_t n = 0;
    for (const prm::Cqe* e; n < out.size() && (e = ring.ready(first + n)) != nullptr; n++) {
      if (is_error(e->op_own)) [[unlikely]] {
        out[n] = decode_error(*e);
      } else {
        decode(*e, out[n]);
      }
    }
    if (n != 0) consume(n);
    return n;
  }

  // The i-th CQE not yet consumed, or nullptr where the device has not written it.
  [[nodiscard]] const prm::Cqe* peek(uint32_t i) const noexcept { return ring_.ready(ci_ + i); }
  // Gives the places of `n` CQEs, all seen by peek(), back to the device.
  void consume(uint32_t n) noexcept {
    ci_ += n;
    before_consumer_index();
    record_store(geometry_.record, be32{ci_ & 0xffffff});
  }

  // Writes the consumer index again: libmlx5 writes its own, which is not ours, when it takes a
  // queue pair to RESET.
  void restore_record() noexcept { consume(0); }

  struct Drained {
    uint32_t cqes = 0;         // consumed
    uint16_t wqe_counter = 0;  // of the last one, if any
    bool error = false;        // an error CQE is next: read it with poll()
  };
  // Consumes up to `limit` good CQEs of a queue pair whose requests complete in order: only the
  // last one's WQE counter matters.
  Drained drain(uint32_t limit) noexcept {
    owner_.check();
    Drained d;
    const prm::Cqe* last = nullptr;
    for (const prm::Cqe* e; d.cqes < limit && (e = ring_.ready(ci_ + d.cqes)) != nullptr;
         d.cqes++) {
      if (is_error(e->op_own)) [[unlikely]] {
        d.error = true;
        break;
      }
      last = e;
    }
    if (last != nullptr) {
      d.wqe_counter = last->wqe_counter.host();
      consume(d.cqes);
    }
    return d;
  }

  static bool is_error(uint8_t op_own) noexcept {
    return op_own >= static_cast<unsigned>(prm::CqeOpcode::sig_err) << 4;
  }
  // Hands the queue to another worker, which must not overlap with this one.
  void release_owner() noexcept { owner_.release(); }

 private:
  struct Ring {
    const std::byte* cqes;  // the first CQE's 64 bytes
    uint32_t mask;
    uint8_t log_count;
    uint8_t log_bytes;

    // A CQE is ours if its owner bit has the phase of this pass over the ring and its opcode is not
    // the one with which the ring was preset.
    [[nodiscard]] const prm::Cqe* ready(uint32_t ci) const noexcept {
      const std::byte* at = cqes + (std::size_t{ci & mask} << log_bytes);
      const auto* e = reinterpret_cast<const prm::Cqe*>(at);
      const uint8_t op_own = *static_cast<const volatile uint8_t*>(&e->op_own);
      if (((op_own ^ (ci >> log_count)) & prm::cqe::owner_bit) != 0 ||
          op_own >= prm::cqe::invalid_op_own)
        return nullptr;
      after_owner_bit();
      return e;
    }
  };

  CqGeometry geometry_;
  Ring ring_;
  uint32_t ci_ = 0;
  [[no_unique_address]] Owner owner_;
};

}  // namespace kilim::queue
