// SPDX-License-Identifier: BSD-3-Clause
// Mode umr: each packet goes out as a new header and the received payload in place, made one piece
// by an indirect key. A turn binds what came in and sends what earlier turns have gathered; nothing
// waits.
#include "forward.hh"

namespace kilim::testpmd {
namespace {

constexpr uint32_t handles_a_packet = 3;

uint32_t send_gathered(Stream& s, port::PacketGather& gather) noexcept {
  const uint32_t n = gather.collect(s.chains);
  if (n == 0) {
    s.tx->reclaim(s.tx_queue);
    return 0;
  }
  const uint32_t sent = s.tx->tx(s.tx_queue, {s.chains.data(), n});
  s.forwarded.add(sent / handles_a_packet);
  if (sent != n) {
    s.dropped.add((n - sent) / handles_a_packet);
    gather.abandon({s.chains.data() + sent, n - sent}, *s.cache);
  }
  return n / handles_a_packet;
}

uint32_t run_umr(Stream& s) noexcept {
  port::PacketGather& gather = *s.tx->packet_gather(s.tx_queue);
  const uint32_t sent = send_gathered(s, gather);
  if (s.draining) return sent;
  uint32_t limit = gather.room(s.tx->tx_queue(s.tx_queue));
  limit = limit < s.burst ? limit : s.burst;
  if (limit == 0) return sent;
  const uint32_t n = receive(s, std::span(s.packets).first(limit));
  if (n == 0) return sent;
  const std::span<pool::Handle> packets = std::span(s.packets).first(n);
  const uint32_t gathered = gather.gather(packets);
  if (gathered != n) {
    s.dropped.add(n - gathered);
    s.cache->free(packets.subspan(gathered));
  }
  return sent + n;
}

}  // namespace

const Engine umr_engine{"umr", "a new header and the received payload in place, gathered by a key",
                        true,  true,
                        true,  run_umr};

}  // namespace kilim::testpmd
