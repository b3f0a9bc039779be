// SPDX-License-Identifier: BSD-3-Clause
// What the harness of ioctls and its seeds share: the steps of an input, and the methods by their
// places.
#pragma once

#include <cstdint>
#include <vector>

#include "request_fixture.hh"
#include "vhca/uverbs/bundle.hh"

namespace kilim::fuzz {

enum class Ask : uint8_t { ioctl, command, write, map, run, close_fd, memory };
inline constexpr uint8_t asks = 7;

inline std::vector<const vhca::uverbs::Method*> all_methods() {
  std::vector<const vhca::uverbs::Method*> all;
  // New ones at the end: inputs that are kept name methods by their place.
  for (auto room :
       {vhca::uverbs::device_methods, vhca::uverbs::port_methods, vhca::uverbs::pd_methods,
        vhca::uverbs::mr_methods, vhca::uverbs::cq_methods, vhca::uverbs::qp_methods,
        vhca::uverbs::ah_methods, vhca::uverbs::flow_methods, vhca::uverbs::uar_methods,
        vhca::uverbs::devx_methods, vhca::uverbs::write_methods, vhca::uverbs::dm_methods,
        vhca::uverbs::advise_methods}) {
    for (const vhca::uverbs::Method& m : room()) all.push_back(&m);
  }
  return all;
}

}  // namespace kilim::fuzz
