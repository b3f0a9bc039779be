// SPDX-License-Identifier: BSD-3-Clause
// The forwarding modes: a new one is a file and a row here.
#include "forward.hh"

namespace kilim::testpmd {
namespace {

constexpr const Engine* table[] = {
    &io_engine,     &mac_engine,  &macswap_engine,  &flowgen_engine,         &rxonly_engine,
    &txonly_engine, &csum_engine, &icmpecho_engine, &five_tuple_swap_engine, &noisy_engine,
    &split_engine,  &umr_engine,
};

}  // namespace

std::span<const Engine* const> engines() noexcept {
  return table;
}

const Engine* find_engine(std::string_view name) noexcept {
  for (const Engine* e : table)
    if (name == e->name) return e;
  return nullptr;
}

}  // namespace kilim::testpmd
