// SPDX-License-Identifier: BSD-3-Clause
// Where keys live: takes them from the stash, has them woven on one reliable connection, follows
// their WQEs to the completion, invalidates those that are no longer held, parks them until nobody
// can use them and gives them back. Read with key.hh (states), fence.hh and epoch.hh.
// Owner: the worker of the queue; made by the control thread. Never allocates after create(), never
// blocks or logs. What has been woven at a cursor must be committed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kilim/base/counter.hh"
#include "kilim/base/owner.hh"
#include "kilim/queue/completion.hh"
#include "kilim/queue/sq.hh"
#include "kilim/queue/wqe_cursor.hh"
#include "kilim/umr/binding.hh"
#include "kilim/umr/epoch.hh"
#include "kilim/umr/fence.hh"
#include "kilim/umr/key_pool.hh"
#include "kilim/umr/refusal.hh"
#include "kilim/umr/umr_wqe.hh"
#include "kilim/umr/weave.hh"

namespace kilim::umr {

// When a binding that ends has its key invalidated. at_once: users of a handle that is still about
// fault. after_epoch: they read what the key showed until nobody is left.
enum class Ending : uint8_t { at_once, after_epoch };

struct LoomConfig {
  FencePlanner fences{prm::UmrFence::strong};
  Ending ending = Ending::at_once;
  bool keep_atomic = false;  // UmrLimits::change_atomic is false: the right to atomics stays
  uint16_t lcore = 0;        // of the worker, for diagnosis
  // Keys on the way from a key to memory that the device follows, at most (UmrLimits); a key that
  // needs more is refused when it is bound, since the device does so at its use only.
  uint32_t max_indirection = 1;
};

// How a key shall show a view.
struct Bind {
  uint8_t access = 0;      // mkey_access()
  bool has_start = false;  // the first byte is at `start`, else at 0
  uint64_t start = 0;
  bool reads_keys = false;  // pieces lie under keys of the same loom
  bool owner_only = false;  // no one but the owner knows the key's handles: a tag may come round
  uint64_t wr_id = 0;
  // Keys on the way to memory, this one included. 0: keys among the pieces are of the loom's pool,
  // which knows theirs; of others' keys the caller says it. 1: no piece lies under a key, and none
  // is looked for. A builder's pieces are not seen: there 0 is 1.
  uint8_t levels = 0;
};

struct LoomCounters {
  Counter woven;        // UMRs that completed
  Counter invalidated;  // invalidations that completed
  Counter poisoned;     // keys whose WQE failed or was flushed
  Counter swaps;        // posted
  Counter parked;       // keys changed for another because their tags were used up
};

class Loom;
// One key of a swap.
struct SwapItem {
  Binding* binding = nullptr;  // of the same loom
  Layout view;
  Bind how;
};

class Loom {
 public:
  // Queue, pool and epochs outlive the loom.
  static Result<std::unique_ptr<Loom>> create(queue::Sq& sq, KeyPool& pool, Epochs& epochs,
                                              const LoomConfig& config);
  Loom(const Loom&) = delete;
  Loom& operator=(const Loom&) = delete;
  // The queue is gone, all bindings have ended: every key goes back to the pool, which destroys it.
  ~Loom();

  // A key that shows nothing yet, for bind(); empty while the pool is dry.
  [[nodiscard]] Binding take() noexcept;
  // Makes the key of a binding show the view, under a new tag. Behind what is posted on the queue;
  // usable there by the next WQE, elsewhere once binding.valid().
  Outcome bind(queue::WqeCursor& c, Binding& b, const Bind& how, const View& view) noexcept;
  // The same by any builder of a UMR: build(cursor, key as it is, new tag, fence bits) -> Outcome.
  template <typename Build>
  Outcome bind_with(queue::WqeCursor& c, Binding& b, const Bind& how, Build build) noexcept;
  // For such builders: what the key shall be, its own view and length aside.
  [[nodiscard]] ListRequest request(const IndirectKey& key, uint8_t tag,
                                    const Bind& how) const noexcept {
    return {.key = key.lkey,
            .max_entries = key.max_entries,
            .new_tag = tag,
            .access = how.access,
            .has_start = how.has_start,
            .keep_atomic = config_.keep_atomic,
            .log_entity = key.log_entity,
            .start = how.start};
  }
  // Changes a key that keeps its tag, by a builder of such a change (umr/patch.hh, change_key()):
  // build(cursor, key, UmrWr) -> Outcome. Its binding is valid again when the change has completed.
  template <typename Build>
  Outcome change_with(queue::WqeCursor& c, Binding& b, const Bind& how, Build build) noexcept;
  // A layout of any form. List memory is given back by the caller, as for weave().
  Outcome bind(queue::WqeCursor& c, Binding& b, const Bind& how, const Means& means,
               const Layout& layout) noexcept;
  // All keys at once with one doorbell: each gets a new tag, and its binding shows the new handle
  // when the last one has completed. Whoever holds an old handle reads old data or faults. If one
  // is refused by the device, all end poisoned. Nothing is posted where the outcome says so.
  // Of an item that reads keys, entries under keys of items before it name these by their handles
  // of now, and show what they will show.
  Outcome swap(std::span<const SwapItem> items, const Means& means, uint64_t wr_id) noexcept;
  // With lists inline only, of keys that lie directly over memory.
  Outcome swap(std::span<const SwapItem> items, uint64_t wr_id) noexcept;
  // The key shows nothing any more; the binding keeps it. As ever with the next doorbell.
  void drop(Binding& b) noexcept;

  // Appends the invalidations that wait and rings once, with a completion for the last WQE.
  void commit(queue::WqeCursor& c) noexcept;
  // The same without anything else to post. True: something was posted.
  bool flush() noexcept;
  [[nodiscard]] uint32_t ending() const noexcept { return ending_count_; }

  // A completion of the queue; returns its wr id. An error stops the loom until restart(). An entry
  // about a wrong signature (CqeOpcode::sig_err) is of no request and is passed over.
  uint64_t completed(const queue::Completion& c) noexcept;
  // After Sq::retire(): what is complete.
  void settle() noexcept { settle_until(sq_.retired()); }
  // Once a round: keys that nobody can use any more go back to the stash.
  void turn() noexcept;

  // The queue has been drained and reset: keys whose WQE failed are rebuilt with the next doorbell,
  // unless they are bound anew before.
  // Before Sq::reset() if the queue's clock is to be right.
  void restart() noexcept;
  // An error completion has been seen and not been recovered from.
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] bool idle() const noexcept { return head_ == tail_; }
  [[nodiscard]] uint32_t parked() const noexcept { return limbo_.parked(); }
  [[nodiscard]] queue::Sq& sq() noexcept { return sq_; }
  [[nodiscard]] const LoomCounters& counters() const noexcept { return counters_; }
  void release_owner() noexcept {
    owner_.release();
    stash_.release_owner();
  }

 private:
  friend class Binding;
  // A WQE that changes a key, until it completes.
  struct Change {
    IndirectKey* key;
    uint32_t end;   // position behind it
    uint32_t swap;  // blocks from the beginning of its swap to `end`; 0: none
  };

  Loom(queue::Sq& sq, KeyPool& pool, Epochs& epochs, const LoomConfig& config);
  // `levels`: how many the key will have.
  template <typename Build>
  Outcome bind_at(queue::WqeCursor& c, Binding& b, const Bind& how, uint32_t levels,
                  Build build) noexcept;
  [[nodiscard]] uint32_t levels_over(const View& view) const noexcept;
  [[nodiscard]] uint32_t deepest_of(const View& view) const noexcept
      __asm__("kilim_cold_loom_deepest_of");
  [[nodiscard]] uint32_t levels_of(const Bind& how, const Layout& layout) const noexcept;
  [[nodiscard]] bool too_deep(uint32_t levels) const noexcept {
    return levels > config_.max_indirection;
  }
  template <typename Build>
  Outcome append(queue::WqeCursor& c, IndirectKey& key, bool reads_keys, KeyState to,
                 Build build) noexcept;
  Outcome append_invalidate(queue::WqeCursor& c, IndirectKey& key) noexcept;
  // Cold, and so named for who looks at the undefined symbols of the hot part.
  void commit_ending() noexcept __asm__("kilim_cold_loom_commit_ending");
  [[nodiscard]] bool tags_used_up(IndirectKey& key) noexcept;
  void replace(Binding& b, IndirectKey& fresh) noexcept;
  IndirectKey* take_key() noexcept;
  // umr/loom_forms.cc
  Outcome take_spares(std::span<const SwapItem> items) noexcept;
  Outcome rehearse(std::span<const SwapItem> items, const Means& means) noexcept;
  Outcome post_swap(std::span<const SwapItem> items, const Means& means, uint64_t wr_id) noexcept;
  void renew_entries(uint32_t from, uint32_t to, std::span<const SwapItem> before,
                     const Means& means) noexcept;
  [[nodiscard]] uint32_t first_torn(uint32_t position) const noexcept;
  void to_end(IndirectKey& key) noexcept;
  IndirectKey* next_ending() noexcept;
  void end(IndirectKey& key) noexcept;
  void route(IndirectKey& key) noexcept;
  void give(IndirectKey& key) noexcept;
  void settle_until(uint32_t position) noexcept;
  void freed(IndirectKey& key) noexcept __asm__("kilim_cold_loom_freed");
  void fail(uint32_t position) noexcept __asm__("kilim_cold_loom_fail");
  void poison(const Change& change) noexcept;
  void use(IndirectKey& key, const queue::WqeCursor& c) noexcept;

  queue::Sq& sq_;
  KeyPool& pool_;
  LoomConfig config_;
  KeyStash stash_;
  Limbo limbo_;
  FenceTrack fences_;
  QueueClock* clock_ = nullptr;
  Epochs& epochs_;
  std::unique_ptr<Change[]> changes_;  // a ring
  uint32_t mask_;
  uint32_t head_ = 0, tail_ = 0;
  uint32_t ending_first_ = IndirectKey::none;  // a queue: the oldest goes first
  uint32_t ending_last_ = IndirectKey::none;
  uint32_t ending_count_ = 0;
  uint32_t spare_ = IndirectKey::none;  // keys taken for a swap
  uint32_t bound_ = 0;                  // bindings alive
  bool failed_ = false;
  LoomCounters counters_;
  [[no_unique_address]] Owner owner_;
};

}  // namespace kilim::umr
