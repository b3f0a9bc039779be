// SPDX-License-Identifier: BSD-3-Clause
// Firmware commands by the names that the manual has for them. Any thread.
#pragma once

#include <cstdint>

namespace kilim::vhca::hca {

// Lives for ever. Of an opcode that is not carried out: words that say so.
const char* command_name(uint16_t opcode) noexcept;

}  // namespace kilim::vhca::hca
