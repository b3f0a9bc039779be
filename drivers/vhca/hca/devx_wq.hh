// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Work Queue Context": where a ring of a DevX client's and its doorbell record lie. What SQ,
// RQ, RMP and XRQ commands share. Adapter's lock held.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "vhca/hca/commands.hh"

namespace kilim::vhca::hca::commands {

struct WqPlace {
  Va ring, record;
  std::array<uint32_t, 2> umems{};  // of both
};

// `wq`: a "Work Queue Context"; `shift`: log2 of the bytes of an entry. Nothing: they lie in no
// umem of this client's. Rings by lists of physical pages are the kernel's alone.
std::optional<WqPlace> find_wq(const Hca&, const Client&, In wq, uint32_t shift);

// What QUERY commands tell of a queue's ring, as it was created.
struct WqShape {
  UmemTable::User user;  // the umems that it holds are named; those of verbs are not the client's
  uint32_t type = 0, pd = 0, uar_page = 0;
  uint32_t wqes = 0;  // a power of two
  uint32_t log_stride = 0;
  uint32_t lwm = 0;
  Va ring, record;
};
void tell_wq(const Hca&, Out wq, const WqShape&);
// Of a shared ring, which `destroy` ends.
void tell_shared_ring(const Hca&, Out wq, const wq::Srq&, uint16_t destroy);

// A ring that queue pairs share, of an RMP or XRQ: linked or cyclic, and of both kinds entries have
// a link before their segments and say which one is next (UCX 1.13, uct_ib_mlx5_srq_buff_init()).
// False: a ring of another type.
bool fill_shared_ring(In wq, SrqSpec&);

}  // namespace kilim::vhca::hca::commands
