// SPDX-License-Identifier: BSD-3-Clause
// Send WQEs that were taken from their ring and have not completed, of an adapter whose order is
// weak (core/order.hh). The queue's sq.ci stays at the oldest of them, so that a flush begins
// there. What a fence makes wait is in one table here. Owner: the queue pair; adapter's lock held.
// Never allocates.
//
// Linux, drivers/infiniband/hw/mlx5: wr.c (mlx5_ib_post_send) puts the small fence behind each UMR
// and the small fence with the other one where IB_SEND_FENCE is asked as well; include/linux/mlx5/
// qp.h names the modes (MLX5_FENCE_MODE_*). IBTA 10.8.3.3, "Ordering of Work Requests": a READ or
// an atomic is waited for by a request with the fence indicator only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "vhca/core/order.hh"
#include "vhca/core/spec.hh"
#include "vhca/core/verdict.hh"

namespace kilim::vhca::wq {

struct Qp;
struct EngineContext;

enum class SendClass : uint8_t {
  change,   // of keys, by the queue itself: UMR, LOCAL_INV, SET_PSV
  answer,   // the adapter writes the queue's own memory: READ, atomic, copy
  message,  // SEND and WRITE: their memory may be read until they are acknowledged
  nothing,  // NOP
  other,    // stays in its place
};
SendClass send_class(uint8_t opcode) noexcept;

// What earlier WQEs of the queue a WQE waits for, by the mode of its fence.
struct FenceWaits {
  bool changes, answers, messages;
};
constexpr FenceWaits fence_waits(uint8_t fm_ce_se) noexcept {
  constexpr std::array<FenceWaits, 8> modes{{
      {false, false, false},  // none
      {true, false, false},   // initiator small: local operations
      {false, true, false},   // fence: READs and atomics
      {true, true, true},     // strong ordering
      {true, true, false},    // small and fence
      {true, true, true},     // reserved
      {true, true, true},
      {true, true, true},
  }};
  return modes[fm_ce_se >> 5];
}

// A WQE from when it is taken until its completion.
struct TakenWqe {
  enum class State : uint8_t {
    delayed,    // nothing has happened yet, or (`held`) its answer has not been written
    under_way,  // on the wire
    done,
    failed,  // as `verdict` says
  };
  uint16_t index = 0;  // of its first basic block
  uint16_t wqebbs = 1;
  uint8_t opcode = 0;
  SendClass what = SendClass::other;
  State state = State::delayed;
  bool signaled = false, event = false;  // as its completion mode says
  bool tried = false;                    // its queue waited for a page or its peer
  bool held = false;                     // its answer waits in `data`
  bool in_entry = false;                 // `data` goes to its completion
  Verdict verdict;
  uint32_t bytes = 0;  // of a READ or an atomic, for its completion
  std::array<std::byte, 64> data;
};

class WeakOrder {
 public:
  static constexpr uint32_t most = 64;
  WeakOrder(const Order& order, uint64_t seed) noexcept
      : order_(order), dice_(seed ^ order.seed * 0x9e3779b97f4a7c15u) {}

  uint16_t next_ci = 0;  // basic block of the next WQE to take, of a queue without a wire

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] bool full() const noexcept { return count_ == most; }
  [[nodiscard]] uint32_t count() const noexcept { return count_; }
  [[nodiscard]] TakenWqe& at(uint32_t i) noexcept { return ring_[(head_ + i) % most]; }
  TakenWqe& push(const TakenWqe& w) noexcept { return at(count_++) = w; }
  void pop() noexcept {
    head_ = (head_ + 1) % most;
    count_--;
  }
  void clear() noexcept { count_ = 0; }
  // The oldest of a class that is delayed; null: none.
  TakenWqe* delayed(SendClass what) noexcept;
  [[nodiscard]] uint32_t count_delayed(SendClass what) noexcept;
  [[nodiscard]] bool has_failed() noexcept;
  // The one that begins at this basic block and is under way; null: there is none.
  TakenWqe* under_way(uint16_t index) noexcept;

  // Throws the dice: whether the next one of this class is late. Nobody sends again what an
  // unreliable connection has sent.
  bool is_late(QpType type, SendClass what) noexcept;
  // An even chance.
  bool flip() noexcept { return (roll() & 1) != 0; }

 private:
  uint64_t roll() noexcept;

  std::array<TakenWqe, most> ring_{};  // `count_` from `head_` on, oldest first
  uint32_t head_ = 0, count_ = 0;
  Order order_;
  uint64_t dice_;
};

// Completes the oldest ones as far as they are done. Stops at one that has failed.
void complete_taken(EngineContext&, Qp&) noexcept;

}  // namespace kilim::vhca::wq
