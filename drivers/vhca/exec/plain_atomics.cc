// SPDX-License-Identifier: BSD-3-Clause
// The straight way of atomics on 8 bytes, between two queues of this adapter, by direct keys. As
// plain.hh: what is not plain, or goes wrong before the word has changed, is left as it is for the
// general way. Adapter's lock held. Never allocates; a WQE is untrusted.
#include <algorithm>

#include "kilim/detail/base/units.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/opcode.hh"
#include "vhca/core/journal.hh"
#include "vhca/exec/observed.hh"
#include "vhca/exec/plain.hh"
#include "vhca/exec/plain_steps.hh"
#include "vhca/tpt/pinned_copy.hh"
#include "vhca/tpt/protection.hh"
#include "vhca/transport/requester.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/posted_nops.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::exec {

namespace {

struct alignas(64) AtomicBlock {
  prm::CtrlSeg ctrl;
  prm::RaddrSeg remote;
  prm::AtomicSeg atomic;
  prm::DataSeg data;
};
static_assert(sizeof(AtomicBlock) == wqebb_bytes);
constexpr uint32_t atomic_ds = 4;  // octowords
constexpr uint32_t word_bytes = 8;

// The next one of the ring, signalled or not, without an event.
bool is_plain_atomic(const wq::Qp& qp, const AtomicBlock& w, prm::Opcode opcode) noexcept {
  const uint32_t head = uint32_t{qp.sq.ci} << 8 | static_cast<uint8_t>(opcode);
  const uint8_t mode = prm::ctrl::completion_mode(w.ctrl.fm_ce_se);
  return w.ctrl.opmod_idx_opcode.host() == head &&
         w.ctrl.qpn_ds.host() == (qp.qpn.value() << 8 | atomic_ds) &&
         (w.ctrl.fm_ce_se & prm::ctrl::reserved_in_fm_ce_se) == 0 &&
         mode != prm::ctrl::cq_update_and_event && w.data.byte_count.host() == word_bytes;
}

bool admits_atomics(const wq::Qp& qp, const wq::Qp& peer) noexcept {
  if (peer.state == QpState::rtr && !peer.established) return false;
  return qp.type == QpType::rc && qp.spec.scatter_answers == 0 && qp.attr.max_rd_atomic != 0 &&
         qp.spec.max_message >= word_bytes && (peer.attr.access & access::remote_atomic) != 0 &&
         peer.attr.max_dest_rd_atomic != 0;
}

struct AtomicPlaces {
  uint64_t word = 0, answer = 0;  // client addresses; 0: not plain
};

AtomicPlaces places_of(const Engine& e, wq::Qp& qp, const wq::Qp& peer,
                       const AtomicBlock& w) noexcept {
  const tpt::Access theirs{peer.spec.pd, peer.qpn.value(), prm::mkey::atomic};
  const tpt::Access mine{qp.spec.pd, qp.qpn.value(), prm::mkey::local_write};
  const uint64_t address = w.remote.raddr.host();
  if (address % word_bytes != 0) return {};
  const tpt::Translator& t = e.context.translator;
  AtomicPlaces p;
  p.word =
      tpt::find_direct(t, {w.remote.rkey.host(), address, word_bytes, theirs}, qp.memos.remote);
  if (p.word == 0 || p.word % word_bytes != 0) return {};
  p.answer = tpt::find_direct(t, {w.data.lkey.host(), w.data.addr.host(), word_bytes, mine},
                              qp.memos.local);
  return p;
}

bool change(const AtomicBlock& w, prm::Opcode opcode, uint64_t word, uint64_t& old) noexcept {
  const uint64_t swap_add = w.atomic.swap_add.host(), compare = w.atomic.compare.host();
  return opcode == prm::Opcode::atomic_fa
             ? memory::dma::fetch_add(Va{word}, swap_add, old)
             : memory::dma::compare_exchange(Va{word}, compare, swap_add, old);
}

// The word has changed, and its answer has no place any more: nobody may do it again.
void fail_answer(Engine& e, wq::Qp& qp, uint64_t answer) noexcept {
  if (wq::decode_send(qp, e.scratch) != wq::Decode::ok)
    return wq::fatal_qp(e.context, qp, "the send ring is gone");
  e.context.journal->wqe(qp.qpn, e.scratch.index, e.scratch.opcode,
                         static_cast<uint8_t>(e.scratch.ds));
  e.context.journal->fault(answer, word_bytes);
  wq::fail_send(e.context, qp, e.scratch, tpt::protection::gone);
}

std::size_t run_atomics(Engine& e, wq::Qp& qp, std::size_t budget, prm::Opcode opcode) noexcept {
  const wq::Qp* peer = transport::answering_peer(e.qps, qp);
  if (peer == nullptr || !admits_atomics(qp, *peer)) return 0;
  recall(e, qp, *peer);
  NextEntry entry{*qp.send_cq, prm::CqeOpcode::req};
  entry.cqe.srqn_uidx = be32{qp.spec.uidx};
  entry.cqe.timestamp = be64{e.context.now_ns};
  entry.cqe.sop_drop_qpn =
      be32{prm::cqe::wqe_opcode::at(static_cast<uint8_t>(opcode)) | qp.qpn.value()};
  const auto posted = static_cast<uint16_t>(qp.sq.pi - qp.sq.ci);
  std::size_t most = std::min<std::size_t>({budget, posted, wq::straight_room(*qp.send_cq)});
  std::size_t done = 0, completions = 0, failed = 0;
  bool lost = false;
  uint16_t last = 0;
  while (done < most && !lost) {
    AtomicBlock w;
    const uint64_t at = qp.sq.base + uint64_t{qp.sq.ci & (qp.sq.wqebbs - 1)} * sizeof(w);
    if (!memory::dma::load_64(&w, at) || !is_plain_atomic(qp, w, opcode)) break;
    const AtomicPlaces p = places_of(e, qp, *peer, w);
    uint64_t old = 0;
    if (p.word == 0 || p.answer == 0 || !change(w, opcode, p.word, old)) break;
    if (!memory::dma::store(Va{p.answer}, old) && !tpt::write_pinned(p.answer, &old, sizeof(old))) {
      fail_answer(e, qp, p.answer);
      failed = 1;
      break;
    }
    done++;
    last = qp.sq.ci++;
    if (e.observed) [[unlikely]]
      tell_moved(e, qp, 2);
    if (!prm::ctrl::completes(w.ctrl.fm_ce_se)) continue;
    if (wq::take_posted_nops(e.context, qp)) most = 0;  // what is posted is counted anew
    lost = !entry.give(last, word_bytes);
    completions += lost ? 0 : 1;
  }
  if (!e.observed) [[likely]]
    e.context.journal->plain(done, 2 * done, completions);
  else if (completions != 0)
    tell_completed(e, qp, word_bytes);
  e.work_since_clock += (done + failed) * plain_work;
  e.context.counts.add(TransportCount::rx_atomic_requests, done + failed);
  if (lost && !wq::complete_send(e.context, qp, {static_cast<uint8_t>(opcode), last, word_bytes}))
    wq::fatal_qp(e.context, qp, "the CQ of a send queue is in error");
  return done + failed;
}

}  // namespace

std::size_t run_plain_swaps(Engine& e, wq::Qp& qp, std::size_t budget) noexcept {
  return run_atomics(e, qp, budget, prm::Opcode::atomic_cs);
}

std::size_t run_plain_adds(Engine& e, wq::Qp& qp, std::size_t budget) noexcept {
  return run_atomics(e, qp, budget, prm::Opcode::atomic_fa);
}

}  // namespace kilim::vhca::exec
