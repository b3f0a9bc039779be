// SPDX-License-Identifier: BSD-3-Clause
// What --enable-lro needs of modes, ports and other options. Main thread, set-up only.
#pragma once

#include <span>
#include <string>

#include "forward.hh"
#include "ports.hh"

namespace kilim::testpmd {

// What is in the way of joining TCP segments, where options ask for it: a sentence; empty: nothing.
std::string refusal_of_lro(const Options& options, const Engine& engine,
                           std::span<const PortRef> ports);

}  // namespace kilim::testpmd
