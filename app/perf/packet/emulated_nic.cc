// SPDX-License-Identifier: BSD-3-Clause
#include "perf/packet/emulated_nic.hh"

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

std::string EmulatedNic::open(const char* name) {
  rings_ = std::make_unique<Rings>();
  memory_.resize(std::size_t{packet_buffers} * pool::default_stride);
  sides_.resize(packet_buffers);
  auto arena = pool::Arena::over(memory_, pool::default_stride, sides_.data());
  if (!arena) return arena.error().what;
  arena_ = *arena;
  auto pool = pool::Pool::create(arena_, {.name = name, .count = packet_buffers});
  if (!pool) return pool.error().what;
  pool_.emplace(*std::move(pool));
  return "";
}

queue::RqGeometry EmulatedNic::rq() noexcept {
  return {reinterpret_cast<std::byte*>(rings_->receives), packet_ring, sizeof(prm::DataSeg),
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

uint32_t EmulatedNic::receive(uint32_t packets) noexcept {
  const auto posted = static_cast<uint16_t>(rings_->receive_record.host());
  uint32_t n = 0;
  for (; n < packets && static_cast<uint16_t>(filled_) != posted; n++, filled_++) {
    prm::Cqe& e = rings_->received.next(prm::CqeOpcode::resp_send, filled_);
    e.rx_hash_result = be32{0x1000000u + filled_};
    e.hds_ip_ext = prm::cqe::l2_ok | prm::cqe::l3_ok | prm::cqe::l4_ok;
    e.l4_hdr_type_etc = prm::cqe::l3_ipv4 << prm::cqe::l3_type_shift |
                        prm::cqe::l4_tcp << prm::cqe::l4_type_shift | prm::cqe::vlan_stripped;
    e.vlan_info = be16{static_cast<uint16_t>(filled_ & 0xfff)};
    e.byte_cnt = be32{packet_bytes};
    e.timestamp = be64{filled_};
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
