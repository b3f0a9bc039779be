// SPDX-License-Identifier: BSD-3-Clause
// Frames that arrive by the straight way: from a wire that is a ring in memory into receive WQEs of
// one segment, where a frame goes to one queue that wants it as it is. Records, keys and counters
// are looked at once for all. It asks what the general way (rx.cc) asks; what is not plain, and
// whatever goes wrong, stays on the wire for that. Adapter's lock held. Never allocates. Frames are
// untrusted.
#include <algorithm>
#include <cstring>

#include "kilim/base/be.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/doorbell.hh"
#include "kilim/prm/mkc.hh"
#include "vhca/core/journal.hh"
#include "vhca/ethernet/describe.hh"
#include "vhca/ethernet/state.hh"
#include "vhca/memory/dma.hh"
#include "vhca/memory/dma_inline.hh"
#include "vhca/tpt/key_memo.hh"
#include "vhca/wire/frame_ring.hh"
#include "vhca/wire/packet.hh"
#include "vhca/wq/cqe_writer.hh"

namespace kilim::vhca {

namespace {

constexpr uint16_t type_tag = 0x8100, type_two_tags = 0x88a8, type_six = 0x86dd;
constexpr uint8_t protocol_tcp = 6, protocol_of_udp = 17;
constexpr uint16_t roce_port = 4791;

uint16_t type_of(std::span<const std::byte> frame) noexcept {
  return get_be<uint16_t>(frame, 12);
}

// Whether RoCE may want to see it first: parse_roce() (transport/roce_frame.cc) takes UDP on IPv6.
// What is not read here, tags and other headers, may be that.
bool perhaps_roce(std::span<const std::byte> frame, uint16_t type) noexcept {
  constexpr std::size_t next_header_at = 20, ports_at = 54;
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
         !qp.spec.rq_signature && !qp.spec.strip_vlan && !qp.spec.scatter_fcs && !cq.error &&
         !cq.armed && cq.spec.cqe_bytes == sizeof(prm::Cqe) && !cq.spec.time_of_day;
}

// In two loads that overlap.
[[gnu::always_inline]] inline bool same_header(const std::array<std::byte, 14>& header,
                                               std::span<const std::byte> frame) noexcept {
  const auto word = [](const std::byte* at) {
    uint64_t v;
    std::memcpy(&v, at, sizeof(v));
    return v;
  };
  constexpr std::size_t second = sizeof(header) - sizeof(uint64_t);
  return ((word(header.data()) ^ word(frame.data())) |
          (word(header.data() + second) ^ word(frame.data() + second))) == 0;
}

// The only queue that gets the frame; null: another number of them.
[[gnu::noinline]] Qp* queue_of(EthPort& port, std::span<const std::byte> frame) noexcept {
  FlowMemo& m = port.flow;
  const bool again = m.version == port.steering.version() && same_header(m.header, frame);
  if (again) [[likely]]
    return m.qp;
  const std::span<const FlowTarget> targets = port.steering.match(frame);
  if (targets.size() != 1 || targets[0].tag != 0 || port.steering.counted()) return nullptr;
  if (targets[0].qp->tir != nullptr) return nullptr;  // a hash decides for each frame
  if (port.steering.shallow() && type_of(frame) != type_tag) {
    std::memcpy(m.header.data(), frame.data(), m.header.size());
    m.version = port.steering.version();
    m.qp = targets[0].qp;
  }
  return targets[0].qp;
}

// What one queue takes in a row.
struct Taking {
  Qp& qp;
  uint32_t wqes = 0;     // that wait
  uint32_t entries = 0;  // of the completion queue, up to the end of its ring
  uint64_t frames = 0, bytes = 0;
  alignas(16) prm::Cqe entry{};  // the next one, but for what its frame says
};

bool begin(const EngineContext& context, Taking& t) noexcept {
  uint32_t raw = 0;
  if (!dma::load(Va{t.qp.spec.record.value() + 4 * prm::record_receive}, raw)) return false;
  t.wqes = static_cast<uint16_t>(be32::from_raw(raw).host() - t.qp.rq.ci);
  t.entries = straight_room(*t.qp.recv_cq);
  KeyMemos& m = t.qp.memos;
  if (m.generation != context.keys->generation()) {
    m = {};
    m.generation = context.keys->generation();
  }
  t.entry.srqn_uidx = be32{t.qp.spec.uidx};
  t.entry.timestamp = be64{context.now_ns};
  t.entry.sop_drop_qpn = be32{t.qp.qpn.value()};
  return true;
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

bool put_entry(Taking& t, std::span<const std::byte> frame) noexcept {
  const Cq& cq = *t.qp.recv_cq;
  prm::Cqe& cqe = t.entry;
  if (!describe_ipv4(frame, cqe)) describe_frame(frame, cqe);
  cqe.byte_cnt = be32{static_cast<uint32_t>(frame.size())};
  cqe.wqe_counter = be16{t.qp.rq.ci};
  cqe.op_own =
      prm::cqe::op_own(prm::CqeOpcode::resp_send, false, (cq.producer & cq.spec.cqe_count) != 0);
  const uint32_t slot = cq.producer & (cq.spec.cqe_count - 1);
  return dma::store_64(cq.spec.buf.value() + uint64_t{slot} * sizeof(cqe), &cqe);
}

// False: it is not plain, and nothing but bytes behind an unused WQE has changed.
bool take(const EngineContext& context, Taking& t, std::span<const std::byte> frame) noexcept {
  if (t.frames == t.wqes || t.frames == t.entries) return false;
  const uint64_t to = target_of(context, t.qp, frame.size());
  if (to == 0 || !copy_to_client(to, frame) || !put_entry(t, frame)) return false;
  Cq& cq = *t.qp.recv_cq;
  cq.producer = (cq.producer + 1) & prm::arm::index_mask;
  t.qp.rq.ci++;
  t.frames++;
  t.bytes += frame.size();
  return true;
}

bool is_plain(const EthState& eth) noexcept {
  const EngineContext& c = *eth.context;
  return !c.journal->on() && c.observer == nullptr && !c.profile->flow_control && !c.dead;
}

void account_received(const EthState& eth, EthPort& port, WireCounters& wire,
                      const Taking& t) noexcept {
  port.paused = false;
  port.counters.rx_packets += t.frames;
  port.counters.rx_bytes += t.bytes;
  wire.rx_frames += t.frames;
  wire.rx_bytes += t.bytes;
  eth.context->journal->plain_received(t.frames);
}

}  // namespace

std::size_t eth_receive_plain(EthState& eth, uint32_t number, std::size_t budget) noexcept {
  EthPort& port = eth.ports[number - 1];
  if (!is_plain(eth) || port.wire->is_recording()) return 0;
  const RingEnd wire = port.wire->in_ring();
  if (wire.ring == nullptr) return 0;
  FrameRing::Reader in(*wire.ring);
  std::span<const std::byte> frame = in.front();
  Qp* qp = nullptr;
  if (frame.size() >= ether_header_bytes) qp = queue_of(port, frame);
  if (qp == nullptr || !takes_plainly(*qp)) return 0;
  Taking t{.qp = *qp};
  if (!begin(*eth.context, t)) return 0;
  // Rules do not change in between.
  const bool remembered = port.flow.version == port.steering.version() && port.flow.qp == qp;
  while (t.frames < budget) {
    if (perhaps_roce(frame, type_of(frame)) || !take(*eth.context, t, frame)) break;
    in.pop(frame.size());
    frame = in.front();
    if (frame.size() < ether_header_bytes) break;
    if (remembered && same_header(port.flow.header, frame)) [[likely]]
      continue;
    if (queue_of(port, frame) != qp) break;
  }
  in.release();
  if (t.frames != 0) account_received(eth, port, *wire.counters, t);
  return t.frames;
}

}  // namespace kilim::vhca
