// SPDX-License-Identifier: BSD-3-Clause
// Copies page-wise. Adapter's lock held. Client memory only by the guarded copy.
#include "vhca/tpt/paged_copy.hh"

#include <algorithm>

#include "vhca/memory/dma.hh"
#include "vhca/tpt/paging.hh"

namespace kilim::vhca::tpt {

namespace {

constexpr uint64_t step_bytes = 16384;

// The table has been wrong about it: a change that nobody reports, of protection for instance.
Verdict gone(const Piece& p) noexcept {
  if (p.paged == nullptr) return protection::gone;
  forget(p);
  return protection::page;
}

bool readable(const Piece& p) noexcept {
  std::byte sink[512];
  for (uint64_t done = 0; done < p.bytes; done += sizeof(sink)) {
    if (!memory::dma::copy_in(sink, Va{p.va + done},
                              std::min<uint64_t>(p.bytes - done, sizeof(sink))))
      return false;
  }
  return true;
}

}  // namespace

bool is_there(const Piece& p, bool write) noexcept {
  if (p.paged == nullptr) return true;
  PageRange r = PageRange::of(p.va, p.bytes);
  uint8_t rights = write ? PageTable::present | PageTable::writable : PageTable::present;
  return p.paged->table.covers(r) && p.paged->table.holds(r, rights);
}

void forget(const Piece& piece) noexcept {
  PageRange r = PageRange::of(piece.va, piece.bytes).within(piece.paged->table.range());
  if (r.empty()) return;
  const PageLock lock;
  piece.paged->invalidated(r);
}

PagedResult copy_paged(const PagedCopy& c) noexcept {
  for (uint64_t done = 0; done < c.source.bytes;) {
    uint64_t n = std::min(step_bytes, c.source.bytes - done);
    Piece source{c.source.va + done, n, c.source.paged};
    Piece target{c.target.va + done, n, c.target.paged};
    bool copied = false;
    {
      const PageLock lock;
      if (!is_there(source, false)) return {protection::page, {}};
      if (!is_there(target, true)) return {{}, protection::page};
      copied = memory::dma::copy(Va{target.va}, Va{source.va}, n);
    }
    if (!copied && !readable(source)) return {gone(source), {}};
    if (!copied) return {{}, gone(target)};
    done += n;
  }
  return {};
}

}  // namespace kilim::vhca::tpt
