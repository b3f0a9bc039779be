// SPDX-License-Identifier: BSD-3-Clause
// The cheapest way to send pieces of memory: copied together, as a list of the request, or under a
// key. port::calibrate_chooser() measures what each costs on a device; Chooser::choose() picks, and
// chooser::PacketPlan does it for packets.
//
// Threads: one thread changes a Chooser, any may call choose(), which never allocates, blocks or
// logs. Calibration is the control lcore's, while the device's queues are idle.
//
// Errors: Way::none: no way can be used; calibrate_chooser() gives the device's errors.
//
// Example:
//   const char* way_of(const kilim::chooser::Chooser& chooser, uint32_t pieces, uint64_t bytes) {
//     return kilim::chooser::name_of(chooser.choose({.pieces = pieces, .bytes = bytes}));
//   }
#pragma once

#include "kilim/detail/chooser/chooser.hh"
#include "kilim/detail/chooser/packet_plan.hh"
#include "kilim/detail/port/calibrate.hh"
