// SPDX-License-Identifier: BSD-3-Clause
// Completion: a CQE decoded to host order. Its wr_id is filled in by Cq::poll(out, sq); otherwise
// the caller gets it by sq.retire(c.wqe_counter) or rq.retire(c.wqe_counter). Pure values, any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kilim/detail/base/ident.hh"
#include "kilim/prm/bsf_seg.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/syndrome.hh"

#if defined(__SSSE3__)
#include <tmmintrin.h>
#endif

namespace kilim::inline v1::queue {

// What a CQE says, in host order. The first 16 bytes are laid out so that decode() makes them of
// the CQE's second half by two shuffles.
struct alignas(16) Completion {
  Qpn qpn;
  uint32_t byte_len = 0;                      // bytes received, or written by a READ or an atomic
  uint32_t imm = 0;                           // immediate data or invalidated key, host order
  uint16_t wqe_counter = 0;                   // for Sq::retire(), Rq::retire() and Srq::retire()
  prm::Opcode wqe_opcode = prm::Opcode::nop;  // of the request that completed
  prm::CqeOpcode opcode = prm::CqeOpcode::invalid;
  prm::Syndrome syndrome = prm::Syndrome::none;  // none: success
  uint8_t vendor_syndrome = 0;                   // of the firmware
  uint64_t wr_id = 0;                            // the caller's number of the request

  [[nodiscard]] bool ok() const noexcept { return opcode < prm::CqeOpcode::sig_err; }
  // True: of a request in a send queue. False: of a receive, or sig_err.
  [[nodiscard]] bool of_requester() const noexcept {
    return opcode == prm::CqeOpcode::req || opcode == prm::CqeOpcode::req_err;
  }
};

static_assert(offsetof(Completion, byte_len) == 4 && offsetof(Completion, imm) == 8 &&
              offsetof(Completion, wqe_counter) == 12 && offsetof(Completion, wqe_opcode) == 14 &&
              offsetof(Completion, opcode) == 15 && offsetof(Completion, vendor_syndrome) == 17 &&
              sizeof(Completion) == 32);

// Decodes a CQE that software owns into `c`, all but wr_id. `op_own` is its last byte, read before
// the rest.
inline void decode(const prm::Cqe& e, uint8_t op_own, Completion& c) noexcept {
#if defined(__SSSE3__)
  // `third` picks imm and byte_cnt from the CQE's bytes 32..47, `last` queue pair, counter and
  // opcode from 48..63.
  const __m128i third = _mm_setr_epi8(-1, -1, -1, -1, 15, 14, 13, 12, 7, 6, 5, 4, -1, -1, -1, -1);
  const __m128i last = _mm_setr_epi8(11, 10, 9, -1, -1, -1, -1, -1, -1, -1, -1, -1, 13, 12, 8, -1);
  const auto* cqe = reinterpret_cast<const __m128i*>(&e);
  _mm_store_si128(reinterpret_cast<__m128i*>(&c),
                  _mm_or_si128(_mm_shuffle_epi8(_mm_load_si128(cqe + 2), third),
                               _mm_shuffle_epi8(_mm_load_si128(cqe + 3), last)));
#else
  const uint32_t sop = e.sop_drop_qpn.host();
  c.qpn = Qpn{prm::cqe::qpn::of(sop)};
  c.byte_len = e.byte_cnt.host();
  c.imm = e.imm_inval_pkey.host();
  c.wqe_counter = e.wqe_counter.host();
  c.wqe_opcode = static_cast<prm::Opcode>(prm::cqe::wqe_opcode::of(sop));
#endif
  c.opcode = prm::cqe::opcode_of(op_own);
  std::memset(&c.syndrome, 0, 2);  // syndrome and vendor_syndrome
}

// A signature error belongs to a key, not to a request: `imm` is the key, `byte_len` the block's
// offset, `wqe_counter` the part (prm::sig_err), `vendor_syndrome` the domain. umr::sign_error()
// decodes the rest of the CQE.
inline Completion decode_sign_error(const prm::Cqe& cqe) noexcept {
  Completion c;
  const auto& e = reinterpret_cast<const prm::SigErrCqe&>(cqe);
  c.opcode = prm::CqeOpcode::sig_err;
  c.imm = e.mkey.host();
  c.byte_len = static_cast<uint32_t>(e.offset.host());
  c.wqe_counter = e.syndrome.host();
  c.vendor_syndrome = e.domain;
  return c;
}

// Decodes a CQE whose opcode is an error (Cq::is_error()); out of the fast path.
inline Completion decode_error(const prm::Cqe& cqe) noexcept {
  Completion c;
  if (prm::cqe::opcode_of(cqe.op_own) == prm::CqeOpcode::sig_err) return decode_sign_error(cqe);
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

}  // namespace kilim::inline v1::queue
