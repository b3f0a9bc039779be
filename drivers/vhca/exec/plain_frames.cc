// SPDX-License-Identifier: BSD-3-Clause
// Frames that leave by the straight way: WQE in, key, bytes into the wire's ring. A WQE goes whole
// or not at all. Adapter's lock held. Never allocates; a WQE is untrusted.
#include "vhca/exec/plain_frames.hh"

#include <algorithm>

#include "kilim/base/units.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/eth_seg.hh"
#include "vhca/core/journal.hh"
#include "vhca/ethernet/frame_out.hh"
#include "vhca/memory/dma.hh"
#include "vhca/memory/dma_inline.hh"
#include "vhca/wire/frame_ring.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca {

namespace {

constexpr uint32_t octoword = 16;
constexpr uint32_t send_ds = 3;  // control, Ethernet and data segment
constexpr uint32_t most_ds = 63;

// The first basic block of a WQE, as it lies there.
struct alignas(64) FirstBlock {
  prm::CtrlSeg ctrl;
  prm::EthSeg eth;
  prm::DataSeg data[2];
};
static_assert(sizeof(FirstBlock) == wqebb_bytes);

// Where the queue stands, and what has left.
struct Sending {
  Sending(Engine& engine, Qp& queue, FrameRing& ring) noexcept
      : e(engine),
        qp(queue),
        longest(longest_frame(engine.eth, eth_port(engine.eth, queue.attr.port))),
        out(ring) {}

  Engine& e;
  Qp& qp;
  const std::size_t longest;
  FrameRing::Writer out;
  Journal::Frames count;
  uint64_t bytes = 0;
};

bool sends_plainly(const Engine& e, const Qp& qp) noexcept {
  const bool fresh = !qp.retrying && qp.stalls == 0 && qp.timeouts == 0;
  const bool alone = e.eth.clients < 2 && e.eth.own_queues == 0;  // as eth_loop_back()
  return e.executing && e.fatal_at == 0 && e.context.profile->min_inline == 0 &&
         !e.context.journal->on() && qp.state == QpState::rts && qp.watched == nullptr && fresh &&
         alone && !qp.draining && !qp.send_cq->error;
}

void recall_key(const Engine& e, KeyMemos& m) noexcept {
  if (m.generation == e.context.keys->generation()) return;
  m = {};
  m.generation = e.context.keys->generation();
}

[[gnu::always_inline]] inline bool copy_frame(std::byte* to, uint64_t from,
                                              uint64_t bytes) noexcept {
  const auto at = reinterpret_cast<uint64_t>(to);
  if (bytes - 32 <= 32) [[likely]]
    return dma::move_32_to_64(at, from, bytes);
  return dma::copy_within(Va{at}, Va{from}, bytes);
}

// One packet from client memory into the ring. False: it is not plain.
[[gnu::always_inline]] inline bool put_frame(Sending& s, uint64_t from, uint64_t bytes,
                                             uint8_t cs_flags) noexcept {
  if (bytes < ether_header_bytes || bytes > s.longest) return false;
  std::byte* to = s.out.room(static_cast<uint32_t>(bytes));
  if (to == nullptr || !copy_frame(to, from, bytes)) return false;
  if (cs_flags != 0) [[unlikely]]
    write_checksums({to, bytes}, cs_flags);
  s.out.keep();
  s.bytes += bytes;
  s.count.frames++;
  return true;
}

[[gnu::always_inline]] inline bool put_pointer(Sending& s, const prm::DataSeg& d,
                                               uint8_t cs_flags) noexcept {
  const uint64_t bytes = d.byte_count.host();
  const uint64_t address = d.addr.host();
  KeyMemo& m = s.qp.memos.local;
  uint64_t from = m.va + (address - m.start);
  const bool known = d.lkey.host() == m.key && (m.rights & prm::mkey::local_read) != 0 &&
                     m.holds(address - m.start, bytes);
  if (!known) [[unlikely]] {
    const Access need{s.qp.spec.pd, s.qp.qpn.value(), prm::mkey::local_read};
    if (bytes > s.longest) return false;
    from = find_direct(s.e.context.translator, {d.lkey.host(), address, bytes, need}, m);
    if (from == 0) return false;
  }
  if (!put_frame(s, from, bytes, cs_flags)) return false;
  s.count.pieces++;
  return true;
}

// The packets of a WQE of `ds` octowords at `wqe`, which lies in one piece.
bool put_segments(Sending& s, uint64_t wqe, uint32_t ds, uint8_t cs_flags) noexcept {
  const uint64_t end = wqe + uint64_t{ds} * octoword;
  for (uint64_t at = wqe + 2 * octoword; at < end;) {
    prm::DataSeg d;
    if (!dma::load_16(&d, at)) return false;
    const uint32_t count = d.byte_count.host();
    if ((count & prm::inline_flag) == 0) {
      if (!put_pointer(s, d, cs_flags)) return false;
      at += octoword;
      continue;
    }
    const uint64_t bytes = count & prm::inline_length_mask;
    const uint64_t from = at + sizeof(prm::InlineSeg);
    at += (bytes + sizeof(prm::InlineSeg) + octoword - 1) / octoword * octoword;
    if (at > end || !put_frame(s, from, bytes, cs_flags)) return false;
  }
  return true;
}

// A multi-packet WQE leaves whole: how many basic blocks it has; 0: it is not plain.
[[gnu::noinline]] uint32_t put_packets(Sending& s, uint64_t wqe, uint32_t ds,
                                       uint8_t cs_flags) noexcept {
  const SendRing& sq = s.qp.sq;
  const uint32_t blocks = (ds + 3) / 4;
  const auto posted = static_cast<uint16_t>(sq.pi - sq.ci);
  if (!s.e.context.profile->multi_packet_send || ds < send_ds || ds > most_ds || blocks > posted ||
      (sq.ci & (sq.wqebbs - 1)) + blocks > sq.wqebbs)
    return 0;
  const uint64_t mark = s.out.mark(), bytes = s.bytes;
  const Journal::Frames count = s.count;
  if (put_segments(s, wqe, ds, cs_flags)) return blocks;
  s.out.back(mark);
  s.count = count;
  s.bytes = bytes;
  return 0;
}

// The two words that every WQE begins with, as one number.
constexpr uint64_t head_of(uint16_t index, prm::Opcode opcode, uint32_t qpn, uint32_t ds) noexcept {
  return uint64_t{index} << 40 | uint64_t{static_cast<uint8_t>(opcode)} << 32 | uint64_t{qpn} << 8 |
         ds;
}

// The WQE at sq.ci, as far as it is plain: how many basic blocks it has; 0: it is not.
[[gnu::always_inline]] inline uint32_t put_wqe(Sending& s, uint8_t& fm_ce_se,
                                               prm::Opcode& opcode) noexcept {
  const SendRing& sq = s.qp.sq;
  const uint64_t at = sq.base + uint64_t{sq.ci & (sq.wqebbs - 1)} * wqebb_bytes;
  FirstBlock w;
  if (!dma::load_64(&w, at)) return 0;
  const uint64_t head = uint64_t{w.ctrl.opmod_idx_opcode.host()} << 32 | w.ctrl.qpn_ds.host();
  fm_ce_se = w.ctrl.fm_ce_se;
  const bool plain = (fm_ce_se & prm::ctrl::reserved_in_fm_ce_se) == 0 &&
                     prm::ctrl::completion_mode(fm_ce_se) != prm::ctrl::cq_update_and_event &&
                     w.eth.inline_hdr_sz.raw() == 0;
  if (!plain) return 0;
  const uint32_t qpn = s.qp.qpn.value();
  if (head == head_of(sq.ci, prm::Opcode::send, qpn, send_ds)) {
    opcode = prm::Opcode::send;
    // Inline data is longer than any frame, as a number.
    return put_pointer(s, w.data[0], w.eth.cs_flags) ? 1 : 0;
  }
  opcode = prm::Opcode::enhanced_mpsw;
  const auto ds = static_cast<uint32_t>(head & 0xff);  // with the bits that are reserved
  if (head != head_of(sq.ci, opcode, qpn, ds)) return 0;
  return put_packets(s, at, ds, w.eth.cs_flags);
}

void account(Sending& s, WireCounters& wire) noexcept {
  if (s.count.requests == 0) return;
  s.out.show();
  wire.tx_frames += s.count.frames;
  wire.tx_bytes += s.bytes;
  PortCounters& port = eth_port(s.e.eth, s.qp.attr.port).counters;
  port.tx_packets += s.count.frames;
  port.tx_bytes += s.bytes;
  s.e.context.journal->plain_sent(s.count);
  s.e.work_since_clock += s.count.frames * plain_work;
}

}  // namespace

std::size_t run_plain_frames(Engine& e, Qp& qp, std::size_t budget) noexcept {
  if (!sends_plainly(e, qp)) return 0;
  EthPort& port = eth_port(e.eth, qp.attr.port);
  const RingEnd wire = port.wire != nullptr ? port.wire->out_ring() : RingEnd{};
  if (wire.ring == nullptr) return 0;
  recall_key(e, qp.memos);
  Sending s(e, qp, *wire.ring);
  bool told = true;
  while (told && s.count.requests < budget && qp.sq.ci != qp.sq.pi) {
    uint8_t fm_ce_se = 0;
    prm::Opcode opcode{};
    const uint16_t index = qp.sq.ci;
    const uint32_t blocks = put_wqe(s, fm_ce_se, opcode);
    if (blocks == 0) break;
    s.count.requests++;
    qp.sq.ci = static_cast<uint16_t>(index + blocks);
    if (!prm::ctrl::completes(fm_ce_se)) continue;
    s.out.show();
    told = complete_send(e.context, qp, {static_cast<uint8_t>(opcode), index});
  }
  account(s, *wire.counters);
  if (!told) fatal_qp(e.context, qp, "the CQ of a send queue is in error");
  return s.count.requests;
}

}  // namespace kilim::vhca
