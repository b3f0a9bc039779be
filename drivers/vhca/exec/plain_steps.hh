// SPDX-License-Identifier: BSD-3-Clause
// What the straight ways of requests between two queues of one adapter have in common. Adapter's
// lock held. Never allocates.
#pragma once

#include <cstdint>

#include "kilim/detail/base/be.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/prm/doorbell.hh"
#include "vhca/exec/engine.hh"
#include "vhca/memory/dma.hh"
#include "vhca/memory/dma_inline.hh"

namespace kilim::vhca::exec {

inline bool completes_plainly(const wq::Cq& cq) noexcept {
  return cq.plain_entries && !cq.error && !cq.armed;
}

[[gnu::always_inline]] inline bool plain_copy(uint64_t to, uint64_t from, uint64_t bytes) noexcept {
  if (bytes - 32 <= 32) [[likely]]
    return memory::dma::move_32_to_64(to, from, bytes);
  return memory::dma::copy(Va{to}, Va{from}, bytes);
}

// Forgets the keys remembered at both ends where the peer, or any direct key, is another one now.
inline void recall(const Engine& e, wq::Qp& qp, const wq::Qp& peer) noexcept {
  tpt::KeyMemos& m = qp.memos;
  const bool good = m.generation == e.context.keys->generation() &&
                    m.peer_qpn == peer.qpn.value() && m.peer_pd == peer.spec.pd;
  if (good) return;
  m = {};
  m.generation = e.context.keys->generation();
  m.peer_pd = peer.spec.pd;
  m.peer_qpn = peer.qpn.value();
}

// The next entries of a completion queue with room: what they have in common is made once.
struct NextEntry {
  wq::Cq& cq;
  prm::CqeOpcode op;
  alignas(16) prm::Cqe cqe{};

  // False: its memory is gone, nothing is counted.
  [[gnu::always_inline]] bool give(uint16_t index, uint32_t bytes) noexcept {
    cqe.byte_cnt = be32{bytes};
    cqe.wqe_counter = be16{index};
    cqe.op_own = prm::cqe::op_own(op, false, (cq.producer & cq.spec.cqe_count) != 0);
    const uint32_t slot = cq.producer & (cq.spec.cqe_count - 1);
    if (!memory::dma::store_64(cq.spec.buf.value() + uint64_t{slot} * sizeof(cqe), &cqe))
      return false;
    cq.producer = (cq.producer + 1) & prm::arm::index_mask;
    return true;
  }
};

}  // namespace kilim::vhca::exec
