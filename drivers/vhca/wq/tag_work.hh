// SPDX-License-Identifier: BSD-3-Clause
// What a queue pair keeps whose shared receive queue matches tags: the message that comes, and the
// rendezvous that it has to fetch. Owner: its queue pair; adapter's lock held. A plain record.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kilim/prm/tag_matching.hh"
#include "vhca/wq/tag_list.hh"

namespace kilim::vhca::wq {

// Data that waits at the peer, and the buffer for it.
struct Rendezvous {
  uint16_t place = 0;  // of the entry that matched
  TagBuffer buffer;
  uint64_t va = 0;
  uint32_t rkey = 0;
  uint32_t bytes = 0;
  std::array<std::byte, sizeof(prm::Tmh) + sizeof(prm::Rvh)> header{};  // goes back as FIN
};

struct TagWork {
  static constexpr uint32_t most = 16;  // rendezvous; who asks for more is told to try again
  std::array<Rendezvous, most> ring;    // `count` from `head` on, oldest first
  uint32_t head = 0, count = 0;
  bool fetched = false;    // the oldest one's data is there, FIN is due
  bool under_way = false;  // its request is out on the wire

  // The message that comes.
  prm::TagNews news = prm::TagNews::none;  // what its completion says
  bool holding = false;                    // it has matched an entry, and has the buffer
  uint16_t place = 0;
  TagBuffer held;
  uint32_t skip = 0;  // first bytes that do not go into the buffer
  std::array<std::byte, sizeof(prm::Tmh)> header{};

  [[nodiscard]] Rendezvous& oldest() noexcept { return ring[head]; }
};

}  // namespace kilim::vhca::wq
