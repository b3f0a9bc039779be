// SPDX-License-Identifier: BSD-3-Clause
// The straight way of SENDs of one data segment into receive WQEs of one, between two queues of
// this adapter; the receive ring is the queue's own. As plain.hh: what is not plain, or goes wrong,
// is left as it is for the general way. Adapter's lock held. Never allocates; both rings are
// untrusted.
#include <algorithm>
#include <array>

#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/opcode.hh"
#include "vhca/core/journal.hh"
#include "vhca/exec/observed.hh"
#include "vhca/exec/plain.hh"
#include "vhca/exec/plain_steps.hh"
#include "vhca/transport/requester.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/posted_nops.hh"
#include "vhca/wq/qp_error.hh"
#include "vhca/wq/recv.hh"

namespace kilim::vhca::exec {

namespace {

// The WQE of a plain SEND; the rest of its basic block means nothing.
struct alignas(64) SendBlock {
  prm::CtrlSeg ctrl;
  prm::DataSeg data;
  std::array<std::byte, 32> rest;
};
constexpr uint32_t send_ds = 2;  // octowords
constexpr uint64_t longest_send = 4096;

// The next one of the ring, signalled or not, without an event.
bool is_plain_send(const wq::Qp& qp, const SendBlock& w) noexcept {
  const uint32_t head = uint32_t{qp.sq.ci} << 8 | static_cast<uint8_t>(prm::Opcode::send);
  const uint8_t mode = prm::ctrl::completion_mode(w.ctrl.fm_ce_se);
  const auto others = prm::ctrl::reserved_in_fm_ce_se | prm::ctrl::solicited;
  return w.ctrl.opmod_idx_opcode.host() == head &&
         w.ctrl.qpn_ds.host() == (qp.qpn.value() << 8 | send_ds) &&
         (w.ctrl.fm_ce_se & others) == 0 && mode != prm::ctrl::cq_update_and_event;
}

bool receives_plainly(const wq::Qp& qp) noexcept {
  const bool ring_only = qp.srq == nullptr && !qp.tags && !qp.rc && qp.rq.wqes != 0;
  const bool one_way = !qp.spec.rq_signature && !qp.rq.striding();
  return ring_only && one_way && !(qp.state == QpState::rtr && !qp.established) &&
         completes_plainly(*qp.recv_cq);
}

// A row of SENDs.
struct Sends {
  Engine& e;
  wq::Qp& qp;
  wq::Qp& peer;
  NextEntry sent, received;
  std::size_t most = 0;
  uint32_t completions = 0;
  uint16_t last = 0;  // index of the last one

  Sends(Engine& engine, wq::Qp& from, wq::Qp& to) noexcept
      : e(engine),
        qp(from),
        peer(to),
        sent{*from.send_cq, prm::CqeOpcode::req},
        received{*to.recv_cq, prm::CqeOpcode::resp_send} {
    const be64 now{e.context.now_ns};
    sent.cqe.srqn_uidx = be32{qp.spec.uidx};
    sent.cqe.timestamp = received.cqe.timestamp = now;
    sent.cqe.sop_drop_qpn =
        be32{prm::cqe::wqe_opcode::at(static_cast<uint8_t>(prm::Opcode::send)) | qp.qpn.value()};
    received.cqe.srqn_uidx = be32{peer.spec.uidx};
    received.cqe.flags_rqpn = be32{peer.attr.dest_qpn.value() & prm::cqe::rqpn::mask};
    received.cqe.sop_drop_qpn = be32{peer.qpn.value()};
  }

  // How many there may be: posted, received for, with room for their completions.
  void bound(std::size_t budget) noexcept {
    uint32_t raw = 0;
    if (!memory::dma::load(Va{peer.spec.record.value() + 4 * prm::record_receive}, raw)) return;
    const auto waiting = static_cast<uint16_t>(be32::from_raw(raw).host() - peer.rq.ci);
    const auto posted = static_cast<uint16_t>(qp.sq.pi - qp.sq.ci);
    std::size_t room = wq::straight_room(received.cq);
    // One queue for both takes two entries a message.
    room = &sent.cq == &received.cq ? room / 2
                                    : std::min<std::size_t>(room, wq::straight_room(sent.cq));
    most = std::min<std::size_t>({budget, posted, waiting, room});
  }

  // Where the next receive WQE wants `bytes` bytes; 0: it is not plain.
  [[nodiscard]] uint64_t target(uint64_t bytes) noexcept {
    const uint64_t at = peer.rq.base + (uint64_t{peer.rq.ci & (peer.rq.wqes - 1)} << peer.rq.shift);
    prm::DataSeg d, end;
    if (!memory::dma::load_16(&d, at)) return 0;
    if (peer.rq.shift > 4) {
      if (!memory::dma::load_16(&end, at + sizeof(d)) || end.lkey.host() != prm::list_end_lkey)
        return 0;
    }
    const uint32_t room = d.byte_count.host(), key = d.lkey.host();
    if ((room & prm::inline_flag) != 0 || room < bytes || key == prm::list_end_lkey) return 0;
    const tpt::Access need{peer.spec.pd, peer.qpn.value(), prm::mkey::local_write};
    return tpt::find_direct(e.context.translator, {key, d.addr.host(), bytes, need},
                            qp.memos.remote);
  }

  // The linter's word on the next receive WQE: it stands in e.eth.recv.
  [[nodiscard]] bool is_let_in() noexcept {
    return wq::look_at_recv(e.context, peer, e.eth.recv) == wq::RecvTake::ok;
  }
  // False: it is not plain, and nothing but bytes behind an unused receive WQE has changed.
  // `lost`: all is done but the sender's completion.
  bool one(bool observed, bool& lost) noexcept {
    SendBlock w;
    if (!memory::dma::load_64(&w, qp.sq.base + uint64_t{qp.sq.ci & (qp.sq.wqebbs - 1)} * sizeof(w)))
      return false;
    const uint64_t bytes = w.data.byte_count.host();
    if (!is_plain_send(qp, w) || bytes - 1 >= longest_send) return false;
    if (bytes > qp.spec.max_message || bytes <= peer.spec.scatter_received) return false;
    const tpt::Access need{qp.spec.pd, qp.qpn.value(), prm::mkey::local_read};
    const uint64_t from =
        tpt::find_direct(e.context.translator,
                         {w.data.lkey.host(), w.data.addr.host(), bytes, need}, qp.memos.local);
    if (from == 0) return false;
    const uint64_t to = target(bytes);
    if (to == 0 || (observed && !is_let_in()) || !plain_copy(to, from, bytes)) return false;
    const uint16_t place = peer.rq.ci;
    if (!received.give(place, static_cast<uint32_t>(bytes))) return false;
    if (observed) [[unlikely]]
      tell_sent(e, qp, peer, static_cast<uint32_t>(e.eth.recv.room));
    peer.rq.ci++;
    peer.rq.used = 0;
    completions++;
    last = qp.sq.ci++;
    if (!prm::ctrl::completes(w.ctrl.fm_ce_se)) return true;
    if (wq::take_posted_nops(e.context, qp)) most = 0;  // what is posted is counted anew
    lost = !sent.give(last, 0);
    if (lost) return true;
    completions++;
    if (observed) [[unlikely]]
      tell_completed(e, qp, 0);
    return true;
  }
};

}  // namespace

std::size_t run_plain_sends(Engine& e, wq::Qp& qp, std::size_t budget) noexcept {
  wq::Qp* peer = transport::answering_peer(e.qps, qp);
  if (peer == nullptr || !receives_plainly(*peer)) return 0;
  recall(e, qp, *peer);
  Sends sends(e, qp, *peer);
  sends.bound(budget);
  std::size_t done = 0;
  const bool observed = e.observed;
  bool lost = false;
  while (done < sends.most && !lost && sends.one(observed, lost)) done++;
  if (done == 0) return 0;
  if (!observed) [[likely]]
    e.context.journal->plain_messages(done, sends.completions);
  e.work_since_clock += done * plain_work;
  // The general way finds out what to do about it.
  constexpr auto opcode = static_cast<uint8_t>(prm::Opcode::send);
  if (lost && !wq::complete_send(e.context, qp, {opcode, sends.last, 0}))
    wq::fatal_qp(e.context, qp, "the CQ of a send queue is in error");
  return done;
}

}  // namespace kilim::vhca::exec
