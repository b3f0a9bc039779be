// SPDX-License-Identifier: BSD-3-Clause
// Plain requests, one after the other: WQE in, keys, bytes, completion out. Whatever can change
// only between two turns of the engine is asked once for all of them. Adapter's lock held. Never
// allocates; a WQE is untrusted.
#include "vhca/exec/plain.hh"

#include <algorithm>
#include <cstring>

#include "kilim/detail/base/units.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/doorbell.hh"
#include "vhca/core/journal.hh"
#include "vhca/exec/observed.hh"
#include "vhca/exec/opcodes.hh"
#include "vhca/exec/plain_entries.hh"
#include "vhca/exec/plain_frames.hh"
#include "vhca/exec/plain_steps.hh"
#include "vhca/exec/plain_wqe.hh"
#include "vhca/exec/rdma_filter.hh"
#include "vhca/memory/dma.hh"
#include "vhca/memory/dma_inline.hh"
#include "vhca/transport/requester.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/posted_nops.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::exec {

namespace {

using prm::Opcode;

// Of requests in line, and of the others.
constexpr uint64_t longest = 4096, longest_listed = prm::inline_flag - 1;
// Pieces of a request, of both ends, that are more work than its bytes; each, as engine.hh counts.
constexpr uint32_t many_pieces = 128;
constexpr uint64_t piece_work = 128;

// A kind of plain request, and what it needs of the keys at both ends.
struct Kind {
  Opcode opcode;
  uint8_t local, remote;
  bool answered;  // bytes come back, and are counted in the completion
};
constexpr Kind plain_write = {Opcode::rdma_write, prm::mkey::local_read, prm::mkey::remote_write,
                              false};
constexpr Kind plain_read = {Opcode::rdma_read, prm::mkey::local_write, prm::mkey::remote_read,
                             true};

bool may_run(const Engine& e, const wq::Qp& qp) noexcept {
  const bool connected = qp.type == QpType::rc || qp.type == QpType::uc;
  const bool fresh = !qp.retrying && qp.stalls == 0 && qp.timeouts == 0;
  return e.executing && e.straight && connected && !qp.rc && qp.state == QpState::rts && fresh &&
         completes_plainly(*qp.send_cq) && !filters_rdma(e);
}

bool admits(const wq::Qp& qp, const wq::Qp& peer, const Kind& kind) noexcept {
  if (peer.state == QpState::rtr && !peer.established) return false;
  if (!kind.answered) return (peer.attr.access & access::remote_write) != 0;
  return qp.type == QpType::rc && qp.spec.scatter_answers == 0 && qp.attr.max_rd_atomic != 0 &&
         (peer.attr.access & access::remote_read) != 0 && peer.attr.max_dest_rd_atomic != 0;
}

bool gather(const tpt::PinnedPieces& from, uint64_t to) noexcept {
  for (std::size_t i = 0; i < from.count; i++) {
    const tpt::PinnedPieces::Piece& p = from.pieces[i];
    if (!memory::dma::copy_within(Va{to}, Va{p.va}, p.bytes)) return false;
    to += p.bytes;
  }
  return true;
}

bool scatter(uint64_t from, const tpt::PinnedPieces& to) noexcept {
  for (std::size_t i = 0; i < to.count; i++) {
    const tpt::PinnedPieces::Piece& p = to.pieces[i];
    if (!memory::dma::copy_within(Va{p.va}, Va{from}, p.bytes)) return false;
    from += p.bytes;
  }
  return true;
}

// One end of a move, piece after piece.
struct PieceReader {
  const tpt::KeyTable& keys;
  tpt::PinnedRange& range;
  uint32_t taken = 0;  // of range.now
  tpt::PinnedPieces::Piece piece{0, 0};

  // False: there is no further one.
  [[gnu::always_inline]] bool fill() noexcept {
    if (piece.bytes != 0) return true;
    if (taken == range.now.count) [[unlikely]] {
      if (!tpt::next_pinned(keys, range)) return false;
      taken = 0;
    }
    piece = range.now.pieces[taken++];
    return true;
  }
};

bool move_pieces(const tpt::KeyTable& keys, tpt::PinnedRange& from, tpt::PinnedRange& to,
                 uint64_t bytes) noexcept {
  if (to.count == 1 && from.list == nullptr) return gather(from.now, to.now.pieces[0].va);
  if (from.count == 1 && to.list == nullptr) return scatter(from.now.pieces[0].va, to.now);
  PieceReader source{keys, from}, target{keys, to};
  while (bytes != 0) {
    if (!source.fill() || !target.fill()) return false;
    const uint64_t n = std::min(source.piece.bytes, target.piece.bytes);
    if (!memory::dma::copy_within(Va{target.piece.va}, Va{source.piece.va}, n)) return false;
    source.piece = {source.piece.va + n, source.piece.bytes - n};
    target.piece = {target.piece.va + n, target.piece.bytes - n};
    bytes -= n;
  }
  return true;
}

// What a request by lists had: how many pieces, of both ends; 0: it is not plain.
struct Listed {
  uint64_t bytes, pieces;
};

// A request of any length by keys that are lists, or by others than those remembered. Reads its WQE
// at `at` anew: nothing that was read before counts.
[[gnu::noinline]] Listed move_listed(Engine& e, wq::Qp& qp, const wq::Qp& peer, const Kind& kind,
                                     uint64_t at) noexcept {
  const PlainWqe w = read_plain_wqe(at);
  // A length of 0 stands for 2 GiB, the highest bit for inline data: neither is plain.
  if (w.bytes - 1 >= std::min(longest_listed, qp.spec.max_message)) return {0, 0};
  const tpt::Access mine{qp.spec.pd, qp.qpn.value(), kind.local};
  const tpt::Access theirs{peer.spec.pd, peer.qpn.value(), kind.remote};
  tpt::KeyMemos& m = qp.memos;
  tpt::PinnedRange here, there;
  const tpt::Translator& t = e.context.translator;
  const bool found =
      tpt::find_pinned(t, {w.lkey, w.local, w.bytes, mine}, {m.local, m.local_inner}, here) &&
      tpt::find_pinned(t, {w.rkey, w.remote, w.bytes, theirs}, {m.remote, m.remote_inner}, there);
  m.prepare(kind.local, kind.remote, longest);
  if (!found) return {0, 0};
  const bool moved = kind.answered ? move_pieces(*t.keys, there, here, w.bytes)
                                   : move_pieces(*t.keys, here, there, w.bytes);
  return {w.bytes, moved ? here.count + there.count : 0u};
}

// Behind the offset up to which the longest request fits.
[[gnu::cold, gnu::noinline]] bool still_fits(const tpt::KeyMemo& key, uint64_t offset,
                                             uint64_t bytes) noexcept {
  return key.holds(offset, bytes);
}

// Where a run over the ring stands.
struct Run {
  uint64_t at, end;     // client addresses of basic blocks
  uint64_t pieces = 0;  // beyond the two of each request
};

// The bytes of one request; `answered`: how many came back. False: it is not plain, or its memory
// is gone.
template <const Kind& kind>
[[gnu::always_inline]] inline bool move_request(Engine& e, wq::Qp& qp, const wq::Qp& peer, Run& run,
                                                uint32_t& answered) noexcept {
  const PlainWqe w = read_plain_wqe(run.at);
  const tpt::KeyMemos& keys = qp.memos;
  const bool known = w.lkey == keys.local.key && w.rkey == keys.remote.key;
  // 0 bytes and those beyond the longest are looked at there.
  if (!known || w.bytes - 1 >= keys.longest) [[unlikely]] {
    const Listed listed = move_listed(e, qp, peer, kind, run.at);
    if (listed.pieces == 0) return false;
    run.pieces += listed.pieces - 2;
    if (listed.bytes > longest || listed.pieces > many_pieces) {
      // The last one before somebody looks at the clock.
      e.work_since_clock += listed.bytes;
      if (listed.pieces > many_pieces) e.work_since_clock += listed.pieces * piece_work;
      run.end = run.at + wqebb_bytes;
    }
    if (kind.answered) answered = static_cast<uint32_t>(listed.bytes);
    return true;
  }
  const uint64_t mine = w.local - keys.local.start, theirs = w.remote - keys.remote.start;
  if (mine > keys.local_offset && !still_fits(keys.local, mine, w.bytes)) [[unlikely]]
    return false;
  if (theirs > keys.remote_offset && !still_fits(keys.remote, theirs, w.bytes)) [[unlikely]]
    return false;
  const uint64_t here = mine + keys.local.va, there = theirs + keys.remote.va;
  if (kind.answered) answered = static_cast<uint32_t>(w.bytes);
  return plain_copy(kind.answered ? here : there, kind.answered ? there : here, w.bytes);
}

// A run over the ring: `most` WQEs at most. Returns how many.
template <const Kind& kind>
[[gnu::noinline]] std::size_t run_kind(Engine& e, wq::Qp& qp, const wq::Qp& peer,
                                       std::size_t most) noexcept {
  qp.memos.prepare(kind.local, kind.remote, longest);
  PlainEntries entries(e.context, qp, kind.opcode);
  const uint64_t ring = qp.sq.base + uint64_t{qp.sq.ci & (qp.sq.wqebbs - 1)} * wqebb_bytes;
  uint64_t head = uint64_t{qp.sq.ci} << 40 | uint64_t{static_cast<uint8_t>(kind.opcode)} << 32 |
                  uint64_t{qp.qpn.value()} << 8 | plain_ds;
  Run run{ring, ring + most * wqebb_bytes};
  uint32_t bytes = 0;  // of the request before, for its entry
  uint32_t mode = 0;   // its completion mode; 0: its entry has been given
  bool gone = false;   // its entry could not be given
  for (; run.at != run.end; run.at += wqebb_bytes) {
    const PlainCtrl ctrl = read_plain_ctrl(run.at);
    if (((ctrl.head ^ head) | ctrl.reserved) != 0) [[unlikely]]
      break;
    // What stands behind it is no NOP: it has been read.
    if (mode >= prm::ctrl::cq_update) [[likely]] {
      if (!entries.give(bytes)) {
        gone = true;
        break;
      }
      mode = 0;
    }
    entries.next_wqe();
    uint32_t answered = 0;
    if (!move_request<kind>(e, qp, peer, run, answered)) break;
    bytes = answered;
    mode = ctrl.mode();
    head += next_index;
    if (mode > prm::ctrl::cq_update) [[unlikely]]  // the run ends behind it, with the event
      run.end = run.at + wqebb_bytes;
  }
  const std::size_t done = (run.at - ring) / wqebb_bytes;
  const auto last = static_cast<uint16_t>(qp.sq.ci + done - 1);
  qp.sq.ci = static_cast<uint16_t>(qp.sq.ci + done);
  if (e.observed && done != 0) [[unlikely]]
    tell_moved(e, qp, 2 + run.pieces);
  bool event = false;
  if (mode >= prm::ctrl::cq_update && !gone) {
    wq::take_posted_nops(e.context, qp);
    gone = !entries.give(bytes);
    event = !gone && mode > prm::ctrl::cq_update;
  }
  wq::Cq& cq = *qp.send_cq;
  cq.producer = (cq.producer + entries.given()) & prm::arm::index_mask;
  if (!e.observed) [[likely]]
    e.context.journal->plain(done, 2 * done + run.pieces, entries.given());
  else if (entries.given() != 0)
    tell_completed(e, qp, bytes);
  e.work_since_clock += done * plain_work;
  e.context.counts.add(
      kind.answered ? TransportCount::rx_read_requests : TransportCount::rx_write_requests, done);
  if (event) wq::raise_event(e.context, cq);
  // The general way finds out what to do about it.
  if (gone && !wq::complete_send(e.context, qp, {static_cast<uint8_t>(kind.opcode), last, bytes}))
    wq::fatal_qp(e.context, qp, "the CQ of a send queue is in error");
  return done;
}

// A run of requests of one kind.
template <const Kind& kind>
std::size_t run_requests(Engine& e, wq::Qp& qp, std::size_t budget) noexcept {
  const wq::Qp* peer = transport::answering_peer(e.qps, qp);
  if (peer == nullptr || !admits(qp, *peer, kind)) return 0;
  const uint32_t place = qp.sq.ci & (qp.sq.wqebbs - 1);
  const auto posted = static_cast<uint16_t>(qp.sq.pi - qp.sq.ci);
  const std::size_t most =
      std::min<std::size_t>({budget, posted, qp.sq.wqebbs - place, wq::straight_room(*qp.send_cq)});
  recall(e, qp, *peer);
  return run_kind<kind>(e, qp, *peer, most);
}

// What the next WQE begins, as far as it is plain.
std::size_t run_next(Engine& e, wq::Qp& qp, std::size_t budget) noexcept {
  const uint32_t place = qp.sq.ci & (qp.sq.wqebbs - 1);
  uint32_t word = 0;
  if (!memory::dma::load(Va{qp.sq.base + uint64_t{place} * wqebb_bytes}, word)) return 0;
  const auto opcode = static_cast<uint8_t>(prm::ctrl::opcode::of(be32::from_raw(word).host()));
  const OpcodeRow* row = opcode_row(qp.type, opcode);
  return row != nullptr && row->straight != nullptr ? row->straight(e, qp, budget) : 0;
}

}  // namespace

std::size_t run_plain_writes(Engine& e, wq::Qp& qp, std::size_t budget) noexcept {
  return run_requests<plain_write>(e, qp, budget);
}

std::size_t run_plain_reads(Engine& e, wq::Qp& qp, std::size_t budget) noexcept {
  return run_requests<plain_read>(e, qp, budget);
}

std::size_t run_plain(Engine& e, wq::Qp& qp, std::size_t budget) noexcept {
  if (qp.type == QpType::raw_packet) return run_plain_frames(e, qp, budget);
  if (!may_run(e, qp)) return 0;
  e.observed = is_observed(e, qp);
  std::size_t done = 0;
  for (std::size_t n = 1; n != 0 && done < budget && qp.sq.ci != qp.sq.pi; done += n) {
    std::size_t most = budget - done;
    if (e.observed) [[unlikely]]
      most = observe(e, qp) ? 1 : 0;
    n = most != 0 ? run_next(e, qp, most) : 0;
    // What may_run() asked is still so, unless a completion could not be given.
    if (qp.state != QpState::rts || e.work_since_clock >= clock_work) return done + n;
  }
  return done;
}

}  // namespace kilim::vhca::exec
