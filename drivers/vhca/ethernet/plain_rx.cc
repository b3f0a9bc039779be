// SPDX-License-Identifier: BSD-3-Clause
// Frames that arrive by the straight way: from a wire that is a ring in memory into receive WQEs of
// one segment, where a frame goes to one queue that wants it as it is, by a rule or by a hash.
// Records, keys and counters are looked at once for all. It asks what the general way (rx.cc) asks;
// what is not plain, and whatever goes wrong, stays on the wire for that. Adapter's lock held.
// Never allocates. Frames are untrusted.
#include "kilim/detail/base/be.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/doorbell.hh"
#include "kilim/prm/mkc.hh"
#include "vhca/core/journal.hh"
#include "vhca/ethernet/describe.hh"
#include "vhca/ethernet/four_frames.hh"
#include "vhca/ethernet/observed_frames.hh"
#include "vhca/ethernet/plain_flow.hh"
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

namespace kilim::vhca::ethernet {

namespace {

// The queue of a table that gets the frame, and why.
[[gnu::noinline]] HashedFrame hashed_queue(const Tir& tir, std::span<const std::byte> frame,
                                           FrameWords words, bool common) noexcept {
  const bool tcp = words.type >> prm::cqe::l4_type_shift != prm::cqe::l4_udp;
  const RxHash hash = common ? hash_plain_ipv4(tir, frame, tcp) : hash_frame(tir, frame);
  return {tir.table->queues[hash.value & (tir.table->queues.size() - 1)], hash};
}

// Where the completion queue compresses.
[[gnu::noinline]] bool hold_entry(wq::EngineContext& context, const Taking& t,
                                  std::span<const std::byte> frame) noexcept {
  wq::Cq& cq = *t.qp->recv_cq;
  prm::Cqe cqe = t.entry;
  const uint16_t index = t.index();
  cqe.wqe_counter = be16{index};
  cqe.op_own = 0;
  if (wq::says_checksum(cq)) cqe.checksum = packet_checksum(frame);
  return wq::write_or_hold(context, cq, cqe, static_cast<uint16_t>(index + 1));
}

[[gnu::always_inline]] inline bool put_entry(wq::EngineContext& context, Taking& t,
                                             std::span<const std::byte> frame,
                                             FrameWords words) noexcept {
  prm::Cqe& cqe = t.entry;
  cqe.hds_ip_ext = words.ok;
  cqe.l4_hdr_type_etc = words.type;
  cqe.byte_cnt = be32{static_cast<uint32_t>(frame.size())};
  if (t.holds) [[unlikely]]
    return hold_entry(context, t, frame);
  if (!memory::dma::store_entry(t.slot, &cqe, t.last)) return false;
  t.slot += sizeof(cqe);
  return true;
}

// False: it is not plain, and nothing but bytes behind an unused WQE has changed.
[[gnu::always_inline]] inline bool take(wq::EngineContext& context, Taking& t,
                                        std::span<const std::byte> frame,
                                        FrameWords words) noexcept {
  if (!has_wqe(t)) return false;
  uint64_t to;
  if (!find_place(context, t, next_segment(t), frame.size(), to) ||
      !copy_to_client(to, frame.data(), frame.size()) || !put_entry(context, t, frame, words))
    return false;
  t.step();
  return true;
}

bool is_plain(const EthState& eth) noexcept {
  const wq::EngineContext& c = *eth.context;
  return !c.profile->flow_control && !c.dead;
}

// Frames of a row that were taken, and their bytes.
struct Taken {
  uint64_t frames = 0, bytes = 0;
};

void account_received(const Observed& observed, EthPort& port, wire::WireCounters& wire,
                      const Taken& row) noexcept {
  if (row.frames == 0) return;
  port.paused = false;
  port.counters.rx_packets += row.frames;
  port.counters.rx_bytes += row.bytes;
  wire.rx_frames += row.frames;
  wire.rx_bytes += row.bytes;
  if (!observed.on) [[likely]]
    observed.eth.context->journal->plain_received(row.frames);
}

// Where the frame before went, and what it was like.
struct Before {
  bool by_kind;        // rules look that far
  bool common = true;  // it was an IPv4 frame that describe_ipv4() knows
  Flow flow{};
  SameShape shape{};
  Taking* t = nullptr;
  CoveredWords covered{};              // of that shape
  uint64_t fours_from = ~uint64_t{0};  // as many frames of the row go one by one
};

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

// Frames of the shape of the one before that go to one queue, four at a time, where both sums of
// each are right. How many were taken.
[[gnu::always_inline]] inline std::size_t take_fours(wire::FrameRing::Reader& in, Row& row,
                                                     Before& b, std::size_t budget) noexcept {
  wq::Qp& qp = *b.flow.to;
  if (b.t == nullptr || b.t->qp != &qp) b.t = taking_of(row, qp);
  if (b.t == nullptr || b.t->hashed) return 0;
  FourFrames f{};
  f.bytes = b.shape.frame_bytes();
  f.step = wire::FrameRing::Reader::step_of(f.bytes);
  const FrameWords words{all_sums_ok, b.shape.shape().type};
  std::size_t taken = 0;
  while (budget - taken >= 4) {
    f.first = in.four(static_cast<uint32_t>(f.bytes), f.step);
    if (f.first == nullptr || !b.shape.is_that_of_four(f.first, f.step) ||
        !sums_of_four_are_right(f.first, f.step, b.covered))
      break;
    const unsigned n = take_four(*b.t, f, words);
    in.pop_rows(n, f.step);
    taken += n;
    if (n != 4) break;
  }
  return taken;
}

// Frames of the shape of the one before, four at a time. Where four did not go, the next four are
// not tried.
[[gnu::always_inline]] inline bool try_fours(wire::FrameRing::Reader& in, Row& row, Before& b,
                                             Taken& all, std::size_t budget) noexcept {
  if (all.frames < b.fours_from || budget - all.frames < 4) return false;
  if (b.covered.sixteens == 0) {
    b.covered = words_of(b.shape.shape());
    if (b.covered.sixteens == 0 || b.shape.frame_bytes() == 0) {
      b.fours_from = ~uint64_t{0};
      return false;
    }
  }
  const std::size_t left = budget - all.frames;
  const Tir* tir = b.flow.to->tir;
  const std::size_t taken = tir == nullptr ? take_fours(in, row, b, left)
                                           : take_spread(in, row, {b.shape, b.covered, *tir}, left);
  all.frames += taken;
  all.bytes += taken * b.shape.frame_bytes();
  b.fours_from = all.frames + 4;
  return taken != 0;
}

// A frame that is not like the one before, with its shape. A row's first ones are tried four at a
// time at once, others behind the second of their shape. False: it is not plain.
[[gnu::always_inline]] inline bool learn(EthPort& port, std::span<const std::byte> frame, Before& b,
                                         uint64_t taken) noexcept {
  if (frame.size() > port.longest_in) [[unlikely]]
    return false;
  if (!learn_flow(port, frame, b.by_kind, b.flow)) return false;
  const FrameShape shape = shape_of_ipv4(frame);
  b.shape.remember(frame, shape);
  if (b.flow.memo == nullptr) b.shape.forget();
  b.common = shape.covered != 0;
  b.covered.sixteens = 0;
  b.fours_from = taken == 0 ? 0 : taken + 2;
  return true;
}

// What a completion says of the frame that was learned last, or is like it.
[[gnu::always_inline]] inline FrameWords describe(std::span<const std::byte> frame,
                                                  const Before& b) noexcept {
  const FrameShape& shape = b.shape.shape();
  if (b.common) [[likely]]
    return {sums_of_ipv4(frame.data(), shape), shape.type};
  prm::Cqe said{};
  describe_frame(frame, false, said);
  return {said.hds_ip_ext, said.l4_hdr_type_etc};
}

// Frames go on coming from the front of the ring until one is not plain.
Taken take_row(EthPort& port, wire::FrameRing::Reader& in, Row& row, std::size_t budget) noexcept {
  Before b{.by_kind = port.steering.reach() == Reach::kind};
  Taken all;
  while (all.frames < budget) {
    if (try_fours(in, row, b, all, budget)) continue;
    const std::span<const std::byte> frame = in.front();
    if (frame.size() < wire::ether_header_bytes) break;
    if (!b.shape.is_that_of(frame)) [[unlikely]] {
      if (!learn(port, frame, b, all.frames)) break;
      if (try_fours(in, row, b, all, budget)) continue;
    }
    const FrameWords words = describe(frame, b);
    b.t = queue_for(row, b, frame, words);
    if (b.t == nullptr || !take(row.context, *b.t, frame, words)) break;
    all.frames++;
    all.bytes += frame.size();
    in.pop(frame.size());
  }
  settle(row);
  return all;
}

// Takes each frame as if it were the first of a row: the linter looks at the receive WQE in the
// queue, which knows what was taken before.
[[gnu::cold, gnu::noinline]] Taken take_observed(EthPort& port, wire::FrameRing::Reader& in,
                                                 Row& row, const Observed& observed,
                                                 std::size_t budget) noexcept {
  Taken all;
  while (all.frames < budget) {
    Before b{.by_kind = port.steering.reach() == Reach::kind};
    const std::span<const std::byte> frame = in.front();
    if (frame.size() < wire::ether_header_bytes || !learn(port, frame, b, all.frames)) break;
    const FrameWords words = describe(frame, b);
    Taking* t = queue_for(row, b, frame, words);
    if (t == nullptr) break;
    const wq::Qp& qp = *t->qp;
    if (!observed.look(qp) || !take(row.context, *t, frame, words)) break;
    settle(row);
    observed.tell(qp, frame.size());
    all.frames++;
    all.bytes += frame.size();
    in.pop(frame.size());
  }
  settle(row);  // of a queue whose WQE was looked at and left
  return all;
}

}  // namespace

std::size_t eth_receive_plain(EthState& eth, uint32_t number, std::size_t budget) noexcept {
  EthPort& port = eth.ports[number - 1];
  if (!is_plain(eth) || port.wire->is_recording()) return 0;
  const wire::RingEnd wire = port.wire->in_ring();
  const Observed observed(eth, number);
  if (wire.ring == nullptr) return 0;
  wire::FrameRing::Reader in(*wire.ring);
  if (in.front().empty()) return 0;
  Row row(*eth.context);
  const uint64_t mark = in.mark();
  const Taken all = observed.on ? take_observed(port, in, row, observed, budget)
                                : take_row(port, in, row, budget);
  if (port.counts_casts) [[unlikely]]
    in.each_since(mark, [&port](std::span<const std::byte> f) { port.rx_casts.add(f); });
  if (wire::FrameCapture* capture = wire.account->capture; capture != nullptr) [[unlikely]]
    in.each_since(mark, [=](std::span<const std::byte> f) { capture->add(f); });
  in.release();
  account_received(observed, port, *wire.account->counters, all);
  return all.frames;
}

}  // namespace kilim::vhca::ethernet
