// SPDX-License-Identifier: BSD-3-Clause
// Frames that arrive by the straight way: from a wire that is a ring in memory into receive WQEs of
// one segment, where a frame goes to one queue that wants it as it is, by a rule or by a hash.
// Records, keys and counters are looked at once for all. It asks what the general way (rx.cc) asks;
// what is not plain, and whatever goes wrong, stays on the wire for that. Adapter's lock held.
// Never allocates. Frames are untrusted.
#include <algorithm>
#include <cstring>

#include "kilim/base/be.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/doorbell.hh"
#include "kilim/prm/mkc.hh"
#include "vhca/core/journal.hh"
#include "vhca/ethernet/describe.hh"
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
         !qp.spec.rq_signature && !qp.spec.scatter_fcs && !cq.error && !cq.armed &&
         cq.spec.cqe_bytes == sizeof(prm::Cqe) && !cq.spec.time_of_day;
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
  if (reach == Reach::all || kind == 0) return {targets[0].qp, nullptr};
  std::memcpy(m.header.data(), frame.data(), m.header.size());
  m.kind = kind;
  m.version = version;
  m.qp = targets[0].qp;
  return {m.qp, &m};
}

// What one queue may take in a row. Trivial: made when a frame comes for it.
struct Taking {
  Qp* qp;
  uint32_t left;               // WQEs that wait, and entries up to the end of their ring
  alignas(16) prm::Cqe entry;  // the next one, but for what its frame says
};

// Of one port. Queues have their place by number; one that another is in is made anew.
struct Row {
  static constexpr std::size_t places = 8;                 // a power of two
  explicit Row(EngineContext& c) noexcept : context(c) {}  // leaves `takings` as they are
  EngineContext& context;
  std::array<Qp*, places> queues{};
  std::array<Taking, places> takings;  // of those queues
};

// False: it does not take plainly.
[[gnu::noinline]] bool begin(Row& row, Taking& t, Qp& qp) noexcept {
  uint32_t raw = 0;
  if (!takes_plainly(qp) || !dma::load(Va{qp.spec.record.value() + 4 * prm::record_receive}, raw))
    return false;
  // Another queue with the same completion queue counts its room from now on.
  for (Qp*& other : row.queues)
    if (other != nullptr && other->recv_cq == qp.recv_cq) other = nullptr;
  const uint32_t wqes = static_cast<uint16_t>(be32::from_raw(raw).host() - qp.rq.ci);
  t.qp = &qp;
  t.left = std::min(wqes, straight_room(*qp.recv_cq));
  KeyMemos& m = qp.memos;
  if (m.generation != row.context.keys->generation()) {
    m = {};
    m.generation = row.context.keys->generation();
  }
  t.entry = {};
  t.entry.srqn_uidx = be32{qp.spec.uidx};
  t.entry.timestamp = be64{row.context.now_ns};
  t.entry.sop_drop_qpn = be32{qp.alone ? 0 : qp.qpn.value()};
  return true;
}

// Null: the queue does not take plainly.
[[gnu::always_inline]] inline Taking* taking_of(Row& row, Qp& qp) noexcept {
  const std::size_t place = qp.qpn.value() & (Row::places - 1);
  Taking& t = row.takings[place];
  if (row.queues[place] != &qp) {
    if (!begin(row, t, qp)) return nullptr;
    row.queues[place] = &qp;
  }
  return &t;
}

// Where the receive WQE at rq.ci wants `bytes` bytes; 0: it is not plain.
uint64_t target_of(const EngineContext& context, Qp& qp, std::size_t bytes) noexcept {
  prm::DataSeg d;
  if (!dma::load_16(&d, qp.rq.base + uint64_t{qp.rq.ci & (qp.rq.wqes - 1)} * sizeof(d))) return 0;
  const uint32_t room = d.byte_count.host(), key = d.lkey.host();
  if ((room & prm::inline_flag) != 0 || room < bytes || key == prm::list_end_lkey) return 0;
  KeyMemo& m = qp.memos.remote;
  const uint64_t address = d.addr.host();
  // The general way looks at the bytes of the frame alone, too.
  const bool known =
      key == m.key && (m.rights & prm::mkey::local_write) != 0 && m.holds(address - m.start, bytes);
  if (known) [[likely]]
    return m.va + (address - m.start);
  const Access need{qp.spec.pd, qp.qpn.value(), prm::mkey::local_write};
  return find_direct(context.translator, {key, address, bytes, need}, m);
}

bool copy_to_client(uint64_t to, std::span<const std::byte> frame) noexcept {
  const auto from = reinterpret_cast<uint64_t>(frame.data());
  if (frame.size() - 32 <= 32) [[likely]]
    return dma::move_32_to_64(to, from, frame.size());
  return dma::copy_within(Va{to}, Va{from}, frame.size());
}

// What a completion says of one frame.
struct Findings {
  FrameWords words;
  bool common = false;  // words are describe_ipv4()'s
  RxHash hash{};
};

[[gnu::always_inline]] inline Findings describe(std::span<const std::byte> frame) noexcept {
  if (const FrameWords w = describe_ipv4(frame); w.ok != 0) [[likely]]
    return {w, true};
  prm::Cqe said{};
  describe_frame(frame, said);
  return {{said.hds_ip_ext, said.l4_hdr_type_etc}, false};
}

// The queue of a table that gets the frame.
[[gnu::noinline]] Qp& hashed_queue(const Tir& tir, std::span<const std::byte> frame,
                                   Findings& f) noexcept {
  const bool tcp = f.words.type >> prm::cqe::l4_type_shift != prm::cqe::l4_udp;
  f.hash = f.common ? hash_plain_ipv4(tir, frame, tcp) : hash_frame(tir, frame);
  return *tir.table->queues[f.hash.value & (tir.table->queues.size() - 1)];
}

// Where the completion queue compresses.
[[gnu::noinline]] bool hold_entry(EngineContext& context, const Taking& t,
                                  std::span<const std::byte> frame) noexcept {
  Cq& cq = *t.qp->recv_cq;
  prm::Cqe cqe = t.entry;
  cqe.op_own = 0;
  if (says_checksum(cq)) cqe.checksum = packet_checksum(frame);
  return write_or_hold(context, cq, cqe, static_cast<uint16_t>(t.qp->rq.ci + 1));
}

[[gnu::always_inline]] inline bool put_entry(EngineContext& context, Taking& t,
                                             std::span<const std::byte> frame,
                                             const Findings& f) noexcept {
  Cq& cq = *t.qp->recv_cq;
  prm::Cqe& cqe = t.entry;
  cqe.hds_ip_ext = f.words.ok;
  cqe.l4_hdr_type_etc = f.words.type;
  cqe.rx_hash_result = be32{f.hash.value};
  cqe.rx_hash_type = f.hash.type;
  cqe.byte_cnt = be32{static_cast<uint32_t>(frame.size())};
  cqe.wqe_counter = be16{t.qp->rq.ci};
  if (cq.block != nullptr) [[unlikely]]
    return hold_entry(context, t, frame);
  cqe.op_own =
      prm::cqe::op_own(prm::CqeOpcode::resp_send, false, (cq.producer & cq.spec.cqe_count) != 0);
  const uint32_t slot = cq.producer & (cq.spec.cqe_count - 1);
  if (!dma::store_64(cq.spec.buf.value() + uint64_t{slot} * sizeof(cqe), &cqe)) return false;
  cq.producer = (cq.producer + 1) & prm::arm::index_mask;
  return true;
}

// False: it is not plain, and nothing but bytes behind an unused WQE has changed.
[[gnu::always_inline]] inline bool take(EngineContext& context, Taking& t,
                                        std::span<const std::byte> frame,
                                        const Findings& f) noexcept {
  Qp& qp = *t.qp;
  if (t.left == 0) return false;
  const uint64_t to = target_of(context, qp, frame.size());
  if (to == 0 || !copy_to_client(to, frame) || !put_entry(context, t, frame, f)) return false;
  qp.rq.ci++;
  t.left--;
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

// Frames go on coming from the front of the ring until one is not plain.
Taken take_row(EthPort& port, FrameRing::Reader& in, Row& row, std::size_t budget) noexcept {
  const bool by_kind = port.steering.reach() == Reach::kind;
  Flow flow;
  Taking* t = nullptr;  // of the frame before
  Taken all;
  while (all.frames < budget) {
    const std::span<const std::byte> frame = in.front();
    if (frame.size() < ether_header_bytes) break;
    // Rules do not change in between.
    const bool same = flow.memo != nullptr && flow.memo->begins(frame) &&
                      (!by_kind || frame_kind(frame) == flow.memo->kind);
    if (!same) [[unlikely]] {
      flow = find_flow(port, frame);
      if (flow.to == nullptr) break;
    }
    if (perhaps_roce(frame, type_of(frame))) break;
    Findings f = describe(frame);
    Qp& qp = flow.to->tir != nullptr ? hashed_queue(*flow.to->tir, frame, f) : *flow.to;
    if (t == nullptr || t->qp != &qp) t = taking_of(row, qp);
    if (t == nullptr || !take(row.context, *t, frame, f)) break;
    all.frames++;
    all.bytes += frame.size();
    in.pop(frame.size());
  }
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
