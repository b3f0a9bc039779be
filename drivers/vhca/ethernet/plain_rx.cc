// SPDX-License-Identifier: BSD-3-Clause
// Frames that arrive by the straight way: from a wire that is a ring in memory into receive WQEs of
// one segment, where a frame goes to one queue that wants it as it is, by a rule or by a hash.
// Records, keys and counters are looked at once for all. It asks what the general way (rx.cc) asks;
// what is not plain, and whatever goes wrong, stays on the wire for that. Adapter's lock held.
// Never allocates. Frames are untrusted.
#include <algorithm>
#include <array>
#include <cstring>

#include "kilim/base/be.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/doorbell.hh"
#include "kilim/prm/mkc.hh"
#include "vhca/core/journal.hh"
#include "vhca/ethernet/describe.hh"
#include "vhca/ethernet/four_frames.hh"
#include "vhca/ethernet/plain_four.hh"
#include "vhca/ethernet/plain_place.hh"
#include "vhca/ethernet/plain_spread.hh"
#include "vhca/ethernet/plain_taking.hh"
#include "vhca/ethernet/state.hh"
#include "vhca/ethernet/tir.hh"
#include "vhca/memory/dma.hh"
#include "vhca/memory/dma_inline.hh"
#include "vhca/tpt/key_memo.hh"
#include "vhca/wire/frame_ring.hh"
#include "vhca/wire/packet.hh"
#include "vhca/wq/compression.hh"
#include "vhca/wq/cqe_writer.hh"

namespace kilim::vhca {

namespace {

constexpr uint16_t type_tag = 0x8100, type_two_tags = 0x88a8, type_six = 0x86dd, type_four = 0x0800;
constexpr uint8_t protocol_tcp = 6, protocol_of_udp = 17;
constexpr uint16_t roce_port = 4791;

uint16_t type_of(std::span<const std::byte> frame) noexcept {
  return get_be<uint16_t>(frame, 12);
}

// Whether RoCE may want to see it first: parse_roce() (transport/roce_frame.cc) takes UDP on IPv6.
// What is not read here, tags and other headers, may be that.
bool perhaps_roce(std::span<const std::byte> frame, uint16_t type) noexcept {
  constexpr std::size_t next_header_at = 20, ports_at = 54;
  if (type == type_four) [[likely]]
    return false;
  if (type != type_six) return type == type_tag || type == type_two_tags;
  if (frame.size() < ports_at + 4) return true;
  const auto next = std::to_integer<uint8_t>(frame[next_header_at]);
  if (next == protocol_tcp) return false;
  return next != protocol_of_udp || get_be<uint16_t>(frame, ports_at + 2) == roce_port;
}

bool takes_plainly(const Qp& qp) noexcept {
  const bool receives =
      qp.rq.wqes > 0 && qp.state != QpState::reset && qp.state != QpState::err && !qp.broken;
  const Cq& cq = *qp.recv_cq;
  return receives && qp.rq.shift == 4 && !qp.rq.striding() && qp.srq == nullptr &&
         !qp.spec.rq_signature && !qp.spec.tunnels && !qp.spec.scatter_fcs && !cq.error &&
         !cq.armed && cq.spec.cqe_bytes == sizeof(prm::Cqe) && !cq.spec.time_of_day;
}

// The only queue, or TIR, that gets a frame, and where that is remembered. Null: another number of
// them, or they want more than the frame; nothing is remembered.
struct Flow {
  Qp* to = nullptr;
  const FlowMemo* memo = nullptr;
};

[[gnu::noinline]] Flow find_flow(EthPort& port, std::span<const std::byte> frame) noexcept {
  const Reach reach = port.steering.reach();
  const uint16_t type = type_of(frame);
  uint32_t kind = type == type_tag || type == type_two_tags ? 0 : FlowMemo::no_kind;
  if (reach == Reach::kind) kind = frame_kind(frame);
  FlowMemo& m = port.flows.at(frame, kind);
  const uint64_t version = port.steering.version();
  if (m.version == version && m.kind == kind && kind != 0 && m.begins(frame)) return {m.qp, &m};
  const std::span<const FlowTarget> targets = port.steering.match(frame);
  if (targets.size() != 1 || targets[0].tag != 0 || port.steering.counted()) return {};
  if (targets[0].qp->table != nullptr) return {};
  if (reach == Reach::all || kind == 0) return {targets[0].qp, nullptr};
  std::memcpy(m.header.data(), frame.data(), m.header.size());
  m.kind = kind;
  m.version = version;
  m.qp = targets[0].qp;
  return {m.qp, &m};
}

// False: it does not take plainly.
[[gnu::noinline]] bool begin(Row& row, Taking& t, Qp& qp) noexcept {
  // Another queue with the same completion queue counts its room from now on; the one that was in
  // this place is done.
  for (std::size_t i = 0; i < Row::places; i++) {
    Qp*& other = row.queues[i];
    if (other == nullptr || (other->recv_cq != qp.recv_cq && &row.takings[i] != &t)) continue;
    settle(row.takings[i]);
    other = nullptr;
  }
  uint32_t raw = 0;
  if (!takes_plainly(qp) || !dma::load(Va{qp.spec.record.value() + 4 * prm::record_receive}, raw))
    return false;
  const uint32_t wqes = static_cast<uint16_t>(be32::from_raw(raw).host() - qp.rq.ci);
  t.qp = &qp;
  t.ci = qp.rq.ci;
  t.end = static_cast<uint16_t>(t.ci + std::min(wqes, straight_room(*qp.recv_cq)));
  t.mask = static_cast<uint16_t>(qp.rq.wqes - 1);
  t.wqes = qp.rq.base;
  KeyMemos& m = qp.memos;
  if (m.generation != row.context.keys->generation()) {
    m = {};
    m.generation = row.context.keys->generation();
  }
  recall_key(t, m.remote);
  begin_entries(row.context, t, qp);
  return true;
}

// Null: the queue does not take plainly.
[[gnu::always_inline]] inline Taking* taking_of(Row& row, Qp& qp) noexcept {
  const std::size_t place = qp.qpn.value() & (Row::places - 1);
  Taking* t = &row.takings[place];
  asm("" : "+r"(t));  // a product that is not to be made again for each member
  if (row.queues[place] != &qp) [[unlikely]] {
    if (!begin(row, *t, qp)) return nullptr;
    row.queues[place] = &qp;
  }
  if (t == nullptr) __builtin_unreachable();  // as the compiler no longer knows
  return t;
}

// What a completion says of one frame. `common`: that is describe_ipv4()'s.
[[gnu::always_inline]] inline FrameWords describe(std::span<const std::byte> frame,
                                                  SameShape& before, bool& common) noexcept {
  const FrameShape shape = shape_of_ipv4(frame);
  before.remember(frame, shape);
  common = shape.covered != 0;
  if (common) [[likely]]
    return {sums_of_ipv4(frame.data(), shape), shape.type};
  prm::Cqe said{};
  describe_frame(frame, false, said);
  return {said.hds_ip_ext, said.l4_hdr_type_etc};
}

// The queue of a table that gets the frame, and why.
[[gnu::noinline]] HashedFrame hashed_queue(const Tir& tir, std::span<const std::byte> frame,
                                           FrameWords words, bool common) noexcept {
  const bool tcp = words.type >> prm::cqe::l4_type_shift != prm::cqe::l4_udp;
  const RxHash hash = common ? hash_plain_ipv4(tir, frame, tcp) : hash_frame(tir, frame);
  return {tir.table->queues[hash.value & (tir.table->queues.size() - 1)], hash};
}

// Where the completion queue compresses.
[[gnu::noinline]] bool hold_entry(EngineContext& context, const Taking& t,
                                  std::span<const std::byte> frame) noexcept {
  Cq& cq = *t.qp->recv_cq;
  prm::Cqe cqe = t.entry;
  cqe.wqe_counter = be16{t.ci};
  cqe.op_own = 0;
  if (says_checksum(cq)) cqe.checksum = packet_checksum(frame);
  return write_or_hold(context, cq, cqe, static_cast<uint16_t>(t.ci + 1));
}

[[gnu::always_inline]] inline bool put_entry(EngineContext& context, Taking& t,
                                             std::span<const std::byte> frame,
                                             FrameWords words) noexcept {
  prm::Cqe& cqe = t.entry;
  cqe.hds_ip_ext = words.ok;
  cqe.l4_hdr_type_etc = words.type;
  cqe.byte_cnt = be32{static_cast<uint32_t>(frame.size())};
  if (t.holds) [[unlikely]]
    return hold_entry(context, t, frame);
  constexpr unsigned counter_at =
      8 * (offsetof(prm::Cqe, wqe_counter) - offsetof(prm::Cqe, sop_drop_qpn));
  if (!dma::store_entry(t.slot, &cqe, t.last | uint64_t{be16{t.ci}.raw()} << counter_at))
    return false;
  t.slot += sizeof(cqe);
  return true;
}

// False: it is not plain, and nothing but bytes behind an unused WQE has changed.
[[gnu::always_inline]] inline bool take(EngineContext& context, Taking& t,
                                        std::span<const std::byte> frame,
                                        FrameWords words) noexcept {
  if (t.ci == t.end) return false;
  uint64_t to;
  if (!find_place(context, t, next_segment(t), frame.size(), to) ||
      !copy_to_client(to, frame.data(), frame.size()) || !put_entry(context, t, frame, words))
    return false;
  t.ci++;
  return true;
}

bool is_plain(const EthState& eth) noexcept {
  const EngineContext& c = *eth.context;
  return !c.journal->on() && c.observer == nullptr && !c.profile->flow_control && !c.dead;
}

// Frames of a row that were taken, and their bytes.
struct Taken {
  uint64_t frames = 0, bytes = 0;
};

void account_received(const EthState& eth, EthPort& port, WireCounters& wire,
                      const Taken& row) noexcept {
  if (row.frames == 0) return;
  port.paused = false;
  port.counters.rx_packets += row.frames;
  port.counters.rx_bytes += row.bytes;
  wire.rx_frames += row.frames;
  wire.rx_bytes += row.bytes;
  eth.context->journal->plain_received(row.frames);
}

// Where the frame before went, and what it was like.
struct Before {
  bool by_kind;        // rules look that far
  bool common = true;  // it was an IPv4 frame that describe_ipv4() knows
  Flow flow{};
  SameShape shape{};
  Taking* t = nullptr;
  CoveredWords covered{};   // of that shape
  uint64_t fours_from = 2;  // as many frames of the row go one by one
};

// What a TIR asks of its frames that the straight way does not do.
bool wants_more(const Qp& to) noexcept {
  return to.tir != nullptr && (to.tir->spec.tunnels || to.tir->spec.lro_versions != 0);
}

// A frame that is not like the one before. False: it is not plain.
[[gnu::always_inline]] inline bool learn(EthPort& port, std::span<const std::byte> frame,
                                         Before& b) noexcept {
  // Rules do not change in between.
  const bool same = b.flow.memo != nullptr && b.flow.memo->begins(frame) &&
                    (!b.by_kind || frame_kind(frame) == b.flow.memo->kind);
  if (!same) [[unlikely]] {
    b.flow = find_flow(port, frame);
    if (b.flow.to == nullptr || wants_more(*b.flow.to)) return false;
  }
  return !perhaps_roce(frame, type_of(frame));
}

// What its completion says of a hash included. Null: that queue does not take plainly.
[[gnu::always_inline]] inline Taking* taking_for(Row& row, const Before& b,
                                                 const HashedFrame& to) noexcept {
  Taking* t = b.t != nullptr && b.t->qp == to.qp ? b.t : taking_of(row, *to.qp);
  if (t == nullptr) return nullptr;
  t->entry.rx_hash_result = be32{to.hash.value};
  t->entry.rx_hash_type = to.hash.type;
  t->hashed = b.flow.to->tir != nullptr;
  return t;
}

// Where a frame goes. Null: its queue does not take plainly.
[[gnu::always_inline]] inline Taking* queue_for(Row& row, const Before& b,
                                                std::span<const std::byte> frame,
                                                FrameWords words) noexcept {
  const Tir* tir = b.flow.to->tir;
  if (tir == nullptr && b.t != nullptr && b.t->qp == b.flow.to && !b.t->hashed) [[likely]]
    return b.t;
  HashedFrame to{b.flow.to, {}};
  if (tir != nullptr) to = hashed_queue(*tir, frame, words, b.common);
  return taking_for(row, b, to);
}

// Four frames of one shape whose sums are right, each to the queue of a table that its hash picks.
// How many were taken: less than four where one is not plain. `last`: the queue of the last one; a
// queue with the same completion queue counts its room anew then.
[[gnu::noinline]] unsigned take_four_spread(Row& row, const Tir& tir, const FourFrames& f,
                                            FrameWords words, Taking*& last) noexcept {
  FourHashes hashes;
  if (!hash_four_plain_udp(tir, f.first, f.step, hashes)) return 0;
  const SpreadWords all = words_of_spread(words, hashes.type, f.bytes);
  Qp* const* const queues = tir.table->queues.data();
  const std::size_t mask = tir.table->queues.size() - 1, bytes = f.bytes, step = f.step;
  const std::byte* frame = f.first;
  unsigned taken = 0;
#pragma GCC unroll 4
  for (; taken < 4; taken++, frame += step) {
    Taking* t = taking_of(row, *queues[hashes.value[taken] & mask]);
    if (t == nullptr || !take_spread(row.context, *t, {frame, bytes}, all, hashes.raw[taken]))
      break;
    last = t;
  }
  return taken;
}

// The next four frames, where they are of the shape of the one before and both sums of each are
// right. How many were taken; 0: they go one by one.
[[gnu::always_inline]] inline unsigned take_four_of_shape(FrameRing::Reader& in, Row& row,
                                                          Before& b) noexcept {
  FourFrames f{};
  f.bytes = b.shape.frame_bytes();
  f.step = FrameRing::Reader::step_of(f.bytes);
  f.first = in.four(static_cast<uint32_t>(f.bytes), f.step);
  if (f.first == nullptr || !b.shape.is_that_of_four(f.first, f.step)) return 0;
  if (!sums_of_four_are_right(f.first, f.step, b.covered)) return 0;
  const FrameWords words{all_sums_ok, b.shape.shape().type};
  unsigned taken = 0;
  if (b.flow.to->tir == nullptr) {
    taken = b.t->qp == b.flow.to && !b.t->hashed ? take_four(*b.t, f, words) : 0;
  } else {
    taken = take_four_spread(row, *b.flow.to->tir, f, words, b.t);
  }
  in.pop_rows(taken, f.step);
  return taken;
}

// Behind the second frame of a shape; where four did not go, the next four are not tried.
[[gnu::always_inline]] inline unsigned try_four(FrameRing::Reader& in, Row& row, Before& b,
                                                Taken& all, std::size_t budget) noexcept {
  if (all.frames < b.fours_from || budget - all.frames < 4) return 0;
  if (b.covered.sixteens == 0) {
    b.covered = words_of(b.shape.shape());
    if (b.covered.sixteens == 0 || b.shape.frame_bytes() == 0) {
      b.fours_from = ~uint64_t{0};
      return 0;
    }
  }
  const unsigned taken = take_four_of_shape(in, row, b);
  all.frames += taken;
  all.bytes += taken * b.shape.frame_bytes();
  if (taken < 4) b.fours_from = all.frames + 4;
  return taken;
}

// Frames go on coming from the front of the ring until one is not plain.
Taken take_row(EthPort& port, FrameRing::Reader& in, Row& row, std::size_t budget) noexcept {
  Before b{.by_kind = port.steering.reach() == Reach::kind};
  Taken all;
  while (all.frames < budget) {
    if (try_four(in, row, b, all, budget) != 0) continue;
    const std::span<const std::byte> frame = in.front();
    if (frame.size() < ether_header_bytes) break;
    FrameWords words;
    if (b.shape.is_that_of(frame)) [[likely]] {
      words = {sums_of_ipv4(frame.data(), b.shape.shape()), b.shape.shape().type};
    } else {
      if (!learn(port, frame, b)) break;
      words = describe(frame, b.shape, b.common);
      if (b.flow.memo == nullptr) b.shape.forget();
      b.covered.sixteens = 0;
      b.fours_from = all.frames + 2;
    }
    b.t = queue_for(row, b, frame, words);
    if (b.t == nullptr || !take(row.context, *b.t, frame, words)) break;
    all.frames++;
    all.bytes += frame.size();
    in.pop(frame.size());
  }
  settle(row);
  return all;
}

}  // namespace

std::size_t eth_receive_plain(EthState& eth, uint32_t number, std::size_t budget) noexcept {
  EthPort& port = eth.ports[number - 1];
  if (!is_plain(eth) || port.wire->is_recording()) return 0;
  const RingEnd wire = port.wire->in_ring();
  if (wire.ring == nullptr) return 0;
  FrameRing::Reader in(*wire.ring);
  if (in.front().empty()) return 0;
  Row row(*eth.context);
  const Taken all = take_row(port, in, row, budget);
  in.release();
  account_received(eth, port, *wire.counters, all);
  return all.frames;
}

}  // namespace kilim::vhca
