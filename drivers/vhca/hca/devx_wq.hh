// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Work Queue Context": where a ring of a DevX client's and its doorbell record lie. What SQ
// and RQ commands share. Adapter's lock held.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "vhca/hca/commands.hh"

namespace kilim::vhca::commands {

struct WqPlace {
  Va ring, record;
  std::array<uint32_t, 2> umems{};  // of both
};

// Of the context of an SQ or RQ; `shift`: log2 of the bytes of an entry. Nothing: they lie in no
// umem of this client's. Rings by lists of physical pages are the kernel's alone.
std::optional<WqPlace> find_wq(const Hca&, const Client&, In context, uint32_t shift);

}  // namespace kilim::vhca::commands
