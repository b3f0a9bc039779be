// SPDX-License-Identifier: BSD-3-Clause
// Faults and prefetches. Pages are touched without the page lock: an invalidation that comes
// between is noticed and starts it over, as the kernel's notifiers make mlx5_ib do.
#include "vhca/tpt/paging.hh"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "vhca/core/journal.hh"
#include "vhca/memory/probe.hh"
#include "vhca/tpt/transfer.hh"

namespace kilim::vhca::tpt {

namespace {

// Then the fault is dropped: the access will meet it again.
constexpr int most_restarts = 16;
constexpr uint64_t implicit_end = uint64_t{1} << 47;
constexpr std::size_t snapshot_pages = 512;

PageRange range_of(const PagedRegion::Shape& s) noexcept {
  if (s.va == 0 && s.bytes == UINT64_MAX) return {0, implicit_end};
  return PageRange::of(s.va, s.bytes, s.unit);
}

// Touches a range; answers with the errno of the kernel's fault handler.
int touch(const PageRange& r, bool write) noexcept {
  Va at{r.start};
  uint64_t bytes = r.end - r.start;
  if (memory::probe_range(at, bytes, write) == 0) return 0;
  return write && memory::probe_range(at, bytes, false) == 0 ? -EPERM : -EFAULT;
}

// Advice is in bounds up to the end of the region's last page (mlx5_ib, odp.c, pagefault_mr(), and
// pagefault_implicit_mr() for the whole address space).
bool reaches(const PagedRegion& region, uint64_t va, uint64_t bytes) noexcept {
  const PageRange& all = region.table.range();
  return va >= all.start && va < all.end && bytes <= all.end - va;
}

// Which pages the process has in memory: bit 63 of each word. Fewer words where the file ends.
std::size_t read_page_map(uint64_t va, std::span<uint64_t> words) noexcept {
  int fd = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  auto at = static_cast<off_t>(va / PageRange::page_bytes * sizeof(uint64_t));
  ssize_t n = ::pread(fd, words.data(), words.size_bytes(), at);
  ::close(fd);
  return n > 0 ? static_cast<std::size_t>(n) / sizeof(uint64_t) : 0;
}

}  // namespace

PagedRegion::PagedRegion(Paging& p, const Shape& s) : paging(p), shape(s), table(range_of(s)) {
  watched = table.range();
  page_events::add(*this);
  paging.stats().add(OdpCounter::num_odp_mrs, 1);
  paging.regions_++;
}

PagedRegion::~PagedRegion() {
  page_events::remove(*this);
  uint64_t went = 0;
  {
    const PageLock lock;
    went = table.clear(table.range());
  }
  paging.stats().sub(OdpCounter::num_odp_mr_pages, went);
  paging.stats().sub(OdpCounter::num_odp_mrs, 1);
  paging.regions_--;
}

void PagedRegion::invalidated(const PageRange& r) noexcept {
  if (coming.meets(r)) disturbed = true;
  if (uint64_t went = table.clear(r); went != 0) paging.note_invalidation(r, went);
}

void Paging::note_invalidation(const PageRange& r, uint64_t pages) noexcept {
  stats_.add(OdpCounter::num_invalidations, 1);
  stats_.add(OdpCounter::num_invalidation_pages, pages);
  stats_.sub(OdpCounter::num_odp_mr_pages, pages);
  if (invalidation_count_ < invalidations_.size())
    invalidations_[invalidation_count_++] = {r, pages};
  else
    invalidations_.back().pages += pages;
  news_.store(true, std::memory_order_release);
}

void Paging::drain_invalidations() noexcept {
  std::array<Invalidation, 64> taken;
  std::size_t n = 0;
  {
    const PageLock lock;
    n = invalidation_count_;
    std::copy_n(invalidations_.begin(), n, taken.begin());
    invalidation_count_ = 0;
    news_.store(false, std::memory_order_relaxed);
  }
  for (std::size_t i = 0; i < n; i++)
    journal_->page_invalidation(taken[i].range.start, taken[i].pages);
}

// Page lock held, the part of the table reserved, the pages touched.
uint64_t Paging::fault_in(PagedRegion& region, const PageRange& r, How how) noexcept {
  uint8_t rights = PageTable::present;
  if (how == How::write) rights |= PageTable::writable;
  stats_.add(OdpCounter::num_odp_mr_pages, region.table.set(r, rights));
  return r.pages();
}

int Paging::bring(PagedRegion& region, const PageRange& r, How how, uint64_t& pages) noexcept {
  if (!region.table.covers(r)) return -EFAULT;
  if (!region.table.reserve(r)) return -ENOMEM;
  for (int i = 0; i < most_restarts; i++) {
    std::array<uint64_t, snapshot_pages> map;
    std::size_t mapped = 0;
    {
      const PageLock lock;
      region.begin(r);
    }
    page_events::watch(r);
    int rc = 0;
    if (how == How::snapshot)
      mapped = read_page_map(r.start, std::span(map).first(r.pages()));
    else
      rc = touch(r, how == How::write);
    const PageLock lock;
    if (!region.end()) {
      stats_.add(OdpCounter::invalidations_faults_contentions, 1);
      continue;
    }
    if (rc != 0) return rc;
    if (how != How::snapshot) {
      pages += fault_in(region, r, how);
      return 0;
    }
    for (std::size_t p = 0; p < mapped; p++) {
      uint64_t at = r.start + p * PageRange::page_bytes;
      PageRange one{at, at + PageRange::page_bytes};
      if (map[p] >> 63 == 0) continue;
      // What the adapter may write already it may go on writing.
      if (!region.table.holds(one, PageTable::present)) fault_in(region, one, how);
      pages++;
    }
    return 0;
  }
  return -EAGAIN;
}

Verdict Paging::bring_in(const Piece& piece, bool write, bool may_fault) noexcept {
  PagedRegion& region = *piece.paged;
  uint8_t rights = write ? PageTable::present | PageTable::writable : PageTable::present;
  PageRange r = PageRange::of(piece.va, piece.bytes);
  bool covered = region.table.covers(r);
  if (covered) {
    const PageLock lock;
    if (region.table.holds(r, rights)) return {};
  }
  uint64_t pages = 0;
  int rc = -EFAULT;
  if (covered && may_fault) {
    stats_.add(OdpCounter::num_page_faults, 1);
    r = PageRange::of(piece.va, piece.bytes, region.shape.unit);
    rc = bring(region, r, region.shape.writable ? How::write : How::read, pages);
  }
  if (rc == 0) {
    stats_.add(OdpCounter::num_page_fault_pages, pages);
    journal_->page_fault(piece.va, pages);
  }
  if (rc == 0 || rc == -EAGAIN) return protection::page;
  stats_.add(OdpCounter::num_failed_resolutions, 1);
  return protection::gone;
}

int Paging::find_advised(Pdn pd, Advice advice, uint32_t key, Mkey*& m) noexcept {
  m = keys_.at(key >> 8);
  // mlx5_ib keeps those keys apart that a page fault can meet: lists and windows are among them,
  // pinned regions are not.
  if (m == nullptr || m->key != key || (m->mode == KeyMode::direct && m->paged == nullptr)) {
    stats_.add(OdpCounter::num_mrs_not_found, 1);
    return -ENOENT;
  }
  if (m->mode != KeyMode::direct) return -EINVAL;
  if (m->pd != pd) return -EPERM;
  if (advice == Advice::prefetch_write && !m->paged->shape.writable) return -EPERM;
  return 0;
}

int Paging::prefetch(Pdn pd, Advice advice, const Range& range) noexcept {
  Mkey* m = nullptr;
  if (int rc = find_advised(pd, advice, range.key, m); rc != 0) return rc;
  PagedRegion& region = *m->paged;
  const uint64_t va = m->va + (range.address - m->start);
  if (range.address < m->start || !reaches(region, va, range.bytes)) return -EFAULT;
  if (range.bytes == 0) return 0;
  PageRange all = PageRange::of(va, range.bytes, region.shape.unit);
  How how = How::read;
  if (advice == Advice::prefetch_write) how = How::write;
  if (advice == Advice::prefetch_no_fault) how = How::snapshot;
  uint64_t pages = 0;
  uint64_t step = how == How::snapshot ? snapshot_pages * PageRange::page_bytes : UINT64_MAX;
  int rc = all.empty() ? -EFAULT : 0;
  for (uint64_t at = all.start; rc == 0 && at < all.end;) {
    PageRange part{at, at + std::min(step, all.end - at)};
    rc = bring(region, part, how, pages);
    at = part.end;
  }
  if (rc != 0) return rc;
  stats_.add(OdpCounter::num_prefetch_pages, pages);
  journal_->page_prefetch(range.key, range.address, pages);
  return 0;
}

int Paging::advise(const Request& r) {
  if (!r.flush) {
    Deferred later{r.pd, r.advice, {}};
    for (const Segment& s : r.list) {
      Mkey* m = nullptr;
      if (int rc = find_advised(r.pd, r.advice, s.key, m); rc != 0) return rc;
      later.list.push_back({s.key, s.addr, s.bytes});
    }
    deferred_.push_back(std::move(later));
    return 0;
  }
  for (const Segment& s : r.list) {
    if (int rc = prefetch(r.pd, r.advice, {s.key, s.addr, s.bytes}); rc != 0) return rc;
  }
  stats_.add(OdpCounter::num_prefetches_handled, 1);
  return 0;
}

void Paging::finish(uint32_t index) noexcept {
  const auto names_it = [index](const Deferred& d) {
    return std::any_of(d.list.begin(), d.list.end(),
                       [index](const Range& r) { return r.key >> 8 == index; });
  };
  while (std::any_of(deferred_.begin(), deferred_.end(), names_it)) serve();
}

std::size_t Paging::serve_deferred() noexcept {
  const Deferred& d = deferred_.front();
  bool done = true;
  // A piece that fails does not end it (mlx5_ib, odp.c, mlx5_ib_prefetch_mr_work()).
  for (const Range& r : d.list) done = prefetch(d.pd, d.advice, r) == 0 && done;
  if (done) stats_.add(OdpCounter::num_prefetches_handled, 1);
  deferred_.pop_front();
  return 1;
}

}  // namespace kilim::vhca::tpt
