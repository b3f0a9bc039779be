// SPDX-License-Identifier: BSD-3-Clause
#include "rows_fixture.hh"

namespace kilim::test {

const CompiledBursts& compiled() noexcept {
  static constexpr CompiledBursts all{burst::rx_variants, burst::compressed_rx_variants,
                                      burst::strided_rx_variants, burst::rx_chain_variants,
                                      burst::tx_variants};
  return all;
}

const burst::RxVariant& chosen_rx(burst::RxConfig c, burst::Simd have) noexcept {
  return burst::select_rx(c, have);
}
const burst::RxVariant& chosen_compressed(burst::RxConfig c, burst::Simd have) noexcept {
  return burst::select_compressed_rx(c, have);
}
const burst::RxVariant& chosen_strided(burst::RxConfig c) noexcept {
  return burst::select_strided_rx(c);
}
const burst::RxVariant& chosen_chain(burst::RxConfig c) noexcept {
  return burst::select_rx_chain(c);
}
const burst::TxVariant& chosen_tx(burst::TxConfig c, burst::Simd have) noexcept {
  return burst::select_tx(c, have);
}

}  // namespace kilim::test
