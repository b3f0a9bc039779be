// SPDX-License-Identifier: BSD-3-Clause
// A packet program around one function. app::run() starts EAL, makes buffers, starts the ports with
// their queues spread over the lcores and calls Program::on_burst for every burst until SIGINT or
// SIGTERM; app::Burst has the packets and the ways on for them; app::PerLane is what a program
// keeps by lcore.
//
// Threads: run() is the main thread's. on_burst and on_tick run on every lane's lcore, several at
// once, and must not block; prepare, started and finish run on the main lcore.
//
// Errors: prepare and started return a sentence that ends the program; run() returns 0, or 1 after
// a sentence on stderr. A packet for which there is no room to send is dropped and counted.
//
// Example:
//   void forward(void*, kilim::app::Burst& burst) noexcept {
//     burst.send(burst.port(), burst.packets());
//   }
//   int main(int argc, char** argv) {
//     return kilim::app::run(argc, argv, {.name = "echo", .on_burst = forward});
//   }
#pragma once

#include "kilim/detail/app/burst.hh"
#include "kilim/detail/app/per_lane.hh"
#include "kilim/detail/app/program.hh"
