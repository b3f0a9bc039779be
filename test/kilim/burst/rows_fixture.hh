// SPDX-License-Identifier: BSD-3-Clause
// The burst functions of every row, compiled once for all tests of the room, and with the options
// that a release's library has: who names the tables of select.hh compiles all 72 functions. Any
// thread.
#pragma once

#include <span>

#include "kilim/detail/burst/select.hh"

namespace kilim::test {

struct CompiledBursts {
  std::span<const burst::RxVariant> rx, compressed, strided, chains;
  std::span<const burst::TxVariant> tx;
};
const CompiledBursts& compiled() noexcept;

// What select.hh chooses.
const burst::RxVariant& chosen_rx(burst::RxConfig c, burst::Simd have) noexcept;
const burst::RxVariant& chosen_compressed(burst::RxConfig c, burst::Simd have) noexcept;
const burst::RxVariant& chosen_strided(burst::RxConfig c) noexcept;
const burst::RxVariant& chosen_chain(burst::RxConfig c) noexcept;
const burst::TxVariant& chosen_tx(burst::TxConfig c, burst::Simd have) noexcept;

}  // namespace kilim::test
