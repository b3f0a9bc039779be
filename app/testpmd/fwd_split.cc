// SPDX-License-Identifier: BSD-3-Clause
// Mode split: headers arrive in buffers of their own, with the payload behind them in its own; the
// header's addresses change places and the payload is sent from where it lies. How the two become
// one frame again is the plan's to say (Stream::plan): data segments, an mkey, or a copy where the
// command line allows it.
#include <cstring>

#include "forward.hh"

namespace kilim::testpmd {
namespace {

void swap_addresses(std::span<std::byte> header) noexcept {
  std::byte both[12];
  std::memcpy(both, header.data(), sizeof both);
  std::memcpy(header.data(), both + 6, 6);
  std::memcpy(header.data() + 6, both, 6);
}

uint32_t bytes_of(std::span<const pool::Handle> pieces) noexcept {
  uint32_t sum = 0;
  for (const pool::Handle h : pieces) sum += h.length;
  return sum;
}

// Copies the payload behind the header and frees its buffers; returns the whole packet.
pool::Handle copy_behind(Stream& s, std::span<const pool::Handle> chain) noexcept {
  const pool::Arena& arena = s.cache->arena();
  pool::Handle whole = chain[0];
  std::byte* to = arena.data(whole) + whole.length;
  for (const pool::Handle h : chain.subspan(1)) {
    std::memcpy(to, arena.data(h), h.length);
    to += h.length;
  }
  whole.length = static_cast<uint16_t>(whole.length + bytes_of(chain.subspan(1)));
  whole.meta &= static_cast<uint16_t>(~pool::Handle::more);
  s.cache->free(chain.subspan(1));
  return whole;
}

void drop(Stream& s, std::span<const pool::Handle> chains) noexcept {
  s.dropped.add(count_packets(chains));
  for (const pool::Handle h : chains)
    (s.headers->pool().has(h.index) ? s.headers : s.cache)->free_one(h);
}

// Sends what earlier turns have put under keys; returns how many packets.
uint32_t send_chains(Stream& s, port::PacketGather& gather) noexcept {
  const uint32_t n = gather.collect(s.chains);
  const std::span<const pool::Handle> all{s.chains.data(), n};
  const uint32_t sent = n == 0 ? 0 : s.tx->tx(s.tx_queue, all);
  const uint32_t packets = count_packets(all), left = count_packets(all.subspan(sent));
  s.forwarded.add(packets - left);
  s.dropped.add(left);
  gather.abandon(all.subspan(sent), *s.cache, *s.headers);
  return packets;
}

// Places for handles that may be received now so that all of them can be sent.
uint32_t places(Stream& s, port::PacketGather* gather) noexcept {
  const uint32_t want = std::min(s.burst * s.pieces, max_burst);
  if (s.tx->tx_room(s.tx_queue) < want) s.tx->reclaim(s.tx_queue);
  const uint32_t room =
      gather != nullptr ? gather->room(s.tx->tx_queue(s.tx_queue)) : s.tx->tx_room(s.tx_queue);
  return room < want ? room : want;
}

// What a burst becomes: packets that are sent now, and behind them those that the gather takes.
struct Sorted {
  uint32_t now = 0;    // handles
  uint32_t later = 0;  // handles
};

// Behind a packet under a key all others pass through the gather too, so that none overtakes
// another; those of several pieces get a key there.
Sorted sort(Stream& s, std::span<pool::Handle> in, bool keys_under_way) noexcept {
  Sorted out;
  for (std::size_t i = 0, length; i < in.size(); i += length) {
    length = burst::chain_length(in.subspan(i));
    const std::span<pool::Handle> chain = in.subspan(i, length);
    swap_addresses(s.cache->arena().bytes(chain[0]));
    chooser::Way way = chooser::Way::gather_list;
    if (length > 1) way = s.plan.way(bytes_of(chain.subspan(1)));
    const bool late = keys_under_way || out.later != 0 || way == chooser::Way::inline_key;
    if (late && length > 1 && way == chooser::Way::gather_list) way = chooser::Way::inline_key;
    s.sent_by[static_cast<std::size_t>(way)].add(1);
    pool::Handle* const to = &in[out.now + out.later];  // not behind the chain
    std::size_t left = length;
    if (way == chooser::Way::copy) {
      *to = copy_behind(s, chain);
      left = 1;
    } else {
      std::memmove(to, chain.data(), chain.size_bytes());
    }
    (late ? out.later : out.now) += static_cast<uint32_t>(left);
  }
  return out;
}

uint32_t run_split(Stream& s) noexcept {
  port::PacketGather* gather = s.tx->packet_gather(s.tx_queue);
  const uint32_t earlier = gather != nullptr ? send_chains(s, *gather) : 0;
  const uint32_t room = s.draining ? 0 : places(s, gather);
  uint32_t n = 0;
  if (room >= s.pieces) n = receive(s, std::span(s.packets).first(room));
  if (n == 0) {
    s.tx->reclaim(s.tx_queue);
    return earlier;
  }
  const std::span<pool::Handle> all = std::span(s.packets).first(n);
  const uint32_t packets = count_packets(all);
  const Sorted sorted = sort(s, all, gather != nullptr && !gather->idle());
  const std::span<pool::Handle> now = all.first(sorted.now);
  const std::span<pool::Handle> later = all.subspan(sorted.now, sorted.later);
  const uint32_t sent = now.empty() ? 0 : s.tx->tx(s.tx_queue, now);
  s.forwarded.add(count_packets(now.first(sent)));
  drop(s, now.subspan(sent));
  if (!later.empty()) drop(s, later.subspan(gather->gather_chains(later)));
  return earlier + packets;
}

}  // namespace

const Engine split_engine{
    .name = "split",
    .help = "header and payload in buffers of their own; addresses change places, payload stays",
    .receives = true,
    .transmits = true,
    .gathered = false,
    .run = run_split,
    .splits = true};

}  // namespace kilim::testpmd
