// SPDX-License-Identifier: BSD-3-Clause
// The service that tests of the connection manager listen at.
#pragma once

#include <cstdint>

#include "vhca/cm/messages.hh"

namespace kilim::vhca::test {

inline constexpr uint64_t service = cm::service_id_of(cm::PortSpace::tcp, 7471);

}  // namespace kilim::vhca::test
