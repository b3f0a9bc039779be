// SPDX-License-Identifier: BSD-3-Clause
// Moves bytes between lists of segments. Adapter's lock held. Never allocates; client memory only
// by the guarded copy.
#include "vhca/tpt/transfer.hh"

#include <algorithm>
#include <array>

#include "vhca/memory/dma.hh"
#include "vhca/tpt/fault_walk.hh"
#include "vhca/tpt/paged_copy.hh"
#include "vhca/tpt/paging.hh"
#include "vhca/tpt/pinned_copy.hh"
#include "vhca/tpt/signature_move.hh"

namespace kilim::vhca::tpt {

namespace {

// The pieces of a list of segments, one after the other, at most `bytes` in all.
class ListWalk {
 public:
  ListWalk(const Translator& t, const SegmentList& list, uint64_t bytes) noexcept
      : t_(t), list_(list), left_(bytes) {}

  bool next(Piece& piece) noexcept {
    for (;;) {
      if (in_key_ && walk_.next(piece)) {
        pieces_++;
        return true;
      }
      if (in_key_ && !walk_.denied().ok()) {
        denied_ = walk_.denied();
        return false;
      }
      in_key_ = false;
      if (left_ == 0 || at_ == list_.segments.size()) return false;
      const Segment& s = list_.segments[at_++];
      uint64_t n = std::min(s.bytes, left_);
      left_ -= n;
      if (n == 0) continue;
      key_ = s.key;
      if (s.immediate) {
        piece = {s.addr, n, nullptr};
        return true;
      }
      denied_ = walk_.open(*t_.keys, t_.max_indirection, s.key, s.addr, n, list_.need);
      if (!denied_.ok()) return false;
      signed_ = signed_ || walk_.is_signed();
      in_key_ = true;
    }
  }
  [[nodiscard]] Verdict denied() const noexcept { return denied_; }
  [[nodiscard]] uint32_t key() const noexcept { return key_; }
  [[nodiscard]] uint32_t pieces() const noexcept { return pieces_; }
  [[nodiscard]] bool is_signed() const noexcept { return signed_; }

 private:
  const Translator& t_;
  const SegmentList& list_;
  uint64_t left_;
  std::size_t at_ = 0;
  bool in_key_ = false;
  bool signed_ = false;
  Verdict denied_;
  uint32_t key_ = 0;
  uint32_t pieces_ = 0;
  Walk walk_;
};

// One side of a transfer: checked by a walk that remembers what it finds, so that only a long list
// is walked twice.
class Pieces {
 public:
  Pieces(const Translator& t, const SegmentList& list, uint64_t bytes) noexcept
      : t_(t), list_(list), bytes_(bytes), again_(t, list, bytes) {}

  Verdict check(uint32_t& bad_key) noexcept {
    ListWalk walk = again_;
    Piece piece;
    while (walk.next(piece)) {
      if (found_ < first_.size()) first_[found_] = piece;
      paged_ = paged_ || piece.paged != nullptr;
      found_++;
    }
    if (!walk.denied().ok()) bad_key = walk.key();
    of_keys_ = walk.pieces();
    signed_ = walk.is_signed();
    return walk.denied();
  }
  bool next(Piece& piece) noexcept {
    if (found_ > first_.size()) return again_.next(piece);
    if (taken_ == found_) return false;
    piece = first_[taken_++];
    return true;
  }
  [[nodiscard]] uint32_t of_keys() const noexcept { return of_keys_; }
  [[nodiscard]] bool paged() const noexcept { return paged_; }
  [[nodiscard]] bool is_signed() const noexcept { return signed_; }
  // After check(): what the kernel's fault handler finds of the pages that are not there is brought
  // in, so that the next try finds them all.
  Verdict bring_in() noexcept {
    ListWalk walk = again_;
    Piece piece;
    while (walk.next(piece)) {
      if (!missing(piece)) continue;
      if (!list_.need.may_fault) return t_.paging->bring_in(piece, writes(), false);
      return is_signed() ? bring_in_each() : bring_in_as_kernel();
    }
    return {};
  }

 private:
  [[nodiscard]] bool writes() const noexcept {
    constexpr uint32_t rights =
        prm::mkey::local_write | prm::mkey::remote_write | prm::mkey::atomic;
    return (list_.need.rights & rights) != 0;
  }
  [[nodiscard]] bool missing(const Piece& piece) const noexcept {
    if (piece.paged == nullptr) return false;
    const PageLock lock;
    return !is_there(piece, writes());
  }
  // The kernel's handler knows nothing of a signed key either, but a reliable connection's data is
  // all that is asked for: its memory is brought in as it lies.
  Verdict bring_in_each() noexcept {
    ListWalk walk = again_;
    Piece piece;
    Verdict worst;
    while (!worst.failed() && walk.next(piece)) {
      if (piece.paged == nullptr) continue;
      Verdict d = t_.paging->bring_in(piece, writes(), true);
      if (!d.ok()) worst = d;
    }
    return worst;
  }
  // odp.c: mlx5_ib_mr_wqe_pfault_handler() wants all bytes of a request found, while
  // mlx5_ib_mr_rdma_pfault_handler() is content with what a peer's key leads it to: the access
  // then meets the page again.
  Verdict bring_in_as_kernel() noexcept {
    constexpr uint32_t of_peer =
        prm::mkey::remote_read | prm::mkey::remote_write | prm::mkey::atomic;
    FaultWalk walk(t_, writes());
    uint64_t left = bytes_;
    uint64_t wanted = 0;
    Verdict d;
    for (const Segment& s : list_.segments) {
      const uint64_t n = std::min(s.bytes, left);
      left -= n;
      if (s.immediate || n == 0) continue;
      wanted += n;
      d = walk.serve(s.key, s.addr, n);
      if (!d.ok()) break;
    }
    const bool found = (list_.need.rights & of_peer) != 0 || walk.mapped() >= wanted;
    if (d.ok() && found) return protection::page;
    if (d != protection::gone) t_.paging->stats().add(OdpCounter::num_failed_resolutions, 1);
    return d.ok() ? protection::handler : d;
  }

  const Translator& t_;
  const SegmentList& list_;
  const uint64_t bytes_;
  ListWalk again_;
  uint32_t found_ = 0;
  uint32_t taken_ = 0;
  uint32_t of_keys_ = 0;
  bool paged_ = false;
  bool signed_ = false;
  std::array<Piece, 128> first_;
};

bool copy_pinned(uint64_t to, uint64_t from, uint64_t bytes, Transfer& result) noexcept {
  if (memory::dma::copy(Va{to}, Va{from}, bytes)) return true;
  bool from_is_there = true;
  if (copy_pinned_slowly(to, from, bytes, from_is_there)) return true;
  (from_is_there ? result.target : result.source) = protection::gone;
  result.fault_va = from_is_there ? to : from;
  return false;
}

bool copy_paged_pieces(const Piece& source, const Piece& target, uint64_t bytes,
                       Transfer& result) noexcept {
  PagedResult r = copy_paged({{source.va, bytes, source.paged}, {target.va, bytes, target.paged}});
  result.source = r.source;
  result.target = r.target;
  result.fault_va = r.source.ok() ? target.va : source.va;
  return result.ok();
}

// Before the first byte is touched both sides are there.
bool bring_in(Pieces& sources, Pieces& targets, Transfer& result) noexcept {
  if (!sources.paged() && !targets.paged()) return true;
  if (sources.paged()) result.source = sources.bring_in();
  const bool may_come = result.source.ok() || result.source.misses_page();
  if (targets.paged() && may_come) result.target = targets.bring_in();
  return result.ok();
}

// One segment each, direct keys or the adapter's memory: the way nearly all requests go.
bool simple_piece(const Translator& t, const SegmentList& list, uint64_t bytes,
                  Piece& piece) noexcept {
  if (list.segments.size() != 1 || list.segments[0].bytes < bytes) return false;
  const Segment& s = list.segments[0];
  piece = {s.addr, bytes, nullptr};
  return s.immediate || find_direct(*t.keys, s.key, s.addr, bytes, list.need, piece);
}

}  // namespace

bool copy_piece(const Piece& to, const Piece& from, uint64_t bytes, Transfer& result) noexcept {
  if (from.paged != nullptr || to.paged != nullptr)
    return copy_paged_pieces(from, to, bytes, result);
  return copy_pinned(to.va, from.va, bytes, result);
}

Verdict check_list(const Translator& t, const SegmentList& list, uint64_t bytes,
                   uint32_t& bad_key) noexcept {
  for (const Segment& s : list.segments) {
    uint64_t n = std::min(s.bytes, bytes);
    if (n == 0) break;
    bytes -= n;
    if (s.immediate) continue;
    Verdict d = check_range(*t.keys, t.max_indirection, s.key, s.addr, n, list.need);
    if (d.ok()) continue;
    bad_key = s.key;
    return d;
  }
  return {};
}

Verdict page_in(const Translator& t, const SegmentList& list, uint64_t bytes) noexcept {
  if (!t.paging->any()) return {};
  Pieces pieces(t, list, bytes);
  uint32_t bad_key = 0;
  if (Verdict d = pieces.check(bad_key); !d.ok()) return d;
  return pieces.paged() ? pieces.bring_in() : Verdict{};
}

Transfer move_bytes(const Translator& t, const SegmentList& from, const SegmentList& to,
                    uint64_t bytes) noexcept {
  Transfer result;
  if (bytes == 0) return result;
  Piece source, target;
  if (simple_piece(t, from, bytes, source) && simple_piece(t, to, bytes, target) &&
      source.paged == nullptr && target.paged == nullptr) {
    result.pieces = (from.segments[0].immediate ? 0u : 1u) + (to.segments[0].immediate ? 0u : 1u);
    if (!copy_pinned(target.va, source.va, bytes, result)) result.bad_key = from.segments[0].key;
    return result;
  }
  Pieces sources(t, from, bytes), targets(t, to, bytes);
  result.source = sources.check(result.bad_key);
  if (!result.source.ok()) return result;
  result.target = targets.check(result.bad_key);
  if (!result.target.ok()) return result;
  if (!bring_in(sources, targets, result)) return result;
  result.pieces = sources.of_keys() + targets.of_keys();
  if (sources.is_signed() || targets.is_signed()) [[unlikely]] {
    move_signed(t, from, to, bytes, result);
    return result;
  }
  source.bytes = target.bytes = 0;
  for (uint64_t left = bytes; left > 0;) {
    if (source.bytes == 0 && !sources.next(source)) break;
    if (target.bytes == 0 && !targets.next(target)) break;
    uint64_t n = std::min(source.bytes, target.bytes);
    if (!copy_piece(target, source, n, result)) break;
    source = {source.va + n, source.bytes - n, source.paged};
    target = {target.va + n, target.bytes - n, target.paged};
    left -= n;
  }
  return result;
}

// A list of which a part is refused is refused from that part on, so its good end is found by
// halves.
uint64_t allowed_bytes(const Translator& t, const SegmentList& list, uint64_t bytes,
                       uint32_t mtu) noexcept {
  uint64_t good = 0, refused = (bytes + mtu - 1) / mtu + 1;  // packets
  while (good + 1 < refused) {
    const uint64_t middle = good + (refused - good) / 2;
    uint32_t bad_key = 0;
    const bool ok = check_list(t, list, std::min(middle * mtu, bytes), bad_key).ok();
    (ok ? good : refused) = middle;
  }
  return std::min(good * mtu, bytes);
}

Transfer move_packets(const Translator& t, const SegmentList& from, const SegmentList& to,
                      uint64_t bytes, uint32_t mtu) noexcept {
  const Transfer whole = move_bytes(t, from, to, bytes);
  if (whole.ok() || whole.source.misses_page() || whole.target.misses_page()) [[likely]]
    return whole;
  const uint64_t leaves = allowed_bytes(t, from, bytes, mtu);
  const uint64_t lands = allowed_bytes(t, to, bytes, mtu);
  const uint64_t front = std::min(leaves, lands);
  if (front == bytes) return whole;  // no check has refused it: its memory is gone
  Transfer result = move_bytes(t, from, to, front);
  if (!result.ok()) return result;
  if (leaves == front)
    result.source = check_list(t, from, bytes, result.bad_key);
  else
    result.target = check_list(t, to, bytes, result.bad_key);
  return result;
}

Transfer gather_bytes(const Translator& t, const SegmentList& from, std::byte* to,
                      uint64_t bytes) noexcept {
  Segment mine{reinterpret_cast<uint64_t>(to), bytes, 0, true};
  return move_bytes(t, from, SegmentList{{&mine, 1}, {}}, bytes);
}

Transfer scatter_bytes(const Translator& t, const std::byte* from, uint64_t bytes,
                       const SegmentList& to) noexcept {
  Segment mine{reinterpret_cast<uint64_t>(from), bytes, 0, true};
  return move_bytes(t, SegmentList{{&mine, 1}, {}}, to, bytes);
}

}  // namespace kilim::vhca::tpt
