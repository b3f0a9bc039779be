// SPDX-License-Identifier: BSD-3-Clause
// What a CQE says, as a value in host order. The wr id is got from the queue that it names:
// sq.retire(c.wqe_counter) for a requester's, rq.retire(c.wqe_counter) for a responder's.
// Any thread; pure values.
#pragma once

#include <cstdint>

#include "kilim/base/ident.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/syndrome.hh"

namespace kilim::queue {

struct Completion {
  Qpn qpn;
  uint32_t byte_len = 0;  // of receives, reads and atomics
  uint32_t imm = 0;       // immediate data or invalidated key, host order
  uint16_t wqe_counter = 0;
  prm::CqeOpcode opcode = prm::CqeOpcode::invalid;
  prm::Syndrome syndrome = prm::Syndrome::none;  // none: success
  prm::Opcode wqe_opcode = prm::Opcode::nop;     // of the request that completed
  uint8_t vendor_syndrome = 0;

  [[nodiscard]] bool ok() const noexcept { return opcode < prm::CqeOpcode::sig_err; }
  // Of the send queue; a responder's completion belongs to the receive queue.
  [[nodiscard]] bool of_requester() const noexcept {
    return opcode == prm::CqeOpcode::req || opcode == prm::CqeOpcode::req_err;
  }
};

// From a CQE that is the software's; written member by member to where it is wanted.
inline void decode(const prm::Cqe& e, Completion& c) noexcept {
  const uint32_t sop = e.sop_drop_qpn.host();
  c.qpn = Qpn{prm::cqe::qpn::of(sop)};
  c.byte_len = e.byte_cnt.host();
  c.imm = e.imm_inval_pkey.host();
  c.wqe_counter = e.wqe_counter.host();
  c.opcode = prm::cqe::opcode_of(e.op_own);
  c.syndrome = prm::Syndrome::none;
  c.wqe_opcode = static_cast<prm::Opcode>(prm::cqe::wqe_opcode::of(sop));
  c.vendor_syndrome = 0;
}

// From a CQE whose opcode says error; not on the way of a burst.
inline Completion decode_error(const prm::Cqe& cqe) noexcept {
  Completion c;
  const auto& e = reinterpret_cast<const prm::ErrCqe&>(cqe);
  const uint32_t sop = e.s_wqe_opcode_qpn.host();
  c.qpn = Qpn{prm::cqe::err_qpn::of(sop)};
  c.wqe_counter = e.wqe_counter.host();
  c.opcode = prm::cqe::opcode_of(e.op_own);
  c.syndrome = static_cast<prm::Syndrome>(e.syndrome);
  c.wqe_opcode = static_cast<prm::Opcode>(prm::cqe::err_wqe_opcode::of(sop));
  c.vendor_syndrome = e.vendor_err_synd;
  return c;
}

}  // namespace kilim::queue
