// SPDX-License-Identifier: BSD-3-Clause
// An adapter with one end of a cable, its memory, and raw packet queues written by hand.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "../wire/frames_fixture.hh"
#include "kilim/detail/base/mmio.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/doorbell.hh"
#include "kilim/prm/eth_seg.hh"
#include "ut.hh"
#include "vhca/hca/objects.hh"
#include "vhca/memory/dma_guard.hh"
#include "vhca/wire/make.hh"
#include "vhca/wire/wire.hh"

namespace kilim::test {

using namespace kilim::vhca;

inline constexpr uint32_t ring_wqes = 64;
inline constexpr std::size_t memory_bytes = 1u << 20;

struct NoEvents final : EventSink {
  void completion(void*) noexcept override {}
  void async(uint32_t type, void*) noexcept override { events.push_back(type); }
  std::vector<uint32_t> events;
};

// One queue pair with its CQ, all in the rig's memory from `base` on.
struct RawQueue {
  std::byte* base = nullptr;
  Qpn qpn;
  Cqn cqn;
  uint16_t sq_pi = 0, rq_pi = 0;
  uint32_t cq_ci = 0;

  // base: SQ 4096, RQ 1024 (16-byte WQEs), CQ 8192, records.
  [[nodiscard]] std::byte* sq() const { return base; }
  [[nodiscard]] std::byte* rq() const { return base + 4096; }
  [[nodiscard]] std::byte* cq() const { return base + 8192; }
  [[nodiscard]] be32* record() const { return reinterpret_cast<be32*>(base + 16384); }
  [[nodiscard]] be32* cq_record() const { return reinterpret_cast<be32*>(base + 16448); }
  static constexpr std::size_t bytes = 20480;
};

inline Va va(const void* p) {
  return Va{reinterpret_cast<uint64_t>(p)};
}

// Who observes an adapter.
struct RigObserver {
  std::string tee{};  // behind the wire
  Journal* journal = nullptr;
  lint::LintMode lint = lint::LintMode::off;
};

class Rig {
 public:
  // `wire`: a spec instead of the cable whose other end is `far`.
  explicit Rig(bool flow_control = false, const std::string& wire = "",
               const char* profile = "cx6dx") {
    static int number = 0;
    std::string spec = wire.empty() ? "cable:rig" + std::to_string(number++) : wire;
    memory = static_cast<std::byte*>(
        mmap(nullptr, memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    hca::HcaConfig config;
    config.name = "vhca0";
    config.profile = *find_profile(profile);
    config.profile.flow_control = flow_control;
    config.wires.push_back(
        *wire::make_wire(spec + (straight || !wire.empty() ? "" : "+fault:drop:0") + observer.tee));
    config.journal = observer.journal;
    config.lint = observer.lint;
    if (wire.empty()) far = *wire::make_wire(spec);
    hca = *hca::Hca::create(std::move(config));
    hca->lock.lock();
    pd = *hca::alloc_pd(*hca);
    key = hca::reg_mr(*hca,
                      {pd, va(memory), memory_bytes, Iova{va(memory).value()}, access::local_write})
              ->lkey;
    uar = *hca->uars.alloc();
    doorbell = static_cast<std::byte*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, uar->fd.get(), 0));
  }
  ~Rig() {
    hca->lock.unlock();
    hca.reset();
    munmap(doorbell, 4096);
    munmap(memory, memory_bytes);
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  // The n-th queue, ready to send and receive; `wqes`: of a receive ring elsewhere, at `rq`.
  RawQueue queue(std::size_t n, MiniFormat mini = MiniFormat::none, uint32_t wqes = ring_wqes,
                 std::byte* rq = nullptr) {
    RawQueue q;
    q.base = memory + n * RawQueue::bytes;
    std::memset(q.cq(), 0xf0, ring_wqes * 2 * 64);
    CqSpec c;
    c.buf = va(q.cq());
    c.record = va(q.cq_record());
    c.cqe_count = ring_wqes * 2;
    c.uar_page = uar->index;
    c.mini = mini;
    q.cqn = *hca::create_cq(*hca, c, &sink);
    QpSpec s;
    s.type = QpType::raw_packet;
    s.pd = pd;
    s.send_cq = s.recv_cq = q.cqn;
    s.buf = va(rq != nullptr ? rq : q.rq());
    s.sq_buf = va(q.sq());
    s.record = va(q.record());
    s.sq_wqebbs = ring_wqes;
    s.rq_wqes = wqes;
    s.rq_wqe_shift = 4;
    s.uar_page = uar->index;
    s.uidx = static_cast<uint32_t>(0x700 + n);
    q.qpn = *hca::create_qp(*hca, s, &sink);
    QpAttr a;
    a.port = 1;
    for (QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
      a.state = state;
      uint32_t mask = qp_mask::state | (state == QpState::init ? qp_mask::port : 0);
      EQUAL(hca::modify_qp(*hca, q.qpn, a, mask), 0);
    }
    return q;
  }

  // Posts a WQE made of `segments` behind control and Ethernet segments; not yet announced.
  void put(RawQueue& q, uint8_t opcode, prm::EthSeg eth, const Bytes& segments) const {
    std::size_t bytes = 32 + segments.size();
    prm::CtrlSeg c{};
    c.opmod_idx_opcode = be32{static_cast<uint32_t>(q.sq_pi) << 8 | opcode};
    c.qpn_ds = be32{q.qpn.value() << 8 | static_cast<uint32_t>((bytes + 15) / 16)};
    c.fm_ce_se = prm::ctrl::cq_update;
    Bytes wqe((bytes + 63) / 64 * 64);
    std::memcpy(wqe.data(), &c, 16);
    std::memcpy(wqe.data() + 16, &eth, 16);
    if (!segments.empty()) std::memcpy(wqe.data() + 32, segments.data(), segments.size());
    for (std::size_t i = 0; i < wqe.size(); i += 64) {
      std::memcpy(q.sq() + (q.sq_pi++ % ring_wqes) * 64, wqe.data() + i, 64);
    }
  }
  void ring(const RawQueue& q) const {
    record_store(q.record() + prm::record_send, be32{q.sq_pi});
    mmio_store64(doorbell + prm::uar::blueflame, 1);
  }
  // A WQE that sends these bytes of the rig's memory.
  void send(RawQueue& q, const std::byte* at, std::size_t bytes, uint8_t cs_flags = 0) const {
    prm::EthSeg eth{};
    eth.cs_flags = cs_flags;
    put(q, 0x0a, eth, pointer(at, bytes));
  }
  [[nodiscard]] Bytes pointer(const std::byte* at, std::size_t bytes) const {
    prm::DataSeg d{be32{static_cast<uint32_t>(bytes)}, be32{key.value()}, be64{va(at).value()}};
    Bytes b(sizeof(d));
    std::memcpy(b.data(), &d, sizeof(d));
    return b;
  }
  void receive(RawQueue& q, const std::byte* at, std::size_t bytes) const {
    Bytes d = pointer(at, bytes);
    std::memcpy(q.rq() + (q.rq_pi++ % ring_wqes) * 16, d.data(), 16);
    record_store(q.record() + prm::record_receive, be32{q.rq_pi});
  }

  void run() const {
    for (int i = 0; i < 4; ++i) hca->run();
  }
  // The next completion of the queue, or one of opcode `invalid`.
  static prm::Cqe poll(RawQueue& q) {
    prm::Cqe c;
    std::memcpy(&c, q.cq() + q.cq_ci % (ring_wqes * 2) * 64, 64);
    bool mine = (c.op_own & 1u) == (q.cq_ci / (ring_wqes * 2) & 1u) &&
                prm::cqe::opcode_of(c.op_own) != prm::CqeOpcode::invalid;
    if (!mine) {
      c.op_own = prm::cqe::invalid_op_own;
      return c;
    }
    record_store(q.cq_record(), be32{++q.cq_ci & 0xffffff});
    return c;
  }
  static uint8_t syndrome(const prm::Cqe& c) {
    prm::ErrCqe e;
    std::memcpy(&e, &c, sizeof(e));
    return e.syndrome;
  }
  [[nodiscard]] std::byte* room(std::size_t n) const { return memory + (1u << 19) + n * 16384; }
  // Puts a frame into the rig's memory.
  std::byte* load(std::size_t n, const Bytes& frame) const {
    std::memcpy(room(n), frame.data(), frame.size());
    return room(n);
  }
  // The next frame at the far end of the cable.
  [[nodiscard]] Bytes arrived() const {
    std::span<const std::byte> f = far->peek();
    Bytes b(f.begin(), f.end());
    far->drop();
    return b;
  }

  // False: of adapters made from now on frames take the general way, past a decorator that changes
  // nothing.
  static inline bool straight = true;
  static inline RigObserver observer;  // of those too

  std::byte* memory;
  std::byte* doorbell;
  NoEvents sink;
  std::unique_ptr<wire::Wire> far;
  std::unique_ptr<hca::Hca> hca;
  Pdn pd;
  Lkey key;
  hca::Uar* uar;
};

inline constexpr auto ok_opcode = prm::CqeOpcode::req;
inline constexpr auto recv_opcode = prm::CqeOpcode::resp_send;

inline prm::CqeOpcode opcode(const prm::Cqe& c) {
  return prm::cqe::opcode_of(c.op_own);
}

// A receive queue by itself, ready, on the memory of a raw queue's: its number.
inline uint32_t ready_rq(Rig& r, RawQueue& q) {
  RqSpec s;
  s.pd = r.pd;
  s.cq = q.cqn;
  s.buf = va(q.rq());
  s.record = va(q.record() + 8);
  s.wqes = ring_wqes;
  s.wqe_shift = 4;
  const uint32_t rqn = *hca::create_rq(*r.hca, s, &r.sink);
  EQUAL(hca::modify_rq(*r.hca, rqn, {RqState::reset, RqState::ready}), 0);
  return rqn;
}

inline FlowSpec everything() {
  FlowSpec f;
  f.has_eth = true;
  return f;
}

// Of eth_receive.cc, eth_packets.cc, eth_large.cc, eth_spread.cc, eth_ways.cc, eth_fours.cc.
std::span<const kilim::test::Case> eth_receive_cases();
// Of receive_queues.cc.
std::span<const kilim::test::Case> receive_queue_cases();
// Of compression.cc.
std::span<const kilim::test::Case> compression_cases();
std::span<const kilim::test::Case> eth_packets_cases();
std::span<const kilim::test::Case> eth_large_cases();
std::span<const kilim::test::Case> eth_spread_cases();
std::span<const kilim::test::Case> eth_ways_cases();
// Of eth_tunnels.cc, eth_large_receive.cc.
std::span<const kilim::test::Case> eth_large_receive_cases();
std::span<const kilim::test::Case> eth_tunnel_cases();
// Of eth_odd_frames.cc.
std::span<const kilim::test::Case> eth_odd_frame_cases();
// Of eth_tunnel_rules.cc.
std::span<const kilim::test::Case> eth_tunnel_rule_cases();
std::span<const kilim::test::Case> eth_fours_cases();
// In eth_admits.cc.
std::span<const kilim::test::Case> eth_admits_cases();

}  // namespace kilim::test
