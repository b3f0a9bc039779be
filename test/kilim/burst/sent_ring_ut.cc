// SPDX-License-Identifier: BSD-3-Clause
// What a send queue holds comes back in the order in which it was sent, over the ring's end too.
#include <algorithm>
#include <array>
#include <vector>

#include "kilim/detail/burst/sent_ring.hh"
#include "ut.hh"

namespace sent_ring_ut {
namespace {

using kilim::burst::SentRing;
using kilim::pool::Handle;

constexpr uint32_t places = 8;

struct Bench {
  std::array<Handle, places> handles{};
  std::array<SentRing::Burst, 4> bursts{};
  SentRing ring{handles, bursts};
  uint32_t sent = 0, back = 0;

  void send(uint32_t n) {
    for (uint32_t i = 0; i < n; i++) ring.push(kilim::pool::make_handle(sent++, 64));
    ring.end_burst(n, 2 * sent);
  }
  // Whether these are the oldest, each once.
  bool oldest(const SentRing::Done& done, uint32_t n) {
    std::vector<Handle> all{done.first.begin(), done.first.end()};
    all.insert(all.end(), done.second.begin(), done.second.end());
    return all.size() == n &&
           std::all_of(all.begin(), all.end(), [this](Handle h) { return h.index == back++; });
  }
};

void bursts_come_back_in_order() {
  Bench b;
  for (uint32_t round = 0; round < 4 * places; round++) {
    b.send(3);
    b.send(2);
    EQUAL(b.ring.room(), places - 5);
    EQUAL(b.ring.ended_at(2 * b.sent), 2);
    EQUAL(b.ring.ended_at(2 * b.sent - 1), 1);
    EQUAL(b.ring.ended_at(2 * (b.sent - 2)), 1);
    EQUAL(b.ring.ended_at(2 * (b.sent - 2) - 1), 0);
    const SentRing::Done done = b.ring.pop_bursts(2);
    EQUAL(b.ring.ended_at(2 * b.sent), 0);
    CU_ASSERT(b.oldest(done, 5));
    EQUAL(done.packets, 5);
    EQUAL(done.posted, 2 * b.sent);
    EQUAL(b.ring.held(), 0);
  }
}

void all_comes_back_when_the_queue_is_gone() {
  Bench b;
  for (uint32_t round = 0; round < 4 * places; round++) {
    b.send(4);
    b.ring.push(kilim::pool::make_handle(b.sent++, 64));  // of a burst that was not closed
    CU_ASSERT(b.oldest(b.ring.pop_all(), 5));
    EQUAL(b.ring.room(), places);
  }
}

void there_is_no_room_for_more_bursts_than_places() {
  Bench b;
  for (int i = 0; i < 4; i++) {
    CU_ASSERT(b.ring.room() > 0);
    b.send(1);
  }
  EQUAL(b.ring.room(), 0);
  const SentRing::Done done = b.ring.pop_bursts(1);
  CU_ASSERT(b.oldest(done, 1));
  EQUAL(done.posted, 2);
  EQUAL(b.ring.room(), places - 3);
}

constexpr kilim::test::Case cases[] = {
    {"bursts come back in order, over the ring's end too", bursts_come_back_in_order},
    {"all comes back when the queue is gone", all_comes_back_when_the_queue_is_gone},
    {"there is no room for more bursts than places", there_is_no_room_for_more_bursts_than_places},
};

}  // namespace
}  // namespace sent_ring_ut

KILIM_TEST_SUITE(sent_ring, sent_ring_ut::cases)
