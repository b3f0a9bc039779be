// SPDX-License-Identifier: BSD-3-Clause
// Frames that leave by the straight way: WQE in, key, bytes into the wire's ring. A WQE goes whole
// or not at all. Adapter's lock held. Never allocates; a WQE is untrusted.
#include "vhca/exec/plain_frames.hh"

#include <algorithm>

#include "kilim/detail/base/units.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/eth_seg.hh"
#include "vhca/core/journal.hh"
#include "vhca/ethernet/frame_out.hh"
#include "vhca/exec/observed.hh"
#include "vhca/exec/plain_frame_rows.hh"
#include "vhca/exec/plain_sending.hh"
#include "vhca/memory/dma.hh"
#include "vhca/memory/dma_inline.hh"
#include "vhca/wire/frame_ring.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/posted_nops.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::exec {

namespace {

bool sends_plainly(const Engine& e, const wq::Qp& qp) noexcept {
  const bool fresh = !qp.retrying && qp.stalls == 0 && qp.timeouts == 0;
  // As eth_loop_back() and eth_leave() ask.
  const bool alone = e.eth.clients < 2 && e.eth.own_queues == 0 && e.eth.egress_rules == 0;
  return e.executing && e.straight && e.context.profile->min_inline == 0 &&
         qp.state == QpState::rts && fresh && alone && !qp.draining && !qp.send_cq->error;
}

void recall_key(const Engine& e, tpt::KeyMemos& m) noexcept {
  if (m.generation == e.context.keys->generation()) return;
  m = {};
  m.generation = e.context.keys->generation();
}

constexpr uint32_t most_ds = 63;

// One packet from client memory into the ring. False: it is not plain.
[[gnu::always_inline]] inline bool put_frame(Sending& s, uint64_t from, uint64_t bytes,
                                             ethernet::EthAsk ask) noexcept {
  if (bytes < wire::ether_header_bytes || bytes > s.longest) return false;
  std::byte* to;
  if (!s.out.room(static_cast<uint32_t>(bytes), to) || !copy_frame(to, from, bytes)) return false;
  if (ask.checksums() != 0) [[unlikely]]
    if (!write_asked(s, {to, bytes}, ask)) return false;
  s.out.keep();
  s.bytes += bytes;
  return true;
}

// Another key than the WQE before, or a range that it does not allow. 0: it is not plain.
[[gnu::noinline]] uint64_t find_source(Sending& s, uint32_t key, uint64_t address,
                                       uint64_t bytes) noexcept {
  const tpt::Access need{s.qp.spec.pd, s.qp.qpn.value(), prm::mkey::local_read};
  if (bytes > s.longest) return 0;
  tpt::KeyMemo& m = s.qp.memos.local;
  const uint64_t from = tpt::find_direct(s.e.context.translator, {key, address, bytes, need}, m);
  s.learn_key(m);
  return from;
}

[[gnu::always_inline]] inline bool put_pointer(Sending& s, const memory::dma::SegmentWords& d,
                                               ethernet::EthAsk ask) noexcept {
  const uint64_t length_and_key = be64::from_raw(d.length_and_key).host();
  const uint64_t bytes = length_and_key >> 32;
  const auto key = static_cast<uint32_t>(length_and_key);
  const uint64_t address = be64::from_raw(d.address).host();
  const uint64_t offset = address - s.start;
  uint64_t from = s.va + offset;
  if (key != s.key || offset > s.len || bytes > s.len - offset) [[unlikely]] {
    from = find_source(s, key, address, bytes);
    if (from == 0) return false;
  }
  return put_frame(s, from, bytes, ask);
}

// The packets of a WQE of `ds` octowords at `wqe`, which lies in one piece.
bool put_segments(Sending& s, uint64_t wqe, uint32_t ds, ethernet::EthAsk ask) noexcept {
  const uint64_t end = wqe + uint64_t{ds} * octoword;
  for (uint64_t at = wqe + 2 * octoword; at < end;) {
    if (end - at >= 4 * octoword && may_be_four(s)) {
      const uint32_t left = put_segment_rows(s, at, end, ask);
      s.count.pieces += left;
      s.count.frames += left;
      at += left * octoword;
      if (left != 0) continue;
    }
    const memory::dma::SegmentWords d = memory::dma::read_segment(at);
    const auto count = static_cast<uint32_t>(be64::from_raw(d.length_and_key).host() >> 32);
    if ((count & prm::inline_flag) == 0) {
      if (!put_pointer(s, d, ask)) return false;
      s.count.pieces++;
      s.count.frames++;
      at += octoword;
      continue;
    }
    const uint64_t bytes = count & prm::inline_length_mask;
    const uint64_t from = at + sizeof(prm::InlineSeg);
    at += (bytes + sizeof(prm::InlineSeg) + octoword - 1) / octoword * octoword;
    if (at > end || !put_frame(s, from, bytes, ask)) return false;
    s.count.frames++;
  }
  return true;
}

// A multi-packet WQE leaves whole: how many basic blocks it has; 0: it is not plain.
[[gnu::noinline]] uint32_t put_packets(Sending& s, uint64_t wqe, uint32_t ds,
                                       ethernet::EthAsk ask) noexcept {
  const wq::SendRing& sq = s.qp.sq;
  const uint32_t blocks = (ds + 3) / 4;
  const auto posted = static_cast<uint16_t>(sq.pi - sq.ci);
  if (!s.e.context.profile->multi_packet_send || ds < frame_ds || ds > most_ds || blocks > posted ||
      (sq.ci & (sq.wqebbs - 1)) + blocks > sq.wqebbs)
    return 0;
  const uint64_t mark = s.out.mark(), bytes = s.bytes;
  const Journal::Frames count = s.count;
  if (put_segments(s, wqe, ds, ask)) return blocks;
  s.out.back(mark);
  s.count = count;
  s.bytes = bytes;
  return 0;
}

// The WQE with that index, as far as it is plain: how many basic blocks it has; 0: it is not. One
// pointer's is counted by the caller.
[[gnu::always_inline]] inline uint32_t put_wqe(Sending& s, uint16_t index, Said& said) noexcept {
  const uint64_t at = s.wqes + uint64_t{index & s.mask} * wqebb_bytes;
  const memory::dma::FrameWqeWords w = memory::dma::read_frame_wqe(at);
  const uint64_t head = be64::from_raw(w.head).host();
  said = {head, w.flags, index};
  constexpr uint32_t mode = flag(prm::ctrl::completion_mask),
                     event = flag(prm::ctrl::cq_update_and_event),
                     reserved = flag(prm::ctrl::reserved_in_fm_ce_se);
  if (((w.flags & reserved) | w.inlined) != 0 || (w.flags & mode) == event) return 0;
  const ethernet::EthAsk ask{w.ethernet};
  if (head == (s.send_head | uint64_t{index} << index_shift)) [[likely]]
    // Inline data is longer than any frame, as a number.
    return put_pointer(s, {w.length_and_key, w.local}, ask) ? 1 : 0;
  const auto ds = static_cast<uint32_t>(head & 0xff);  // with the bits that are reserved
  if (head != head_of(index, prm::Opcode::enhanced_mpsw, s.qp.qpn.value(), ds)) return 0;
  const uint32_t blocks = put_packets(s, at, ds, ask);
  s.shared += blocks != 0 ? 1 : 0;
  return blocks;
}

// The next WQEs of the queue, at most so many, in rows where they are alike, else one: how many; 0:
// it is not plain. `said` by the last of them.
[[gnu::always_inline]] inline uint32_t put_wqes(Sending& s, uint64_t budget, Said& said) noexcept {
  wq::SendRing& sq = s.qp.sq;
  const uint16_t first = sq.ci;
  const auto most =
      static_cast<uint32_t>(std::min<uint64_t>(budget, static_cast<uint16_t>(sq.pi - first)));
  uint32_t wqes = 0;
  if (most >= 4 && may_be_four(s)) wqes = put_send_rows(s, first, most, said);
  if (wqes != 0) {
    sq.ci = static_cast<uint16_t>(first + wqes);
    said.index = static_cast<uint16_t>(sq.ci - 1);
    return wqes;
  }
  const uint32_t blocks = put_wqe(s, first, said);
  sq.ci = static_cast<uint16_t>(first + blocks);
  said.index = first;
  return blocks != 0 ? 1 : 0;
}

// The taker sees what was kept. Before that all of it is in the ring.
void show(Sending& s, ethernet::EthPort& port, wire::FrameCapture* capture) noexcept {
  if (port.counts_casts) [[unlikely]]
    s.out.each_since(s.shown, [&port](std::span<const std::byte> f) { port.tx_casts.add(f); });
  if (capture != nullptr) [[unlikely]]
    s.out.each_since(s.shown, [=](std::span<const std::byte> f) { capture->add(f); });
  s.shown = s.out.mark();
  s.out.show();
}

void account(Sending& s, ethernet::EthPort& to, const wire::RingAccount& wire) noexcept {
  if (s.count.requests == 0) return;
  show(s, to, wire.capture);
  wire.counters->tx_frames += s.count.frames;
  wire.counters->tx_bytes += s.bytes;
  PortCounters& port = to.counters;
  port.tx_packets += s.count.frames;
  port.tx_bytes += s.bytes;
  if (!s.e.observed) [[likely]]
    s.e.context.journal->plain_sent(s.count);
  s.e.work_since_clock += s.count.frames * plain_work;
}

}  // namespace

std::size_t run_plain_frames(Engine& e, wq::Qp& qp, std::size_t budget) noexcept {
  if (!sends_plainly(e, qp)) return 0;
  ethernet::EthPort& port = ethernet::eth_port(e.eth, qp.attr.port);
  const wire::RingEnd wire = port.wire != nullptr ? port.wire->out_ring() : wire::RingEnd{};
  if (wire.ring == nullptr) return 0;
  recall_key(e, qp.memos);
  Sending s(e, qp, *wire.ring);
  e.observed = is_observed(e, qp);
  if (e.observed) [[unlikely]] {
    if (!observe(e, qp)) return 0;
    budget = 1;
  }
  Said said{};
  bool told = true;
  uint64_t done = 0;
  while (told && done < budget && qp.sq.ci != qp.sq.pi) {
    const uint32_t wqes = put_wqes(s, budget - done, said);
    if (wqes == 0) break;
    done += wqes;
    if (said.completes()) {
      show(s, port, wire.account->capture);
      if (e.observed) [[unlikely]]
        tell_frames(e, qp);
      wq::take_posted_nops(e.context, qp);
      told = wq::complete_send(e.context, qp, {said.opcode(), said.index});
    }
  }
  if (e.observed && done != 0 && !said.completes()) [[unlikely]]
    tell_frames(e, qp);
  s.count.requests = done;
  s.count.frames += done - s.shared;  // one each of the others
  s.count.pieces += done - s.shared;
  account(s, port, *wire.account);
  if (!told) wq::fatal_qp(e.context, qp, "the CQ of a send queue is in error");
  return done;
}

}  // namespace kilim::vhca::exec
