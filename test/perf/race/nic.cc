// SPDX-License-Identifier: BSD-3-Clause
#include "perf/race/nic.hh"

#include "kilim/detail/base/units.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/opcode.hh"

namespace kilim::race {

prm::Cqe& Nic::next(const queue::CqGeometry& cq, uint32_t& produced, prm::CqeOpcode op,
                    uint32_t wqe) noexcept {
  auto& e = reinterpret_cast<prm::Cqe*>(cq.buf)[produced & (cq.cqe_count - 1)];
  e = {};
  e.wqe_counter = be16{static_cast<uint16_t>(wqe)};
  e.op_own = prm::cqe::op_own(op, false, (produced & cq.cqe_count) != 0);
  produced++;
  return e;
}

namespace {

// Packets of a multi-packet WQE: a data segment each, which may be inline.
uint32_t packets_of(const std::byte* ring, uint32_t mask, std::size_t at, uint32_t ds) noexcept {
  uint32_t n = 0;
  for (uint32_t i = 2; i < ds; n++) {
    const std::byte* segment = ring + (at * 64 + std::size_t{i} * 16) % ((mask + 1) * 64);
    const uint32_t count = reinterpret_cast<const prm::DataSeg*>(segment)->byte_count.host();
    const bool is_inline = (count & prm::inline_flag) != 0;
    i += is_inline ? ((count & 0x3ff) + 4 + 15) / 16 : 1;
  }
  return n;
}

}  // namespace

void Nic::complete_sent() noexcept {
  const auto posted = static_cast<uint16_t>(rings_.sq.record->host());
  sent_ = 0;
  // At most a lap, whatever the record and the WQEs say.
  for (uint32_t last = completed_ + rings_.sq.wqebb_count;
       static_cast<uint16_t>(completed_) != posted && completed_ != last;) {
    const std::size_t at = completed_ & (rings_.sq.wqebb_count - 1);
    const auto& ctrl = *reinterpret_cast<const prm::CtrlSeg*>(rings_.sq.buf + at * 64);
    const uint32_t ds = prm::ctrl::ds::get(ctrl);
    const bool many =
        prm::ctrl::opcode::get(ctrl) == static_cast<uint32_t>(prm::Opcode::enhanced_mpsw);
    sent_ += many ? packets_of(rings_.sq.buf, rings_.sq.wqebb_count - 1, at, ds) : 1;
    if (prm::ctrl::completes(ctrl.fm_ce_se))
      (void)next(rings_.tx_cq, signalled_, prm::CqeOpcode::req, completed_);
    const uint32_t blocks = wqebbs_for(Octowords{ds}).value();
    completed_ += blocks < last - completed_ && blocks != 0 ? blocks : last - completed_;
  }
}

uint32_t Nic::turn(uint32_t packets, uint32_t bytes) noexcept {
  complete_sent();
  const auto posted = static_cast<uint16_t>(rings_.rq.record->host());
  uint32_t n = 0;
  for (; n < packets && static_cast<uint16_t>(filled_) != posted; n++, filled_++) {
    prm::Cqe& e = next(rings_.rx_cq, received_, prm::CqeOpcode::resp_send, filled_);
    e.rx_hash_result = be32{0x1000000u + filled_};
    e.hds_ip_ext = prm::cqe::l2_ok | prm::cqe::l3_ok | prm::cqe::l4_ok;
    e.l4_hdr_type_etc =
        prm::cqe::l3_ipv4 << prm::cqe::l3_type_shift | prm::cqe::l4_tcp << prm::cqe::l4_type_shift;
    e.byte_cnt = be32{bytes};
    e.timestamp = be64{filled_};
  }
  return n;
}

}  // namespace kilim::race
