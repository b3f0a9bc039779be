// SPDX-License-Identifier: BSD-3-Clause
// Cq: the consumer's side of one completion queue. Three ways to read it: poll() decodes into
// values; peek() and consume() give a burst the CQEs themselves; drain() only counts, for transmit.
// Owner: one worker. Never allocates, blocks or logs.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/barrier.hh"
#include "kilim/detail/base/mmio.hh"
#include "kilim/detail/base/owner.hh"
#include "kilim/detail/queue/completion.hh"
#include "kilim/detail/queue/geometry.hh"
#include "kilim/detail/queue/sq.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/prm/doorbell.hh"

namespace kilim::inline v1::queue {

class Cq {
 public:
  // `geometry`: a ring whose CQEs queue::preset() has prepared, or the device's own presetting.
  explicit Cq(const CqGeometry& geometry) noexcept
      : geometry_(geometry),
        ring_{.cqes = geometry.buf + (geometry.cqe_bytes - sizeof(prm::Cqe)),
              .end = geometry.buf + std::size_t{geometry.cqe_count} * geometry.cqe_bytes,
              .mask = geometry.cqe_count - 1,
              .bytes = geometry.cqe_bytes},
        next_(ring_.place(0)) {
    KILIM_ASSERT(is_power_of_two(geometry.cqe_count));
    KILIM_ASSERT(geometry.cqe_bytes == 64 || geometry.cqe_bytes == 128);
  }
  Cq(Cq&&) = default;
  Cq& operator=(Cq&&) = default;
  Cq(const Cq&) = delete;
  Cq& operator=(const Cq&) = delete;

  [[nodiscard]] const CqGeometry& geometry() const noexcept { return geometry_; }

  // Decodes up to out.size() completions, errors included, and frees their entries; returns how
  // many. wr_id is not filled in.
  uint32_t poll(std::span<Completion> out) noexcept {
    owner_.check();
    return empty() ? 0 : poll_ready(out);
  }
  // Polls with `sq`, the only send queue that completes here: fills in wr_id and retires the WQEs.
  uint32_t poll(std::span<Completion> out, Sq& sq) noexcept {
    owner_.check();
    return empty() ? 0 : pop_sent(out, sq);
  }

  // The i-th CQE not yet consumed; nullptr: the device has not written it.
  [[nodiscard]] const prm::Cqe* peek(uint32_t i) const noexcept {
    const Place at = ring_.place(ci_ + i);
    if (!is_written(load_op(at))) return nullptr;
    after_owner_bit();
    return reinterpret_cast<const prm::Cqe*>(at.cqe);
  }
  // The CQEs from peek(0) on that lie in a row up to the ring's end, written or not: for a burst
  // that reads several at once and looks at their owner bits itself.
  struct Row {
    const std::byte* first;  // of the 64 bytes of peek(0)
    uint32_t bytes;          // from one CQE to the next
    uint32_t count;
    uint8_t owner;  // the owner bit that written ones have
  };
  [[nodiscard]] Row row() const noexcept {
    return {next_.cqe, ring_.bytes, ring_.mask + 1 - (ci_ & ring_.mask), next_.owner};
  }
  // Returns the entries of `n` CQEs, which peek() has returned, to the device.
  void consume(uint32_t n) noexcept { consume_to(ring_.behind(next_, n), n); }

  // Returns the entries of a compressed block of `n` completions whose title peek(0) has returned.
  // The device writes title and minis and leaves the other entries alone: the next pass over the
  // ring would take what they said two passes ago for new (DPDK drivers/net/mlx5/mlx5_rx.c,
  // mlx5_rx_poll_len(), "Invalidate"). So a queue with compression marks each entry that the device
  // wrote when it is returned, while its line is here, and all that the device did not write since
  // are marked: a block touches no other line than it was read from.
  void consume_block(uint32_t n) noexcept {
    KILIM_ASSERT(n != 0 && n <= ring_.mask + 1);
    mark(0);
    if (n > 1) mark(prm::mini_cqe::entry_of(0));
    for (uint32_t i = prm::mini_cqe::in_entry; i < n; i += prm::mini_cqe::in_entry) mark(i);
    consume(n);
  }
  // consume() for a queue with compression.
  void consume_singles(uint32_t n) noexcept {
    for (uint32_t i = 0; i < n; i++) mark(i);
    consume(n);
  }
  // The i-th mini of the compressed block whose title is at peek(0).
  [[nodiscard]] const prm::MiniCqe& mini(uint32_t i) const noexcept {
    const Place at = ring_.place(ci_ + prm::mini_cqe::entry_of(i));
    return reinterpret_cast<const prm::MiniCqe*>(at.cqe)[i % prm::mini_cqe::in_entry];
  }
  // Fetches the minis behind the first eight of the block of `n` at peek(0), as far as they lie in
  // front of the ring's end. Inlined: GCC takes a function that only fetches for one without
  // effect.
  [[gnu::always_inline]] void prefetch_minis(uint32_t n) const noexcept {
    const std::byte* const title = next_.cqe;
    for (uint32_t i = prm::mini_cqe::in_entry; i < n; i += prm::mini_cqe::in_entry)
      __builtin_prefetch(title + std::size_t{i} * ring_.bytes);
  }
  // Completions that the entry of a good CQE stands for.
  static uint32_t completions(const prm::Cqe& e) noexcept {
    return is_compressed(e.op_own) ? e.byte_cnt.host() : 1;
  }
  static bool is_compressed(uint8_t op_own) noexcept {
    return (op_own & prm::cqe::format_mask) == prm::cqe::compressed;
  }

  // Writes the consumer index again: libmlx5 writes its own, which is not ours, when it takes a
  // queue pair to RESET.
  void restore_record() noexcept { consume(0); }

  // Asks the device for one event with the next CQE that is not consumed yet; at once if it is
  // written already. Asking again changes nothing. `seen`: events of this queue that the caller has
  // read since the last call: a request with the number of one that has had its event is none (PRM:
  // "CQ Doorbell"; rdma-core providers/mlx5/cq.c, mlx5_arm_cq(), mlx5_cq_event()). The geometry has
  // a doorbell.
  void arm(uint32_t seen) noexcept {
    owner_.check();
    KILIM_ASSERT(geometry_.doorbell != nullptr);
    arm_sn_ += seen;
    const uint32_t word =
        (arm_sn_ & 3) << prm::arm::sn_shift | prm::arm::any | (ci_ & prm::arm::index_mask);
    be32* record = geometry_.record + (prm::record_arm - prm::record_consumer_index);
    record_store(record, be32{word});
    before_doorbell();
    mmio_store(geometry_.doorbell, be64{uint64_t{word} << 32 | geometry_.cqn.value()});
    flush_write_combining();
  }

  struct Drained {
    uint32_t cqes = 0;         // consumed
    uint16_t wqe_counter = 0;  // of the last one, if any
    bool error = false;        // the next CQE is an error, to be read with poll()
  };
  // Consumes up to `limit` CQEs without an error. For send queues, whose requests complete in
  // order: the last WQE counter covers the others.
  Drained drain(uint32_t limit) noexcept {
    owner_.check();
    KILIM_ASSERT(limit != 0);
    Place at = next_;
    const std::byte* last = at.cqe;
    Drained d;
    uint8_t op = load_op(at);
    while (is_good(op)) {
      after_owner_bit();
      last = at.cqe;
      ring_.step(at);
      if (++d.cqes == limit) break;
      op = load_op(at);
    }
    d.error = d.cqes != limit && is_written(op);
    if (d.cqes == 0) return d;
    d.wqe_counter = reinterpret_cast<const prm::Cqe*>(last)->wqe_counter.host();
    consume_to(at, d.cqes);
    return d;
  }

  // True: the CQE with this last byte reports an error (sig_err, req_err, resp_err).
  static bool is_error(uint8_t op_own) noexcept { return op_own >= first_error_op_own; }
  // Lets another worker use the queue from now on; the two never use it at the same time.
  void release_owner() noexcept { owner_.release(); }

 private:
  static constexpr uint8_t first_responder_op_own =
      static_cast<uint8_t>(prm::CqeOpcode::resp_wr_imm) << 4;
  static constexpr uint8_t first_error_op_own = static_cast<uint8_t>(prm::CqeOpcode::sig_err) << 4;

  // The address at which a CQE will appear, and the owner bit that it will have.
  struct Place {
    const std::byte* cqe;
    uint8_t owner;
  };
  struct Ring {
    const std::byte* cqes;  // the first CQE's 64 bytes
    const std::byte* end;   // behind the last one's
    uint32_t mask;
    uint32_t bytes;

    // The owner bit changes with each pass over the ring.
    [[nodiscard]] Place place(uint32_t ci) const noexcept {
      return {cqes + std::size_t{ci & mask} * bytes, (ci & (mask + 1)) != 0};
    }
    // The place `n` entries behind another, at most once over the ring's end.
    [[nodiscard]] Place behind(Place p, uint32_t n) const noexcept {
      p.cqe += std::size_t{n} * bytes;
      if (p.cqe < end) return p;
      return {p.cqe - std::size_t{mask + 1} * bytes,
              static_cast<uint8_t>(p.owner ^ prm::cqe::owner_bit)};
    }
    void step(Place& p) const noexcept {
      p.cqe += bytes;
      if (p.cqe < end) return;
      p.cqe = cqes;
      p.owner ^= prm::cqe::owner_bit;
    }
  };
  // The CQE's last byte with the owner bit cleared if software owns the CQE: its owner bit is that
  // of this pass over the ring, and its opcode is not the preset one (preset.hh). volatile: the
  // device changes it, so each poll loads it anew.
  static uint8_t load_op(const Place& at) noexcept {
    const std::byte* last = at.cqe + offsetof(prm::Cqe, op_own);
    return static_cast<uint8_t>(*reinterpret_cast<const volatile uint8_t*>(last) ^ at.owner);
  }

  // Whether what load_op() returned is that of a CQE that the device has written.
  static bool is_written(uint8_t op) noexcept {
    return (op & prm::cqe::owner_bit) == 0 && op < prm::cqe::invalid_op_own;
  }
  // Says that a CQE is written and reports no error. With the owner bit rotated to the front one
  // comparison says both.
  static bool is_good(uint8_t op) noexcept { return std::rotr(op, 1) < (first_error_op_own >> 1); }
  // Makes the i-th CQE not yet consumed one that was never written (is_written()).
  void mark(uint32_t i) noexcept {
    const uint32_t entry = (ci_ + i) & ring_.mask;
    geometry_.buf[(std::size_t{entry} + 1) * ring_.bytes - 1] = std::byte{prm::cqe::invalid_op_own};
  }
  // Frees `n` entries, behind which `next` lies.
  void consume_to(Place next, uint32_t n) noexcept {
    const uint32_t ci = ci_ + n;  // not reloaded after a store of bytes
    ci_ = ci;
    next_ = next;
    before_consumer_index();
    record_store(geometry_.record, be32{ci & 0xffffff});
  }

  [[nodiscard]] bool empty() const noexcept { return (load_op(next_) & prm::cqe::owner_bit) != 0; }

  // Out of line: an empty poll is a few instructions in its caller.
  [[gnu::noinline]] uint32_t poll_ready(std::span<Completion> out) noexcept {
    return scan(out, first_error_op_own, [](Completion&, bool) noexcept {});
  }
  [[gnu::noinline]] uint32_t pop_sent(std::span<Completion> out, Sq& sq) noexcept {
    constexpr uint32_t none = ~0u;
    uint32_t last = none;
    const Sq::WrIds ids = sq.wr_ids();
    const uint32_t n = scan(out, first_responder_op_own, [&](Completion& c, bool usual) noexcept {
      if (!usual && !c.of_requester()) return;
      KILIM_ASSERT(c.qpn == sq.geometry().qpn);
      last = c.wqe_counter;
      c.wr_id = ids[c.wqe_counter];
    });
    if (last != none) (void)sq.retire(static_cast<uint16_t>(last));
    return n;
  }

  // Decodes every CQE that software owns into `out` and calls `each` with it and with whether its
  // opcode is below `unusual`.
  template <typename Each>
  [[gnu::always_inline]] uint32_t scan(std::span<Completion> out, uint8_t unusual,
                                       Each each) noexcept {
    Place at = next_;
    uint8_t op = load_op(at);
    const Ring ring = ring_;  // a copy, as the compiler cannot know that `out` does not alias it
    Completion* c = out.data();
    Completion* const end = c + out.size();
    while (c != end) {
      after_owner_bit();
      const auto& e = *reinterpret_cast<const prm::Cqe*>(at.cqe);
      if (op < unusual) [[likely]] {
        decode(e, op, *c);
        each(*c, true);
      } else {
        if (op >= prm::cqe::invalid_op_own) break;
        decode_any(e, op, *c);
        each(*c, false);
      }
      c++;
      ring.step(at);
      op = load_op(at);
      if ((op & prm::cqe::owner_bit) != 0) break;
    }
    const auto n = static_cast<uint32_t>(c - out.data());
    if (n != 0) consume(n);
    return n;
  }
  [[gnu::noinline]] static void decode_any(const prm::Cqe& e, uint8_t op, Completion& c) noexcept {
    if (is_error(op))
      c = decode_error(e);
    else
      decode(e, op, c);
  }

  CqGeometry geometry_;
  Ring ring_;
  Place next_;  // of ci_
  uint32_t ci_ = 0;
  uint32_t arm_sn_ = 0;  // events read
  Owner owner_;
};

}  // namespace kilim::inline v1::queue
