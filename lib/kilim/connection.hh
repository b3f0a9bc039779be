// SPDX-License-Identifier: BSD-3-Clause
// Connects queue pairs by address, through librdmacm. connect::Listener waits for requests,
// connect::Connection is one connection; both exchange what the peers need and take the caller's
// queue pair to RTS. They move no data.
//
// Threads: the control path, one thread each. Nothing blocks: poll() goes on with what has
// happened.
//
// Errors: ECONNREFUSED: nobody listens there, or the listener said no; ETIMEDOUT: nobody answers;
// ENODEV: there is no rdma_cm, or another device has the address. After an error the object is of
// no use any more.
//
// Example:
//   kilim::Status reach(kilim::connect::Connection& connection) {
//     using State = kilim::connect::Connection::State;
//     for (;;) {
//       const kilim::Result<State> now = connection.poll();
//       if (!now) return now.error();
//       if (*now == State::connected) return kilim::Done{};
//     }
//   }
#pragma once

#include "connect/connection.hh"
