// SPDX-License-Identifier: BSD-3-Clause
// What both ways of AES share. Pure values, any thread.
#pragma once

#include "vhca/tpt/aes.hh"

namespace kilim::vhca::tpt::aes {

using Vector [[gnu::vector_size(16)]] = uint8_t;

bool have_instructions() noexcept;
// Whole blocks in place, with the tweaks from this one on; it is left behind the last.
void run(const XtsKey&, AesBlock& tweak, std::byte* data, std::size_t blocks,
         bool encrypt) noexcept;

}  // namespace kilim::vhca::tpt::aes
