// SPDX-License-Identifier: BSD-3-Clause
// MkeyBinder: binds mkeys to memory by UMRs on one reliable connection. It claims keys from the
// pool, tracks their WQEs until they complete, invalidates keys that no Binding holds any more, and
// returns them to the pool once nobody can use their handles. Read with mkey.hh (states),
// umr/fence.hh, epoch.hh and defer_queue.hh.
// Owner: the worker of the queue; made by the control thread. Never allocates after create(), never
// blocks or logs. Whatever was bound at a cursor must be committed by commit().
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kilim/detail/base/cold.hh"
#include "kilim/detail/base/counter.hh"
#include "kilim/detail/base/outcome.hh"
#include "kilim/detail/base/owner.hh"
#include "kilim/detail/mkey/binding.hh"
#include "kilim/detail/mkey/defer_queue.hh"
#include "kilim/detail/mkey/epoch.hh"
#include "kilim/detail/mkey/mkey_cache.hh"
#include "kilim/detail/mkey/mkey_pool.hh"
#include "kilim/detail/queue/completion.hh"
#include "kilim/detail/queue/sq.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/detail/umr/fence.hh"
#include "kilim/detail/umr/layout.hh"
#include "kilim/detail/umr/list_writer.hh"
#include "kilim/detail/umr/umr_wqe.hh"

namespace kilim::inline v1::mkey {

// When the key of a binding that ends is invalidated. at_once: whoever still uses the handle gets
// an access error. after_epoch: the handle works until nobody can use it any more (epoch.hh).
enum class InvalidatePolicy : uint8_t { at_once, after_epoch };

// Properties of the device and of the worker.
struct MkeyBinderConfig {
  umr::FencePlanner fences{prm::UmrFence::strong};
  InvalidatePolicy invalidate = InvalidatePolicy::at_once;
  bool keep_atomic = false;  // the device cannot change the atomic right: UmrLimits::change_atomic
  uint16_t lcore = 0;        // of the worker, for diagnosis
  // The longest chain of indirect keys that the device follows (UmrLimits::max_indirection). A
  // deeper bind is refused here, as the device would refuse the key only when it is used.
  uint32_t max_indirection = 1;
  // umr::select_list_writer(burst::widest_simd()), for pieces that nobody has summed up.
  umr::ListWriter writer = nullptr;
};

// How a key is bound.
struct Bind {
  uint8_t access = 0;      // umr::mkey_access()
  bool has_start = false;  // the key's first byte has address `start`, else 0
  uint64_t start = 0;
  bool reads_keys = false;  // some pieces lie under keys of the same binder
  bool owner_only = false;  // only this worker ever sees the handles: a tag may repeat at once
  uint64_t wr_id = 0;
  // Indirect keys on the way to memory, this one included. 0: the binder looks the pieces' keys up
  // in its pool; keys of other pools count only if the caller gives the sum here. 1: no piece lies
  // under an indirect key, and nothing is looked up. With a builder 0 means 1.
  uint8_t levels = 0;
};

// Counts since create(). The binder's worker adds, any thread reads.
struct MkeyBinderCounters {
  Counter bound;        // UMRs that completed
  Counter invalidated;  // invalidations that completed
  Counter poisoned;     // keys whose WQE failed or was flushed
  Counter swaps;        // swaps posted
  Counter parked;       // keys replaced by another one because all their tags may be in use
};

class MkeyBinder;
// One key of a swap.
struct SwapItem {
  Binding* binding = nullptr;  // of the same binder
  umr::Layout view;
  Bind how;
};

class MkeyBinder {
 public:
  // Control thread. Queue, pool and epochs outlive the binder. ENOSPC: no clock is left in
  // `epochs`.
  static Result<std::unique_ptr<MkeyBinder>> create(queue::Sq& sq, MkeyPool& pool, Epochs& epochs,
                                                    const MkeyBinderConfig& config);
  MkeyBinder(const MkeyBinder&) = delete;
  MkeyBinder& operator=(const MkeyBinder&) = delete;
  // Returns all keys to the pool. The queue pair is destroyed and all bindings have ended.
  ~MkeyBinder();

  // A binding of a free key; empty: the pool has no free key at the moment.
  [[nodiscard]] Binding claim() noexcept;
  // Appends a UMR that makes the key translate to the view, under a new tag. The next WQE of this
  // queue may use it (lkey_behind()), others once b.valid().
  // Refused: queue_failed, too_deep, no_key, and the reasons of umr::umr_list().
  Outcome bind(queue::WqeCursor& c, Binding& b, const Bind& how, const umr::View& view) noexcept;
  // Binds the key to pieces that have not been checked: writes, sums and checks them in one pass.
  Outcome bind(queue::WqeCursor& c, Binding& b, const Bind& how,
               std::span<const umr::Piece> pieces) noexcept;
  // Binds the key by a UMR that the caller builds: build(cursor, key, new tag, UmrWr) -> Outcome.
  template <typename Build>
  Outcome bind_with(queue::WqeCursor& c, Binding& b, const Bind& how, Build build) noexcept;
  // For builders: everything that a UMR says about the key besides its list and length.
  [[nodiscard]] umr::ListRequest request(const Mkey& key, uint8_t tag,
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
  // Appends a change of a bound key that keeps its tag (umr/patch.hh, umr::change_key()), by
  // build(cursor, key, UmrWr) -> Outcome. The binding is valid again when the change has completed.
  template <typename Build>
  Outcome change_with(queue::WqeCursor& c, Binding& b, const Bind& how, Build build) noexcept;
  // Binds the key to a layout of any form. A list in context.memory is released by the caller when
  // the UMR has completed.
  Outcome bind(queue::WqeCursor& c, Binding& b, const Bind& how, const umr::UmrContext& context,
               const umr::Layout& layout) noexcept;
  // Binds several keys with one doorbell, or none of them. Each gets a new tag; the bindings return
  // the new handles when the last UMR has completed. Users of an old handle read old data or get an
  // access error. If the device refuses one UMR, all keys end poisoned.
  // An item with reads_keys may name keys of earlier items by their present handles; its entries
  // get the new ones.
  Outcome swap(std::span<const SwapItem> items, const umr::UmrContext& context,
               uint64_t wr_id) noexcept;
  // Swaps keys with inline lists only; the pieces lie under regions' keys.
  Outcome swap(std::span<const SwapItem> items, uint64_t wr_id) noexcept;
  // Queues an invalidation of the key, which the next doorbell posts; the binding keeps the key.
  void invalidate(Binding& b) noexcept;

  // Appends the queued invalidations as far as there is room, asks for a completion of the last WQE
  // and rings the doorbell.
  void commit(queue::WqeCursor& c) noexcept;
  // Posts queued invalidations alone. True: something was posted.
  bool flush() noexcept;
  // Invalidations that are queued and not posted, at most.
  [[nodiscard]] uint32_t invalidations_due() const noexcept { return due_count_; }

  // Handles a completion of the queue; returns its wr id. An error stops the binder until
  // recover(). CqeOpcode::sig_err reports a key, not a request, and changes nothing here.
  uint64_t handle_completion(const queue::Completion& c) noexcept;
  // For callers that retire completions themselves: updates the keys of WQEs up to Sq::retired().
  void complete_retired() noexcept { complete_until(sq_.retired()); }
  // Called once a round: advances the epoch and returns keys that nobody can use to the cache.
  void poll() noexcept;

  // Called when the failed queue has been drained, before Sq::reset(). Poisoned keys are
  // invalidated with the next doorbell unless they are bound before.
  void recover() noexcept;
  // An error completion was seen, and recover() not called yet: nothing can be bound.
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  // True: no WQE that changes a key is under way.
  [[nodiscard]] bool idle() const noexcept { return head_ == tail_; }
  // Keys that wait until nobody can use their handles.
  [[nodiscard]] uint32_t deferred() const noexcept { return deferred_.size(); }
  [[nodiscard]] queue::Sq& sq() noexcept { return sq_; }
  [[nodiscard]] const MkeyBinderCounters& counters() const noexcept { return counters_; }
  // Lets another worker use the binder from now on; the two never use it at the same time.
  void release_owner() noexcept {
    owner_.release();
    cache_.release_owner();
  }

 private:
  friend class Binding;
  // A posted WQE that changes a key.
  struct Change {
    Mkey* key;
    uint32_t end;   // send queue position behind the WQE
    uint32_t swap;  // 64-byte blocks from the start of its swap to `end`; 0: in no swap
  };

  MkeyBinder(queue::Sq& sq, MkeyPool& pool, Epochs& epochs, const MkeyBinderConfig& config);
  // `levels`: of the key once it is bound.
  template <typename Build>
  Outcome bind_at(queue::WqeCursor& c, Binding& b, const Bind& how, uint32_t levels,
                  Build build) noexcept;
  [[nodiscard]] uint32_t levels_over(const umr::View& view, uint32_t levels) const noexcept;
  [[nodiscard]] KILIM_COLD uint32_t deepest_of(const umr::View& view) const noexcept;
  [[nodiscard]] uint32_t levels_of(const Bind& how, const umr::Layout& layout) const noexcept;
  [[nodiscard]] bool too_deep(uint32_t levels) const noexcept {
    return levels > config_.max_indirection;
  }
  template <typename Build>
  Outcome append(queue::WqeCursor& c, Mkey& key, bool reads_keys, MkeyState to,
                 Build build) noexcept;
  Outcome append_invalidate(queue::WqeCursor& c, Mkey& key) noexcept;
  KILIM_COLD void commit_invalidations() noexcept;
  [[nodiscard]] bool tags_used_up(Mkey& key) noexcept;
  void replace(Binding& b, Mkey& fresh) noexcept;
  Mkey* claim_key() noexcept;
  // mkey/mkey_binder_layouts.cc
  Outcome claim_spares(std::span<const SwapItem> items) noexcept;
  Outcome dry_run(std::span<const SwapItem> items, const umr::UmrContext& context) noexcept;
  Outcome post_swap(std::span<const SwapItem> items, const umr::UmrContext& context,
                    uint64_t wr_id) noexcept;
  void renew_entries(uint32_t from, uint32_t to, std::span<const SwapItem> before,
                     const umr::UmrContext& context) noexcept;
  [[nodiscard]] uint32_t first_failed(uint32_t position) const noexcept;
  void queue_invalidation(Mkey& key) noexcept;
  Mkey* next_due() noexcept;
  void end(Mkey& key) noexcept;
  void route(Mkey& key) noexcept;
  void return_to_cache(Mkey& key) noexcept;
  void complete_until(uint32_t position) noexcept;
  KILIM_COLD void handle_invalidated(Mkey& key) noexcept;
  KILIM_COLD void fail(uint32_t position) noexcept;
  void poison(const Change& change) noexcept;
  void use(Mkey& key, const queue::WqeCursor& c) noexcept;

  queue::Sq& sq_;
  MkeyPool& pool_;
  MkeyBinderConfig config_;
  MkeyCache cache_;
  DeferQueue deferred_;
  umr::FenceTrack fences_;
  QueueClock* clock_ = nullptr;
  Epochs& epochs_;
  std::unique_ptr<Change[]> changes_;  // a ring of WQEs that have not completed
  uint32_t mask_;
  uint32_t head_ = 0, tail_ = 0;
  uint32_t due_first_ = Mkey::none;  // keys to invalidate, the oldest first
  uint32_t due_last_ = Mkey::none;
  uint32_t due_count_ = 0;
  uint32_t spare_ = Mkey::none;  // keys claimed for a swap
  uint32_t bound_ = 0;           // bindings that hold a key
  bool failed_ = false;
  MkeyBinderCounters counters_;
  Owner owner_;
};

}  // namespace kilim::inline v1::mkey
