// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/worker/mailbox.hh"

#include <rte_errno.h>
#include <rte_memory.h>

#include "kilim/detail/base/outlived.hh"

namespace kilim::inline v1::worker {

Result<Mailbox> Mailbox::create(const char* name) {
  Mailbox box;
  box.ring_.reset(rte_ring_create_elem(name, sizeof(Message), depth, SOCKET_ID_ANY,
                                       RING_F_SC_DEQ | RING_F_EXACT_SZ));
  if (box.ring_ == nullptr) return Error{rte_errno, "no memory for a worker's mailbox"};
  return box;
}

void Mailbox::FreeRing::operator()(rte_ring* ring) const noexcept {
  if (!outlived_eal(ring, "a worker's mailbox")) rte_ring_free(ring);
}

}  // namespace kilim::inline v1::worker
