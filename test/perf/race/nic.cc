// SPDX-License-Identifier: BSD-3-Clause
#include "perf/race/nic.hh"

#include <algorithm>
#include <cstring>

#include "kilim/detail/base/barrier.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/data_seg.hh"

namespace kilim::race {
namespace {

// The first line of every frame: addresses (the first of them is the frame's number), IPv4, TCP.
struct alignas(64) FrameStart {
  uint8_t bytes[64]{2, 0,  0, 0, 0, 9, 2,  0, 0, 0, 0,  1, 8, 0, 0x45,  0,
                    0, 50, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10,    0,
                    0, 2,  4, 0, 4, 1, 0,  0, 0, 0, 0,  0, 0, 0, 5 << 4};
};
constexpr FrameStart frame_start;

}  // namespace

prm::Cqe& Nic::next(const queue::CqGeometry& cq, uint32_t& produced, prm::CqeOpcode op,
                    uint32_t wqe) noexcept {
  auto& e = reinterpret_cast<prm::Cqe*>(cq.buf)[produced & (cq.cqe_count - 1)];
  e = {};
  e.wqe_counter = be16{static_cast<uint16_t>(wqe)};
  e.op_own = prm::cqe::op_own(op, false, (produced & cq.cqe_count) != 0);
  produced++;
  return e;
}

void Nic::complete() noexcept {
  const auto posted = static_cast<uint16_t>(rings_.sq.record->host());
  sent_ = {};
  // At most a lap, whatever the record and the WQEs say.
  for (uint32_t last = completed_ + rings_.sq.wqebb_count;
       static_cast<uint16_t>(completed_) != posted && completed_ != last;) {
    const WqeView wqe{rings_.sq, completed_};
    sent_ += wqe.read();
    if (prm::ctrl::completes(wqe.ctrl().fm_ce_se))
      evict(&next(rings_.tx_cq, signalled_, prm::CqeOpcode::req, completed_), level_);
    const uint32_t blocks = wqebbs_for(Octowords{wqe.octowords()}).value();
    completed_ += blocks < last - completed_ && blocks != 0 ? blocks : last - completed_;
  }
}

// A block that is not received to its end keeps its entries, though its receives are posted again.
// A consumer index has 24 bits.
uint32_t Nic::room() const noexcept {
  const auto posted = static_cast<uint16_t>(rings_.rq.record->host() - filled_);
  const uint32_t taken = (received_ - rings_.rx_cq.record->host()) & 0xffffff;
  return std::min<uint32_t>(posted, rings_.rx_cq.cqe_count - taken);
}

uint32_t Nic::to_end() const noexcept {
  const uint32_t wqes = rings_.rq.wqe_count - (filled_ & (rings_.rq.wqe_count - 1));
  const uint32_t cqes = rings_.rx_cq.cqe_count - (received_ & (rings_.rx_cq.cqe_count - 1));
  return wqes < cqes ? wqes : cqes;
}

void Nic::describe(prm::Cqe& e, const Packet& p) const noexcept {
  e.rx_hash_result = be32{p.hash};
  e.hds_ip_ext = p.sums;
  e.l4_hdr_type_etc = p.types;
  e.byte_cnt = be32{p.bytes};
  e.timestamp = be64{filled_};
}

void Nic::write_frame() noexcept {
  const std::byte* wqe =
      rings_.rq.buf + std::size_t{filled_ & (rings_.rq.wqe_count - 1)} * rings_.rq.stride;
  const auto& d = *reinterpret_cast<const prm::DataSeg*>(wqe);
  auto* frame = reinterpret_cast<std::byte*>(d.addr.host());
  std::memcpy(frame, &frame_start, sizeof frame_start);
  std::memcpy(frame, &filled_, sizeof filled_);
  evict(frame, level_);
}

void Nic::receive(const Packet& p) noexcept {
  const auto op = p.syndrome != 0 ? prm::CqeOpcode::resp_err : prm::CqeOpcode::resp_send;
  prm::Cqe& e = next(rings_.rx_cq, received_, op, filled_);
  if (p.syndrome != 0) {
    reinterpret_cast<prm::ErrCqe&>(e).syndrome = p.syndrome;
  } else {
    describe(e, p);
    write_frame();
  }
  evict(&e, level_);
  filled_++;
}

// A title, and arrays of eight minis in the entries that prm::mini_cqe::entry_of() says. The other
// entries of the block stay as they were.
void Nic::receive_block(std::span<const Packet> packets, bool hashes) noexcept {
  const auto n = static_cast<uint32_t>(packets.size());
  const uint32_t first = received_, mask = rings_.rx_cq.cqe_count - 1;
  auto* const cqes = reinterpret_cast<prm::Cqe*>(rings_.rx_cq.buf);
  prm::Cqe& title = next(rings_.rx_cq, received_, prm::CqeOpcode::resp_send, filled_);
  describe(title, packets[0]);
  title.byte_cnt = be32{n};
  title.op_own |= prm::cqe::compressed;
  for (uint32_t i = 0; i < n; i++, filled_++) {
    prm::Cqe& entry = cqes[(first + prm::mini_cqe::entry_of(i)) & mask];
    auto& mini = reinterpret_cast<prm::MiniCqe*>(&entry)[i % prm::mini_cqe::in_entry];
    mini.result = be32{hashes ? packets[i].hash : 0xbeef0000u};
    mini.byte_cnt = be32{packets[i].bytes};
    write_frame();
    if (i % prm::mini_cqe::in_entry == prm::mini_cqe::in_entry - 1 || i + 1 == n)
      evict(&entry, level_);
  }
  evict(&title, level_);
  received_ = first + n;
}

void Nic::end_turn() noexcept {
  if (level_ != Level::hot) store_before_load();
}

}  // namespace kilim::race
