// SPDX-License-Identifier: BSD-3-Clause
// What is posted as NOPs directly behind a request is read before the request's entry shows: a card
// has fetched it by then. DPDK 22.11 (drivers/crypto/mlx5/mlx5_crypto.c, mlx5_crypto_wqe_set())
// posts UMR, WRITE and NOP in a slot, and writes the slot anew once the WRITE has completed.
// Whoever writes the completion of a send request asks for it first. Adapter's lock held.
#pragma once

#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"

namespace kilim::vhca::wq {

// The NOPs from sq.ci on that have been posted and complete nothing. Whether there were any.
bool read_posted_nops(EngineContext&, Qp&) noexcept;

// The same where most queues have nothing behind the request.
[[gnu::always_inline]] inline bool take_posted_nops(EngineContext& context, Qp& qp) noexcept {
  return qp.sq.ci != qp.sq.pi && read_posted_nops(context, qp);
}

}  // namespace kilim::vhca::wq
