// SPDX-License-Identifier: BSD-3-Clause
// Relaxed regions: memory registered by a work request instead of a call of the system. A region is
// an indirect key with a start address over memory that is under a key already (cover.hh). Access
// reaches to the end of the last page. Deregistering only marks; flush() invalidates what is
// marked, and so does the engine by itself when a share of its keys is. A key is handed out again
// when its invalidation is complete, every worker has passed a quiescent state and every queue has
// completed what was posted until then (umr/epoch.hh), and under a new tag.
// Owner: the worker of the loom's queue, made by the control thread. For covered memory nothing
// allocates, blocks, logs or calls the system.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "kilim/base/assert.hh"
#include "kilim/base/counter.hh"
#include "kilim/base/result.hh"
#include "kilim/mr/registrar.hh"
#include "kilim/relaxed/answer.hh"
#include "kilim/relaxed/cover.hh"
#include "kilim/umr/loom_burst.hh"

namespace kilim::relaxed {

struct Config {
  uint32_t keys = 0;                   // of the loom's pool
  mr::Registrar* registrar = nullptr;  // for memory that no arena covers; null: it is refused
  uint32_t rights = mr::Access::all;   // that a key can be given (UmrLimits::change_atomic)
  uint32_t page_bytes = 4096;          // to whose borders access reaches, a power of two
  uint32_t flush_share = 4;            // a flush by itself when a 1/flush_share of the keys waits
};

struct Counters {
  Counter registered;
  Counter deregistered;
  Counter invalidated;
  Counter dry;      // registrations refused with EAGAIN
  Counter flushes;  // begun by the engine itself
};

// A registered region. It is deregistered by its engine before this value ends.
class [[nodiscard]] Region {
 public:
  Region() = default;
  Region(Region&&) = default;
  Region& operator=(Region&&) = default;
  ~Region() { KILIM_ASSERT(!key_); }

  explicit operator bool() const noexcept { return static_cast<bool>(key_); }
  // The registration is complete: its keys may go anywhere.
  [[nodiscard]] bool valid() const noexcept { return key_.valid(); }
  // The device refused it, or the queue failed meanwhile. There is no way but to deregister it.
  [[nodiscard]] bool failed() const noexcept {
    return key_.state() != umr::KeyState::valid && key_.state() != umr::KeyState::posted;
  }
  [[nodiscard]] Lkey lkey() const noexcept { return key_.lkey(); }
  [[nodiscard]] Rkey rkey() const noexcept { return key_.rkey(); }
  // For the WQE that is appended next to the same queue.
  [[nodiscard]] Lkey lkey_behind(const queue::WqeCursor& c) noexcept { return key_.lkey_behind(c); }
  [[nodiscard]] uint64_t address() const noexcept { return address_; }
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }  // that can be reached
  // Asked when a queue is to use the region for the first time: over pinned memory it is good for
  // every queue, over memory on demand for what the device pages, and an unreliable queue would
  // lose the data without a word. EOPNOTSUPP: the sentence names the capability that is missing.
  [[nodiscard]] Status usable(const mr::OdpCaps& caps, std::span<const mr::OdpUse> uses) const {
    return arena_->region.paged() ? mr::odp_refusal(caps, true, uses) : Status{Done{}};
  }

 private:
  friend class Relaxed;
  umr::Binding key_;
  Arena* arena_ = nullptr;
  uint64_t address_ = 0;
  uint64_t bytes_ = 0;
  bool maker_ = false;
};

class Relaxed {
 public:
  // The loom outlives it and invalidates keys at once when they end (umr::Ending).
  static Result<std::unique_ptr<Relaxed>> create(umr::Loom& loom, const Config& config);
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;
  // All regions are deregistered, and the loom's queue is gone.
  ~Relaxed();

  [[nodiscard]] Cover& cover() noexcept { return cover_; }
  // The loom's pool has so many keys now. By the control thread, with the worker away.
  void grow(uint32_t keys);
  // The caller's words: mr::Access bits. `out` is empty.
  struct Request {
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint32_t access = 0;
    uint64_t wr_id = 0;
  };
  // Appends the registration; usable behind it at once, elsewhere when out.valid().
  Answer register_memory(queue::WqeCursor& c, const Request& r, Region& out) noexcept;
  // Marks the region. Whoever has its keys may still reach the memory, until they are invalidated.
  void deregister(Region&& region) noexcept;
  // Rings for what has been appended, and for invalidations that wait.
  void commit(queue::WqeCursor& c) noexcept { loom_.commit(c); }
  // Has everything invalidated that was deregistered until now. True: it is; false: later, when
  // completions have been given to the loom. Posts as much as there is room for.
  bool flush() noexcept;
  // Once a round, behind the completions: what is invalidated and nobody's goes back to the pool.
  void turn() noexcept;

  // Deregistered and not known to be invalidated.
  [[nodiscard]] uint32_t waiting() const noexcept { return head_ - tail_; }
  [[nodiscard]] uint32_t live() const noexcept { return live_; }
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
  [[nodiscard]] umr::Loom& loom() noexcept { return loom_; }
  // Why the memory of the last Answer::not_covered could not be registered: an errno.
  [[nodiscard]] int refusal() const noexcept { return refusal_; }

 private:
  struct Ended {
    umr::Binding key;
    Arena* arena = nullptr;
  };
  Relaxed(umr::Loom& loom, const Config& config);
  [[nodiscard]] bool access_ok(uint32_t access) const noexcept;
  // Cold, and given copies: so the burst's values stay in registers.
  [[gnu::noinline]] Arena* cover_more(uint64_t address, uint64_t bytes, uint32_t access) noexcept;
  [[gnu::noinline]] Answer bind_long(Request r, Region& out) noexcept;
  [[gnu::noinline]] Answer undo(Region& out, Answer why) noexcept;
  [[nodiscard]] umr::Bind how(const Request& r) const noexcept {
    return {.access = umr::mkey_access(r.access),
            .has_start = true,
            .start = r.address,
            .reads_keys = false,
            .owner_only = false,
            .wr_id = r.wr_id,
            .levels = 1};
  }
  static Answer answer(const umr::Outcome& o) noexcept;
  [[gnu::noinline]] Answer dry() noexcept;
  void drop_marked() noexcept;
  void reap() noexcept;

  umr::Loom& loom_;
  Cover cover_;
  uint32_t rights_;
  uint64_t page_mask_;
  uint32_t flush_share_;
  uint32_t share_ = 0;
  uint32_t live_ = 0;
  // A ring: [tail, dropped) is being invalidated, [dropped, head) only marked.
  std::unique_ptr<Ended[]> ended_;
  uint32_t mask_ = 0;
  uint32_t head_ = 0, dropped_ = 0, tail_ = 0;
  bool closed_arena_ = false;  // some may be released
  int refusal_ = 0;
  Counters counters_;
};

// Rights that a key can have. Writing from afar needs writing at home, as with ibv_reg_mr().
inline bool Relaxed::access_ok(uint32_t access) const noexcept {
  constexpr uint32_t writes = mr::Access::remote_write | mr::Access::remote_atomic;
  return (access & ~rights_) == 0 &&
         ((access & writes) == 0 || (access & mr::Access::local_write) != 0);
}

inline Answer Relaxed::answer(const umr::Outcome& o) noexcept {
  switch (o.why) {
    case umr::Refusal::none:
      return Answer::done;
    case umr::Refusal::no_room:
      return Answer::no_room;
    case umr::Refusal::queue_failed:
      return Answer::queue_failed;
    case umr::Refusal::no_key:
      return Answer::dry;
    default:
      return Answer::too_long;
  }
}

[[gnu::always_inline]] inline Answer Relaxed::register_memory(queue::WqeCursor& c, const Request& r,
                                                              Region& out) noexcept {
  KILIM_ASSERT(!out);
  const uint64_t end = (r.address + r.bytes + page_mask_) & ~page_mask_;
  if (r.bytes == 0 || r.address + r.bytes < r.address || end <= r.address) [[unlikely]]
    return Answer::bad_range;
  if (!access_ok(r.access)) [[unlikely]]
    return Answer::bad_access;
  umr::Binding key = loom_.take();
  if (!key) [[unlikely]]
    return dry();
  const uint64_t bytes = end - r.address;
  const uint32_t rights = r.access & mr::Access::all;
  Arena* arena = cover_.find(r.address, bytes, rights);
  const bool covered = arena != nullptr;
  if (!covered) [[unlikely]] {
    arena = cover_more(r.address, bytes, rights);
    if (arena == nullptr) return Answer::not_covered;
  }
  out.key_.start(std::move(key));
  out.arena_ = arena;
  out.address_ = r.address;
  out.bytes_ = bytes;
  out.maker_ = !covered && arena->keeper == Keeper::maker;
  Answer a = Answer::done;
  if (bytes > prm::umr::max_piece_bytes) [[unlikely]] {
    loom_.commit(c);
    a = bind_long(r, out);
    c.reload();
  } else {
    const uint64_t iova = arena->region.iova + (r.address - arena->region.address);
    const umr::Piece piece{iova, static_cast<uint32_t>(bytes), arena->region.lkey};
    a = answer(loom_.bind(c, out.key_, how(r), umr::View{&piece, 1, bytes}));
  }
  if (a != Answer::done) [[unlikely]]
    return undo(out, a);
  arena->users++;
  live_++;
  counters_.registered.add(1);
  return Answer::done;
}

inline void Relaxed::deregister(Region&& region) noexcept {
  KILIM_ASSERT(region && head_ - tail_ <= mask_);
  if (region.maker_) [[unlikely]]
    region.arena_->open = false;
  ended_[head_++ & mask_] = {std::move(region.key_), region.arena_};
  live_--;
  counters_.deregistered.add(1);
  if (head_ - dropped_ >= share_) [[unlikely]] {
    drop_marked();
    counters_.flushes.add(1);
  }
}

// Their invalidations go with the next doorbell.
inline void Relaxed::drop_marked() noexcept {
  for (; dropped_ != head_; dropped_++) loom_.drop(ended_[dropped_ & mask_].key);
}

// In order, as they were posted. A key whose invalidation failed is rebuilt by the loom first.
inline void Relaxed::reap() noexcept {
  const uint32_t from = tail_;
  for (; tail_ != dropped_; tail_++) {
    Ended& e = ended_[tail_ & mask_];
    if (e.key.state() != umr::KeyState::free) break;
    e.key.end();
    e.arena->users--;
    if (!e.arena->open) closed_arena_ = true;
  }
  counters_.invalidated.add(tail_ - from);
}

inline bool Relaxed::flush() noexcept {
  drop_marked();
  (void)loom_.flush();
  reap();
  return tail_ == dropped_;
}

inline void Relaxed::turn() noexcept {
  if (loom_.ending() != 0) (void)loom_.flush();
  reap();
  loom_.turn();
  cover_.follow_eal();
  if (closed_arena_) [[unlikely]] {
    cover_.release_unused();
    closed_arena_ = false;
  }
}

}  // namespace kilim::relaxed
