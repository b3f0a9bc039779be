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

inline std::vector<const vhca::Method*> all_methods() {
  std::vector<const vhca::Method*> all;
  // New ones at the end: inputs that are kept name methods by their place.
  for (auto room :
       {vhca::device_methods, vhca::port_methods, vhca::pd_methods, vhca::mr_methods,
        vhca::cq_methods, vhca::qp_methods, vhca::ah_methods, vhca::flow_methods, vhca::uar_methods,
        vhca::devx_methods, vhca::write_methods, vhca::dm_methods, vhca::advise_methods}) {
    for (const vhca::Method& m : room()) all.push_back(&m);
  }
  return all;
}

}  // namespace kilim::fuzz
