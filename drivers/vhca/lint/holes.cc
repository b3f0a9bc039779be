// SPDX-License-Identifier: BSD-3-Clause
// Memory that went away behind the back of its regions. Adapter's lock held.
#include "kilim/prm/lint.hh"
#include "vhca/lint/lint.hh"
#include "vhca/memory/dma.hh"
#include "vhca/tpt/memory_map.hh"
#include "vhca/tpt/translate.hh"

namespace kilim::vhca::lint {

namespace {

using prm::lint::Rule;

// Whether pinned memory is there, whatever its protection is now.
bool is_mapped(uint64_t va) noexcept {
  uint8_t byte = 0;
  if (memory::dma::load(Va{va}, byte)) return true;
  tpt::MappingKind kind;
  tpt::PageRange around;
  return tpt::find_mapping(va, around, kind) && around.start <= va && !kind.may_read;
}

// The first page of a piece that is not there; 0: all of it is.
uint64_t first_hole(tpt::Piece p) noexcept {
  constexpr uint64_t page = 4096;
  constexpr uint64_t most_pages = 4096;
  const uint64_t end = p.va + p.bytes;
  uint64_t at = p.va;
  for (uint64_t n = 0; at < end && n < most_pages; n++, at = (at & ~(page - 1)) + page) {
    if (!is_mapped(at)) return at;
  }
  return is_mapped(end - 1) ? 0 : end - 1;
}

}  // namespace

// Pinned memory stays a card's whatever the process does with its addresses.
void Lint::check_memory(LintQueue& q, LintWqe& w, const wq::SendWqe& wqe) noexcept {
  wq::DataList data;
  const prm::lint::QueueKind kind = queue_kind(q.qp->type);
  const Bytes bytes{wqe.bytes.data(), wqe.ds * std::size_t{octoword_bytes}};
  const std::size_t at = prm::lint::data_at(bytes, static_cast<prm::Opcode>(wqe.opcode), kind);
  if (at == 0 || !wq::decode_data(bytes, at, data)) return;
  for (const tpt::Segment& s : std::span(data.segments).first(data.count)) {
    const tpt::Mkey* m = s.immediate ? nullptr : around_.keys->at(s.key >> 8);
    if (m == nullptr) continue;
    Finding f;
    if (find_hole(s, {m->pd, q.qp->qpn.value(), 0}, f)) return report(q, w, bytes, f);
  }
}

// Whether memory behind the range is not what it was when its regions were registered.
bool Lint::find_hole(const tpt::Segment& s, const tpt::Access& need, Finding& f) const noexcept {
  tpt::Walk walk;
  tpt::Piece piece;
  if (!walk.open(*around_.keys, around_.profile->max_indirection, s.key, s.addr, s.bytes, need)
           .ok())
    return false;
  while (walk.next(piece)) {
    if (piece.paged != nullptr) continue;
    uint64_t hole = regions_.lost(walk.piece_index(), piece.va, piece.bytes);
    if (hole == 0) hole = first_hole(piece);
    if (hole == 0) continue;
    f = {Rule::unmapped_region, {s.key, hole}};
    return true;
  }
  return false;
}

}  // namespace kilim::vhca::lint
