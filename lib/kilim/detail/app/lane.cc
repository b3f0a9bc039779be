// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/app/lane.hh"

#include <algorithm>

#include "kilim/detail/app/burst.hh"
#include "kilim/detail/app/program.hh"

namespace kilim::inline v1::app {

namespace {

// Everything that the lane sent has left: its buffers are back.
bool settled(const Lane& lane) noexcept {
  return std::all_of(lane.outputs.begin(), lane.outputs.end(), [&lane](const Output& o) {
    const burst::TxQueue& q = o.port->tx_queue(lane.number);
    return q.failed || q.sent.held() == 0;
  });
}

// What a lane does with nothing to receive.
uint32_t reclaim(Lane& lane) noexcept {
  uint32_t freed = 0;
  for (const Output& o : lane.outputs) freed += o.port->reclaim(lane.number);
  if (lane.draining && freed == 0 && settled(lane)) lane.idle_turns.add(1);
  return freed;
}

// A lane sleeps only when it has nothing to take back: that is an idle round. While it drains, the
// control lcore waits for its turns.
void arm_input(void* input) noexcept {
  auto& in = *static_cast<Input*>(input);
  in.port->arm_rx(in.queue);
}
bool watch_input(void* input, worker::WaitSet& set) noexcept {
  auto& in = *static_cast<Input*>(input);
  in.port->watch_rx(in.queue, set);
  return !in.lane->draining;
}
bool watch_outputs(void* lane, worker::WaitSet&) noexcept {
  const auto& l = *static_cast<Lane*>(lane);
  return !l.draining && settled(l);
}

constexpr worker::Waiting input_waiting{arm_input, watch_input, nullptr};
constexpr worker::Waiting outputs_waiting{nullptr, watch_outputs, nullptr};

}  // namespace

void Lane::transmit(Output& o, std::span<const pool::Handle> packets) noexcept {
  if (o.port->tx_room(number) < packets.size()) o.port->reclaim(number);
  const uint32_t taken = o.port->tx(number, packets);
  sent.add(taken);
  if (taken == packets.size()) return;
  no_room.add(packets.size() - taken);
  cache->free(packets.subspan(taken));
}

uint32_t run_input(void* input, uint32_t budget) noexcept {
  auto& in = *static_cast<Input*>(input);
  Lane& lane = *in.lane;
  const uint32_t most = lane.draining ? 0 : std::min(budget, in.program->burst);
  const uint32_t n =
      most == 0 ? 0 : in.port->rx(in.queue, std::span(in.packets).first(std::min(most, max_burst)));
  if (n == 0) return reclaim(lane);
  lane.received.add(n);
  Burst burst(lane, in.number, std::span(in.packets).first(n), in.queue);
  in.program->on_burst(in.program->context, burst);
  for (Output& o : lane.outputs) lane.flush(o);
  return n;
}

uint32_t run_outputs(void* lane, uint32_t) noexcept {
  return reclaim(*static_cast<Lane*>(lane));
}

worker::Poller poller_of(Input& input) noexcept {
  const bool events = input.program->idle == worker::Idle::sleep;
  return {run_input, &input, input.program->name, events ? &input_waiting : nullptr};
}

worker::Poller poller_of(Lane& lane) noexcept {
  return {run_outputs, &lane, lane.program->name, &outputs_waiting};
}

}  // namespace kilim::inline v1::app
