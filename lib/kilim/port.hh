// SPDX-License-Identifier: BSD-3-Clause
// port::Port is one Ethernet port: its queues, the arena under the device's key, the bursts chosen
// for them and the rules that lead frames to them. configure(), set_rx(), set_tx() and start() in
// that order; then rx() and tx() hand out and take packets. port_named() finds the port of an EAL
// --vdev; a program that only forwards takes program.hh, which does all of this.
//
// Threads: the control lcore sets a port up, starts, changes and stops it. Between start() and
// stop() each queue belongs to one worker, which calls rx() and tx() for it. stats() and view() any
// thread.
//
// Errors: EBUSY: the port is started; EINVAL: sizes out of range, or no such queue; EOPNOTSUPP: the
// device cannot. rx() and tx() return counts: what tx() does not take the caller keeps. A failed
// queue comes back by revive().
//
// Example:
//   #include <array>
//   uint32_t forward(kilim::port::Port& in, kilim::port::Port& out) {
//     std::array<kilim::pool::Handle, 32> packets;
//     const uint32_t n = in.rx(0, packets);
//     return out.tx(0, std::span(packets).first(n));
//   }
#pragma once

#include "kilim/detail/burst/rx_chain.hh"
#include "kilim/detail/port/port.hh"
#include "kilim/detail/port/registry.hh"
