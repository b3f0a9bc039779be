// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CQE Ownership". The completions of a run of plain requests, written one after the other.
// Adapter's lock held. Never allocates; the entries lie in client memory.
#pragma once

#include <cstdint>

#include "kilim/detail/base/be.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/prm/opcode.hh"
#include "vhca/memory/dma_inline.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"

namespace kilim::vhca::exec {

// The completions of one run, up to the end of their ring: what the entries have in common is made
// once.
class PlainEntries {
 public:
  PlainEntries(const wq::EngineContext& context, const wq::Qp& qp, prm::Opcode opcode) noexcept
      : begin_(place(*qp.send_cq)),
        at_(begin_),
        uidx_(be32{qp.spec.uidx}),
        stamp_(be64{context.now_ns}),
        last_(last_word(qp, opcode) - one_wqe) {}

  // For the request that next_wqe() came to last. False: the memory of the completion queue is
  // gone; this entry is not counted.
  [[gnu::always_inline]] bool give(uint32_t bytes) noexcept {
    const __m128i second =
        _mm_set_epi32(static_cast<int>(be32{bytes}.raw()), 0, 0, static_cast<int>(uidx_.raw()));
    if (!memory::dma::give_64(at_, second, stamp_.raw(), be64{last_}.raw())) return false;
    at_ += sizeof(prm::Cqe);
    return true;
  }
  // To the next WQE; the first is the one at sq.ci.
  [[gnu::always_inline]] void next_wqe() noexcept { last_ += one_wqe; }
  // How many were given.
  [[nodiscard]] uint32_t given() const noexcept {
    return static_cast<uint32_t>((at_ - begin_) / sizeof(prm::Cqe));
  }

 private:
  static constexpr uint64_t one_wqe = 1u << 16;
  static uint64_t place(const wq::Cq& cq) noexcept {
    return cq.spec.buf.value() + uint64_t{cq.producer & (cq.spec.cqe_count - 1)} * sizeof(prm::Cqe);
  }
  // The last eight bytes of an entry: opcode, queue, index of the WQE, owner.
  static uint64_t last_word(const wq::Qp& qp, prm::Opcode opcode) noexcept {
    const bool owner = (qp.send_cq->producer & qp.send_cq->spec.cqe_count) != 0;
    const uint32_t first = prm::cqe::wqe_opcode::at(static_cast<uint8_t>(opcode)) | qp.qpn.value();
    return uint64_t{first} << 32 | uint32_t{qp.sq.ci} << 16 |
           prm::cqe::op_own(prm::CqeOpcode::req, false, owner);
  }

  const uint64_t begin_;
  uint64_t at_;
  const be32 uidx_;
  const be64 stamp_;
  uint64_t last_;  // in host order
};

}  // namespace kilim::vhca::exec
