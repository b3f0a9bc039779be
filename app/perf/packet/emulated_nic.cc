// SPDX-License-Identifier: BSD-3-Clause
#include "perf/packet/emulated_nic.hh"

#include <algorithm>

#include "kilim/prm/ctrl_seg.hh"

namespace kilim::perf {

EmulatedNic::CqeRing::CqeRing() noexcept {
  for (prm::Cqe& e : cqes) {
    e = {};
    e.op_own = prm::cqe::invalid_op_own;
  }
}

prm::Cqe& EmulatedNic::CqeRing::next(prm::CqeOpcode op, uint32_t wqe) noexcept {
  prm::Cqe& e = cqes[produced % packet_ring];
  e = {};
  e.wqe_counter = be16{static_cast<uint16_t>(wqe)};
  e.op_own = prm::cqe::op_own(op, false, (produced / packet_ring & 1) != 0);
  produced++;
  return e;
}

std::string EmulatedNic::open(const char* name, RxForm form) {
  form_ = form;
  rings_ = std::make_unique<Rings>();
  memory_.resize(std::size_t{packet_buffers} * pool::default_stride);
  const bool strided = form == RxForm::strided;
  const uint32_t piece = strided ? 1u << packet_strides.log_bytes : 0;
  sides_.resize(std::size_t{packet_buffers} * pool::side_records_of(pool::default_stride, piece));
  auto arena = pool::Arena::over(memory_, pool::default_stride, sides_.data(),
                                 strided ? holders_.data() : nullptr, piece);
  if (!arena) return arena.error().what;
  arena_ = *arena;
  auto pool = pool::Pool::create(arena_, {.name = name, .count = packet_buffers});
  if (!pool) return pool.error().what;
  pool_.emplace(*std::move(pool));
  return "";
}

queue::RqGeometry EmulatedNic::rq() noexcept {
  const uint32_t segments = form_ == RxForm::strided || form_ == RxForm::chained ? 2 : 1;
  return {reinterpret_cast<std::byte*>(rings_->receives), packet_ring, segments * octoword_bytes,
          &rings_->receive_record};
}
queue::CqGeometry EmulatedNic::rx_cq() noexcept {
  return {reinterpret_cast<std::byte*>(rings_->received.cqes), packet_ring, sizeof(prm::Cqe),
          &rings_->received.record, Cqn{1}};
}
queue::SqGeometry EmulatedNic::sq() noexcept {
  return {&rings_->sends[0][0], packet_ring, &rings_->send_record,
          reinterpret_cast<std::byte*>(&rings_->doorbell), Qpn{0x123}};
}
queue::CqGeometry EmulatedNic::tx_cq() noexcept {
  return {reinterpret_cast<std::byte*>(rings_->sent.cqes), packet_ring, sizeof(prm::Cqe),
          &rings_->sent.record, Cqn{2}};
}

void EmulatedNic::describe(prm::Cqe& e, uint32_t packet) noexcept {
  e.rx_hash_result = be32{0x1000000u + packet};
  e.hds_ip_ext = prm::cqe::l2_ok | prm::cqe::l3_ok | prm::cqe::l4_ok;
  e.l4_hdr_type_etc = prm::cqe::l3_ipv4 << prm::cqe::l3_type_shift |
                      prm::cqe::l4_tcp << prm::cqe::l4_type_shift | prm::cqe::vlan_stripped;
  e.vlan_info = be16{static_cast<uint16_t>(packet & 0xfff)};
  e.byte_cnt = be32{packet_bytes};
  e.timestamp = be64{packet};
}

uint32_t EmulatedNic::receive(uint32_t packets) noexcept {
  if (form_ == RxForm::compressed) return receive_block(packets);
  if (form_ == RxForm::strided) return receive_strides(packets);
  const auto posted = static_cast<uint16_t>(rings_->receive_record.host());
  uint32_t n = 0;
  for (; n < packets && static_cast<uint16_t>(filled_) != posted; n++, filled_++)
    describe(rings_->received.next(prm::CqeOpcode::resp_send, filled_), filled_);
  return n;
}

// One block: a title, and an array of eight minis in each slot behind it that is a multiple of
// eight (PRM: "CQE Compression").
uint32_t EmulatedNic::receive_block(uint32_t packets) noexcept {
  const auto posted = static_cast<uint16_t>(rings_->receive_record.host());
  const uint32_t n = std::min<uint32_t>(packets, static_cast<uint16_t>(posted - filled_));
  if (n == 0) return 0;
  CqeRing& ring = rings_->received;
  const uint32_t first = ring.produced;
  prm::Cqe& title = ring.next(prm::CqeOpcode::resp_send, filled_);
  describe(title, filled_);
  title.byte_cnt = be32{n};
  constexpr uint8_t compressed = 3u << 2;
  title.op_own |= compressed;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t group = i / 8 * 8;
    auto* minis = reinterpret_cast<prm::MiniCqe*>(
        &ring.cqes[(first + (group == 0 ? 1 : group)) % packet_ring]);
    prm::MiniCqe& mini = minis[i % 8];
    mini.result = be32{0x1000000u + filled_ + i};
    mini.byte_cnt = be32{packet_bytes};
  }
  ring.produced = first + n;
  filled_ += n;
  return n;
}

uint32_t EmulatedNic::receive_strides(uint32_t packets) noexcept {
  const auto posted = static_cast<uint16_t>(rings_->receive_record.host());
  uint32_t n = 0;
  for (; n < packets && static_cast<uint16_t>(filled_) != posted; n++) {
    prm::Cqe& e = rings_->received.next(prm::CqeOpcode::resp_send, strides_);
    describe(e, n);
    e.wqe_id = be16{static_cast<uint16_t>(filled_)};
    e.byte_cnt = be32{1u << 16 | packet_bytes};  // strides, bytes
    if (++strides_ < packet_strides.count()) continue;
    strides_ = 0;
    filled_++;
  }
  return n;
}

uint32_t EmulatedNic::complete_sent() noexcept {
  const auto posted = static_cast<uint16_t>(rings_->send_record.host());
  uint32_t n = 0;
  while (static_cast<uint16_t>(completed_) != posted) {
    const auto& ctrl =
        *reinterpret_cast<const prm::CtrlSeg*>(rings_->sends[completed_ % packet_ring]);
    if (prm::ctrl::completes(ctrl.fm_ce_se))
      (void)rings_->sent.next(prm::CqeOpcode::req, completed_);
    completed_ += wqebbs_for(Octowords{prm::ctrl::ds::get(ctrl)}).value();
    n++;
  }
  return n;
}

}  // namespace kilim::perf
