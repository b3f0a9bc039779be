// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/app/lane.hh"

#include <algorithm>

#include "kilim/app/burst.hh"
#include "kilim/app/program.hh"

namespace kilim::app {

namespace {

// Everything that the lane sent has left: its buffers are back.
bool settled(const Lane& lane) noexcept {
  return std::all_of(lane.outputs.begin(), lane.outputs.end(), [&lane](const Output& o) {
    const burst::TxQueue& q = o.port->tx_queue(lane.number);
    return q.failed || q.sent.held() == 0;
  });
}

uint32_t reclaim(Lane& lane) noexcept {
  uint32_t freed = 0;
  for (const Output& o : lane.outputs) freed += o.port->reclaim(lane.number);
  return freed;
}

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
  if (n == 0) {
    const uint32_t freed = reclaim(lane);
    if (lane.draining && freed == 0 && settled(lane)) lane.idle_turns.add(1);
    return freed;
  }
  lane.received.add(n);
  Burst burst(lane, in.number, std::span(in.packets).first(n));
  in.program->on_burst(in.program->context, burst);
  for (Output& o : lane.outputs) lane.flush(o);
  return n;
}

}  // namespace kilim::app
