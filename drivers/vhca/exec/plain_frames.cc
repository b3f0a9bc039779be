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
#include "vhca/memory/dma_fours.hh"
#include "vhca/memory/dma_inline.hh"
#include "vhca/wire/frame_ring.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/posted_nops.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca {

namespace {

constexpr uint32_t octoword = 16;
constexpr uint32_t frame_ds = 3;  // control, Ethernet and data segment
constexpr uint32_t most_ds = 63;

// The two words that every WQE begins with, as one number.
constexpr unsigned index_shift = 40;
constexpr uint64_t head_of(uint16_t index, prm::Opcode opcode, uint32_t qpn, uint32_t ds) noexcept {
  return uint64_t{index} << index_shift | uint64_t{static_cast<uint8_t>(opcode)} << 32 |
         uint64_t{qpn} << 8 | ds;
}

// Where the queue stands, and what has left.
struct Sending {
  Sending(Engine& engine, Qp& queue, FrameRing& ring) noexcept
      : e(engine),
        qp(queue),
        wqes(queue.sq.base),
        mask(queue.sq.wqebbs - 1),
        send_head(head_of(0, prm::Opcode::send, queue.qpn.value(), frame_ds)),
        longest(longest_frame(engine.eth, eth_port(engine.eth, queue.attr.port))),
        out(ring) {
    learn_key(queue.memos.local);
  }
  // The key that WQEs named last, as the queue remembers it.
  void learn_key(const KeyMemo& m) noexcept {
    const bool reads = m.len != 0 && (m.rights & prm::mkey::local_read) != 0;
    key = reads ? m.key : no_key;
    start = m.start;
    len = m.len;
    va = m.va;
  }

  Engine& e;
  Qp& qp;
  const uint64_t wqes;       // client address of the send queue
  const uint32_t mask;       // of its basic blocks
  const uint64_t send_head;  // of a SEND of one pointer, but for its index
  const std::size_t longest;
  static constexpr uint64_t no_key = ~uint64_t{0};
  uint64_t key = no_key, start = 0, len = 0, va = 0;
  FrameRing::Writer out;
  Journal::Frames count;
  uint64_t bytes = 0;
  uint64_t shared = 0;   // WQEs of many packets
  uint32_t singles = 0;  // as many frames go one by one
};

bool sends_plainly(const Engine& e, const Qp& qp) noexcept {
  const bool fresh = !qp.retrying && qp.stalls == 0 && qp.timeouts == 0;
  // As eth_loop_back() and eth_leave() ask.
  const bool alone = e.eth.clients < 2 && e.eth.own_queues == 0 && e.eth.egress_rules == 0;
  return e.executing && !awaits_fault(e) && e.context.profile->min_inline == 0 &&
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

// False: the adapter refuses it, which is the general way's to do.
[[gnu::noinline]] bool write_asked(const Sending& s, std::span<std::byte> frame,
                                   EthAsk ask) noexcept {
  if (!is_offered(*s.e.context.profile, ask)) return false;
  write_checksums(frame, asked_by(s.qp, ask));
  return true;
}

// One packet from client memory into the ring. False: it is not plain.
[[gnu::always_inline]] inline bool put_frame(Sending& s, uint64_t from, uint64_t bytes,
                                             EthAsk ask) noexcept {
  if (bytes < ether_header_bytes || bytes > s.longest) return false;
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
  const Access need{s.qp.spec.pd, s.qp.qpn.value(), prm::mkey::local_read};
  if (bytes > s.longest) return 0;
  KeyMemo& m = s.qp.memos.local;
  const uint64_t from = find_direct(s.e.context.translator, {key, address, bytes, need}, m);
  s.learn_key(m);
  return from;
}

[[gnu::always_inline]] inline bool put_pointer(Sending& s, const dma::SegmentWords& d,
                                               EthAsk ask) noexcept {
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

// Where four frames are not alike, so many are not looked at four at a time.
constexpr uint32_t singles_behind_mixed = 8;

// Four packets of one length and key. False: they go one by one.
[[gnu::always_inline]] inline bool put_four(Sending& s, const dma::FourSegments& d,
                                            EthAsk ask) noexcept {
  s.singles = singles_behind_mixed;
  const uint64_t length_and_key = be64::from_raw(d.length_and_key).host();
  const uint64_t bytes = length_and_key >> 32;
  const bool plain = bytes >= ether_header_bytes && bytes <= s.longest && bytes <= s.len;
  if (d.differs != 0 || static_cast<uint32_t>(length_and_key) != s.key || !plain) return false;
  std::byte* to;
  std::size_t step;
  if (!s.out.room_for_four(static_cast<uint32_t>(bytes), to, step)) return false;
  const uint64_t most = s.len - bytes, start = s.start, va = s.va;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; i++, to += step) {
    const uint64_t offset = be64::from_raw(d.address[i]).host() - start;
    if (offset > most || !copy_frame(to, va + offset, bytes)) return false;
    if (ask.checksums() != 0) [[unlikely]]
      if (!write_asked(s, {to, bytes}, ask)) return false;
  }
  s.out.keep();
  s.bytes += 4 * bytes;
  s.singles = 0;
  return true;
}

[[gnu::always_inline]] inline bool may_be_four(Sending& s) noexcept {
  if (s.singles == 0) [[likely]]
    return true;
  s.singles--;
  return false;
}

// The packets of a WQE of `ds` octowords at `wqe`, which lies in one piece.
bool put_segments(Sending& s, uint64_t wqe, uint32_t ds, EthAsk ask) noexcept {
  const uint64_t end = wqe + uint64_t{ds} * octoword;
  for (uint64_t at = wqe + 2 * octoword; at < end;) {
    if (end - at >= 4 * octoword && may_be_four(s) &&
        put_four(s, dma::read_four_segments(at), ask)) {
      s.count.pieces += 4;
      s.count.frames += 4;
      at += 4 * octoword;
      continue;
    }
    const dma::SegmentWords d = dma::read_segment(at);
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
[[gnu::noinline]] uint32_t put_packets(Sending& s, uint64_t wqe, uint32_t ds, EthAsk ask) noexcept {
  const SendRing& sq = s.qp.sq;
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

// The flags of a WQE in the byte order of memory, fm_ce_se being the last of four bytes.
constexpr uint32_t flag(uint8_t fm_ce_se) noexcept {
  return uint32_t{fm_ce_se} << 24;
}

// What a WQE says besides its packets.
struct Said {
  uint64_t head;
  uint32_t flags;

  [[nodiscard]] bool completes() const noexcept {
    return (flags & flag(prm::ctrl::cq_update)) != 0;
  }
  [[nodiscard]] uint8_t opcode() const noexcept { return static_cast<uint8_t>(head >> 32); }
};

// The WQE with that index, as far as it is plain: how many basic blocks it has; 0: it is not. One
// pointer's is counted by the caller.
[[gnu::always_inline]] inline uint32_t put_wqe(Sending& s, uint16_t index, Said& said) noexcept {
  const uint64_t at = s.wqes + uint64_t{index & s.mask} * wqebb_bytes;
  const dma::FrameWqeWords w = dma::read_frame_wqe(at);
  const uint64_t head = be64::from_raw(w.head).host();
  said = {head, w.flags};
  constexpr uint32_t mode = flag(prm::ctrl::completion_mask),
                     event = flag(prm::ctrl::cq_update_and_event),
                     reserved = flag(prm::ctrl::reserved_in_fm_ce_se);
  if (((w.flags & reserved) | w.inlined) != 0 || (w.flags & mode) == event) return 0;
  const EthAsk ask{w.ethernet};
  if (head == (s.send_head | uint64_t{index} << index_shift)) [[likely]]
    // Inline data is longer than any frame, as a number.
    return put_pointer(s, {w.length_and_key, w.local}, ask) ? 1 : 0;
  const auto ds = static_cast<uint32_t>(head & 0xff);  // with the bits that are reserved
  if (head != head_of(index, prm::Opcode::enhanced_mpsw, s.qp.qpn.value(), ds)) return 0;
  const uint32_t blocks = put_packets(s, at, ds, ask);
  s.shared += blocks != 0 ? 1 : 0;
  return blocks;
}

// The next four WQEs, SENDs of one pointer that ask for no checksum, of which the last alone may
// complete. False: they go one by one.
[[gnu::always_inline]] inline bool put_four_wqes(Sending& s, uint16_t index, Said& said) noexcept {
  // Where the low byte of an index wraps, the heads differ from what is expected.
  const uint32_t block = index & s.mask;
  if (block + 4 > s.mask + 1) return false;
  constexpr uint32_t mode = flag(prm::ctrl::completion_mask),
                     event = flag(prm::ctrl::cq_update_and_event),
                     reserved = flag(prm::ctrl::reserved_in_fm_ce_se);
  const be64 head{s.send_head | uint64_t{index} << index_shift};
  const dma::FourFrameWqes w = dma::read_four_frame_wqes(
      s.wqes + uint64_t{block} * wqebb_bytes, _mm_cvtsi64_si128(static_cast<int64_t>(head.raw())),
      _mm_cvtsi32_si128(1 << 16));
  // Of a control segment its head and flags count, of an Ethernet segment cs_flags and
  // inline_hdr_sz.
  const __m128i wrong = _mm_or_si128(
      _mm_or_si128(_mm_and_si128(w.first_three,
                                 _mm_setr_epi32(-1, -1, static_cast<int>(mode | reserved), 0)),
                   _mm_and_si128(w.last, _mm_setr_epi32(-1, -1, static_cast<int>(reserved), 0))),
      _mm_and_si128(w.ethernet, _mm_setr_epi32(0, 0xff, 0, 0xffff)));
  const bool alike = _mm_movemask_epi8(_mm_cmpeq_epi8(wrong, _mm_setzero_si128())) == 0xffff;
  if (!alike || (w.last_flags & mode) == event) {
    s.singles = singles_behind_mixed;
    return false;
  }
  said = {s.send_head, w.last_flags};
  return put_four(s, w.data, {});
}

// WQEs from that index on, four where they are alike and so many `are_there`, else one: how many;
// 0: it is not plain. `index` becomes that of the last of them, `blocks` how many basic blocks that
// has.
[[gnu::always_inline]] inline uint32_t put_wqes(Sending& s, uint16_t& index, uint32_t& blocks,
                                                bool are_there, Said& said) noexcept {
  if (are_there && may_be_four(s) && put_four_wqes(s, index, said)) {
    index = static_cast<uint16_t>(index + 3);
    blocks = 1;
    return 4;
  }
  blocks = put_wqe(s, index, said);
  return blocks != 0 ? 1 : 0;
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
  uint64_t done = 0;
  const uint16_t end = qp.sq.pi;
  for (uint16_t index = qp.sq.ci; told && done < budget && index != end;) {
    Said said;
    uint32_t blocks;
    const bool four = budget - done >= 4 && static_cast<uint16_t>(end - index) >= 4;
    const uint32_t wqes = put_wqes(s, index, blocks, four, said);
    if (wqes == 0) break;
    done += wqes;
    qp.sq.ci = static_cast<uint16_t>(index + blocks);
    if (said.completes()) {
      s.out.show();
      take_posted_nops(e.context, qp);
      told = complete_send(e.context, qp, {said.opcode(), index});
    }
    index = qp.sq.ci;
  }
  s.count.requests = done;
  s.count.frames += done - s.shared;  // one each of the others
  s.count.pieces += done - s.shared;
  account(s, *wire.counters);
  if (!told) fatal_qp(e.context, qp, "the CQ of a send queue is in error");
  return done;
}

}  // namespace kilim::vhca
