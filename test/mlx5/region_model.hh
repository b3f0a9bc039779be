// SPDX-License-Identifier: BSD-3-Clause
// What ought to be true of regions over an arena of a few pages: which page is mapped how, which
// region or window lets whom do what. Plain and slow on purpose; knows nothing of keys or tables.
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "kilim/detail/mr/region.hh"

namespace kilim::test {

enum class Mapped : uint8_t { no, read, write };

struct ModelArena {
  static constexpr std::size_t pages = 24;
  static constexpr std::size_t page_bytes = 4096;
  std::array<Mapped, pages> map{};

  // Offsets from the arena's begin. Whether all of it is mapped, and for writing where that is
  // asked for.
  [[nodiscard]] bool there(uint64_t from, uint64_t bytes, bool write) const {
    for (uint64_t p = from / page_bytes; p <= (from + bytes - 1) / page_bytes; p++) {
      if (p >= pages || map[p] == Mapped::no || (write && map[p] != Mapped::write)) return false;
    }
    return true;
  }
};

struct ModelRegion {
  mr::Kind kind = mr::Kind::pinned;
  uint64_t from = 0, bytes = 0;  // in the arena; an implicit region has all of it
  uint32_t access = 0;           // without the bit of on-demand paging
  bool foreign = false;          // in another domain than the queue
  uint64_t number = 0;           // no other region ever has it

  [[nodiscard]] bool paged() const { return kind != mr::Kind::pinned; }
  [[nodiscard]] bool has(uint32_t bit) const { return (access & bit) != 0; }
  [[nodiscard]] bool covers(uint64_t at, uint64_t n) const {
    return kind == mr::Kind::implicit || (at >= from && n <= bytes && at - from <= bytes - n);
  }
  // Advice reaches to the end of the last page: mlx5_ib, odp.c, pagefault_mr() asks ib_umem_end().
  [[nodiscard]] bool may_fetch(uint64_t at, uint64_t n) const {
    const uint64_t end =
        (from + bytes + ModelArena::page_bytes - 1) & ~uint64_t{ModelArena::page_bytes - 1};
    return kind == mr::Kind::implicit || (at >= from && at <= end && n <= end - at);
  }
  [[nodiscard]] bool meets_page(std::size_t nth) const {
    return from < (nth + 1) * ModelArena::page_bytes && nth * ModelArena::page_bytes < from + bytes;
  }
  // Somebody may write, or let others write: as ib_access_writable().
  [[nodiscard]] bool writable() const {
    return has(mr::Access::local_write | mr::Access::remote_write | mr::Access::remote_atomic |
               mr::Access::mw_bind);
  }
};

// As ib_check_mr_access(): writing from outside needs writing from here.
inline bool rights_make_sense(uint32_t access) {
  constexpr uint32_t from_outside = mr::Access::remote_write | mr::Access::remote_atomic;
  return (access & from_outside) == 0 || (access & mr::Access::local_write) != 0;
}

// 0, or the errno of registering (or of re-registering as) `r`.
inline int expect_registration(const ModelArena& arena, const ModelRegion& r) {
  if (!rights_make_sense(r.access)) return EINVAL;
  return r.paged() || arena.there(r.from, r.bytes, r.writable()) ? 0 : EFAULT;
}

enum class Act : uint8_t { remote_write, remote_read, local_read, remote_atomic };

// either: mlx5_ib resolves a fault with all rights of its region, so a page that may only be read
// is out of a writable region's reach until advice has fetched it for reading.
enum class Expect : uint8_t { refused, allowed, either };

inline bool changes(Act act) {
  return act == Act::remote_write || act == Act::remote_atomic;
}

inline Expect expect_access(const ModelArena& arena, const ModelRegion& r, Act act, uint64_t at,
                            uint64_t n) {
  if (r.foreign || !r.covers(at, n)) return Expect::refused;
  if (act == Act::remote_write && !r.has(mr::Access::remote_write)) return Expect::refused;
  if (act == Act::remote_read && !r.has(mr::Access::remote_read)) return Expect::refused;
  if (act == Act::remote_atomic && !r.has(mr::Access::remote_atomic)) return Expect::refused;
  if (!arena.there(at, n, changes(act))) return Expect::refused;
  const bool faults_for_writing = r.paged() && r.writable();
  return faults_for_writing && !arena.there(at, n, true) ? Expect::either : Expect::allowed;
}

// 0, or the errno of advice that waits. `pages` is how a paged region is fetched: for reading, for
// writing, or only what is there.
inline int expect_advice(const ModelArena& arena, const ModelRegion& r, int advice, uint64_t at,
                         uint64_t n) {
  constexpr int for_writing = 1, no_fault = 2;
  if (!r.paged()) return ENOENT;
  if (r.foreign) return EPERM;
  if (advice == for_writing && !r.writable()) return EPERM;
  if (!r.may_fetch(at, n)) return EFAULT;
  if (advice == no_fault || arena.there(at, n, advice == for_writing)) return 0;
  return arena.there(at, n, false) ? EPERM : EFAULT;
}

struct ModelWindow {
  bool of_queue = false;  // type 2: nobody else's than the queue's that bound it
  bool bound = false;
  uint64_t region = 0;           // its number; when that has gone the window shows nothing
  uint64_t from = 0, bytes = 0;  // in the arena
  uint32_t access = 0;
};

// Whether a window may be bound to this part of a region, with these rights. A region's domain is
// looked at when the window is used.
inline bool may_bind(const ModelRegion& r, const ModelWindow& w) {
  constexpr uint32_t changes = mr::Access::remote_write | mr::Access::remote_atomic;
  return r.has(mr::Access::mw_bind) && w.bytes > 0 && r.covers(w.from, w.bytes) &&
         ((w.access & changes) == 0 || r.has(mr::Access::local_write));
}

// Through a window that is bound to `r`, null if that is no more: a region may be deregistered and
// re-registered under its windows. mlx5_ib and the device keep no account of them, and a window's
// list names the region's key, which is looked up at each access with what its owner may do.
inline Expect expect_through(const ModelArena& arena, const ModelWindow& w, const ModelRegion* r,
                             Act act, uint64_t at, uint64_t n) {
  const uint32_t right = act == Act::remote_write    ? mr::Access::remote_write
                         : act == Act::remote_atomic ? mr::Access::remote_atomic
                                                     : mr::Access::remote_read;
  if (!w.bound || r == nullptr || (w.access & right) == 0) return Expect::refused;
  if (at < w.from || n > w.bytes || at - w.from > w.bytes - n) return Expect::refused;
  ModelRegion owned = *r;
  owned.access |= mr::Access::remote_read;
  constexpr uint32_t changing = mr::Access::remote_write | mr::Access::remote_atomic;
  owned.access &= ~changing;
  if (r->has(mr::Access::local_write)) owned.access |= changing;
  return expect_access(arena, owned, act, at, n);
}

}  // namespace kilim::test
