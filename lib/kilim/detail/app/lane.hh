// SPDX-License-Identifier: BSD-3-Clause
// Lane: what one lcore of a program has: a cache of buffers, receive queues, one transmit queue of
// each port and its worker. Made by the frame; from then on its lcore's alone, but for the
// counters.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kilim/detail/base/counter.hh"
#include "kilim/detail/pool/pool.hh"
#include "kilim/detail/port/port.hh"
#include "kilim/detail/worker/worker.hh"

namespace kilim::inline v1::app {

struct Program;
struct Lane;

inline constexpr uint32_t max_burst = 64;

// A port as a lane sends by it: the transmit queue of the lane's number, and packets that wait for
// the end of the call.
struct Output {
  port::Port* port = nullptr;
  std::array<pool::Handle, max_burst> row{};
  uint32_t count = 0;
};

// A receive queue that a lane serves.
struct Input {
  Lane* lane = nullptr;
  const Program* program = nullptr;
  port::Port* port = nullptr;
  uint32_t number = 0;  // of the port
  uint32_t queue = 0;
  std::array<pool::Handle, max_burst> packets{};
};

struct Lane {
  uint32_t number = 0;
  uint32_t lcore = 0;
  const Program* program = nullptr;
  std::unique_ptr<pool::BufferCache> cache;
  std::vector<Output> outputs;                 // by the port's number
  std::vector<std::unique_ptr<Input>> inputs;  // workers keep their addresses
  std::unique_ptr<worker::Worker> worker;
  bool draining = false;  // set by a message to the worker: nothing more is received

  Counter received;
  Counter sent;        // taken by a transmit queue
  Counter no_room;     // dropped because the transmit queue was full
  Counter dropped;     // by the program
  Counter idle_turns;  // behind the last packet, while draining

  void transmit(Output& o, std::span<const pool::Handle> packets) noexcept;
  void flush(Output& o) noexcept {
    if (o.count == 0) return;
    transmit(o, {o.row.data(), o.count});
    o.count = 0;
  }
};

// worker::Poller::Fn: one turn of an Input; of a lane without any, which only takes back what it
// has sent.
uint32_t run_input(void* input, uint32_t budget) noexcept;
uint32_t run_outputs(void* lane, uint32_t budget) noexcept;
// The pollers of these, with how a worker waits for them.
worker::Poller poller_of(Input& input) noexcept;
worker::Poller poller_of(Lane& lane) noexcept;

}  // namespace kilim::inline v1::app
