// SPDX-License-Identifier: BSD-3-Clause
// The switch in shared memory: who gets a frame, who wakes, what the dead leave, and neighbours
// that write into the shared ring what they like.
#include <array>
#include <cstddef>
#include <string>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "case_tables.hh"
#include "shm_fixture.hh"
#include "vhca/wire/shm.hh"
#include "vhca/wire/shm_ring.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace shm_ut {
namespace {

// Somebody sleeps on the descriptor, and another thread takes what there is: the sleeper still
// wakes for the next frame.
void who_sleeps_wakes_though_another_takes() {
  SharedFolder f;
  auto a = f.open(), b = f.open();
  const Bytes frame = frame_to(*b->mac(), *a->mac(), 'x');
  a->send(frame);
  for (int i = 0; i < 200 && b->peek().empty(); i++) continue;
  b->drop();
  for (int round = 0; round < 3; round++) {
    CU_ASSERT(b->peek().empty());
    pollfd sleeper{b->fd(), POLLIN, 0};
    EQUAL(poll(&sleeper, 1, 0), 0);
    auto take = [&b] {
      for (int i = 0; i < 200; i++) {
        if (!b->peek().empty()) b->drop();
      }
    };
    std::thread(take).join();
    a->send(frame);
    std::thread(take).join();
    EQUAL(poll(&sleeper, 1, 0), 1);
  }
}

void a_frame_goes_to_its_slot_and_to_nobody_else() {
  SharedFolder f;
  auto a = f.open(), b = f.open(), c = f.open();
  EQUAL(*b->mac(), (Mac{0x02, 0x4b, 0x4c, 0, 1, 1}));
  a->send(frame_to(*b->mac(), *a->mac(), 'b'));
  a->send(frame_to(*c->mac(), *a->mac(), 'c'));
  EQUAL(heard(*b), "b");
  EQUAL(heard(*c), "c");
  CU_ASSERT(heard_now(*a).empty());
  const Mac own{0x02, 9, 9, 9, 9, 9};
  a->send(frame_to(own, *a->mac(), '1'));
  EQUAL(heard(*b), "1");
  EQUAL(heard(*c), "1");
  b->send(frame_to(*a->mac(), own, '2'));
  EQUAL(heard(*a), "2");
  a->send(frame_to(own, *a->mac(), '3'));
  EQUAL(heard(*b), "3");
  CU_ASSERT(heard_now(*c).empty());
  Gid gid{0xfd};
  b->publish(own, {&gid, 1});
  CU_ASSERT(a->find(gid) == own);
}

// Frames of all lengths, in a ring that is full most of the time.
void a_full_ring_loses_nothing() {
  SharedFolder f;
  auto a = f.open(), b = f.open();
  auto numbered = [&](std::size_t i) {
    Bytes frame = frame_to(*b->mac(), *a->mac(), static_cast<uint8_t>(i));
    frame.resize(14 + i * 977 % 9000, static_cast<std::byte>(i));
    return frame;
  };
  std::size_t sent = 0, came = 0;
  bool all_same = true;
  for (constexpr std::size_t many = 3000; came < many && all_same;) {
    while (sent < many && a->send(numbered(sent)) == wire::Wire::Sent::taken) sent++;
    a->cork(sent % 2 == 0);
    (void)a->flush();
    if (b->peek().empty()) continue;
    all_same = same(b->peek(), numbered(came++));
    b->drop();
  }
  CU_ASSERT(all_same);
  CU_ASSERT(b->peek().empty());
  CU_ASSERT(a->counters().tx_busy > 0);
}

void who_is_blocked_wakes_when_there_is_room() {
  SharedFolder f;
  auto a = f.open(), b = f.open();
  const Bytes frame = frame_to(*b->mac(), *a->mac(), 'x');
  std::size_t sent = 0;
  while (a->send(frame) == wire::Wire::Sent::taken) sent++;
  CU_ASSERT(!a->has_room() && !readable(*a));
  CU_ASSERT(a->tells_room());
  std::size_t came = 0;
  for (int i = 0; i < 200 && b->peek().empty(); i++) continue;  // until he knows of us
  for (; came < sent / 8; came++) {
    CU_ASSERT_FATAL(!b->peek().empty());
    b->drop();
  }
  CU_ASSERT(!a->has_room());
  pollfd blocked{a->fd(), POLLIN, 0};
  EQUAL(poll(&blocked, 1, 0), 0);
  while (came < sent && !b->peek().empty()) b->drop(), came++;
  (void)b->peek();
  EQUAL(poll(&blocked, 1, 1000), 1);
  CU_ASSERT(readable(*a, 1000));
  CU_ASSERT(a->has_room());
  EQUAL(a->send(frame), wire::Wire::Sent::taken);
  EQUAL(a->counters().tx_busy, 1);
}

void corked_frames_come_with_the_flush() {
  SharedFolder f;
  auto a = f.open(), b = f.open();
  a->send(frame_to(*b->mac(), *a->mac(), '0'));
  EQUAL(heard(*b), "0");
  a->cork(true);
  a->send(frame_to(*b->mac(), *a->mac(), '1'));
  a->send(frame_to(*b->mac(), *a->mac(), '2'));
  CU_ASSERT(heard_now(*b).empty());
  (void)a->flush();
  EQUAL(heard_now(*b), "12");
}

void what_the_dead_have_sent_still_comes() {
  SharedFolder f;
  auto a = f.open();
  const pid_t child = fork();
  if (child == 0) {
    auto b = f.open();
    for (char c : {'1', '2', '3'}) b->send(frame_to(*a->mac(), *b->mac(), static_cast<uint8_t>(c)));
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  EQUAL(heard(*a), "123");
  const Mac dead{0x02, 0x4b, 0x4c, 0, 1, 1};
  EQUAL(a->send(frame_to(dead, *a->mac(), 'x')), wire::Wire::Sent::taken);
  EQUAL(a->counters().tx_lost, 1);
  auto heir = f.open();
  EQUAL(*heir->mac(), dead);
  a->send(frame_to(dead, *a->mac(), 'y'));
  EQUAL(heard(*heir), "y");
}

void who_dies_with_a_full_ring_makes_room() {
  SharedFolder f;
  auto a = f.open();
  auto b = f.open();
  const Bytes frame = frame_to(*b->mac(), *a->mac(), 'x');
  while (a->send(frame) == wire::Wire::Sent::taken) continue;
  CU_ASSERT(!a->has_room());
  b.reset();
  CU_ASSERT(readable(*a, 1000));
  CU_ASSERT(a->has_room());
  EQUAL(a->send(frame), wire::Wire::Sent::taken);
  EQUAL(a->counters().tx_lost, 1);
}

// Two processes; one is killed while it sends. Every frame that came is whole, and in order.
void a_killed_sender_leaves_whole_frames() {
  SharedFolder f;
  auto a = f.open();
  const Mac ours = *a->mac();
  const pid_t child = fork();
  if (child == 0) {
    auto b = f.open();
    for (uint32_t i = 0;; i++) {
      Bytes frame = frame_to(ours, *b->mac(), static_cast<uint8_t>(i));
      frame.resize(60 + i * 131 % 8000, static_cast<std::byte>(i));
      put16(frame, 20, i >> 16);
      put16(frame, 22, i);
      while (b->send(frame) == wire::Wire::Sent::busy) poll(nullptr, 0, 1);
    }
  }
  uint32_t came = 0;
  bool good = true;
  auto take = [&] {
    std::span<const std::byte> got = a->peek();
    if (got.empty()) return false;
    const Bytes copy(got.begin(), got.end());
    const uint32_t number = get16(copy, 20) << 16 | get16(copy, 22);
    good = good && number == came && copy.size() == 60 + number * 131 % 8000 &&
           copy.back() == static_cast<std::byte>(number);
    came++;
    a->drop();
    return true;
  };
  while (came < 5000) {
    if (!take()) poll(nullptr, 0, 1);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  for (int i = 0; i < 1000; i++) {
    while (take()) continue;
  }
  CU_ASSERT(good);
  CU_ASSERT(a->counters().rx_malformed == 0);
}

constexpr Case cases[] = {
    {"a frame goes to its slot and to nobody else", a_frame_goes_to_its_slot_and_to_nobody_else},
    {"a full ring loses nothing", a_full_ring_loses_nothing},
    {"who is blocked wakes when there is room", who_is_blocked_wakes_when_there_is_room},
    {"who sleeps wakes though another takes", who_sleeps_wakes_though_another_takes},
    {"corked frames come with the flush", corked_frames_come_with_the_flush},
    {"what the dead have sent still comes", what_the_dead_have_sent_still_comes},
    {"who dies with a full ring makes room", who_dies_with_a_full_ring_makes_room},
    {"a killed sender leaves whole frames", a_killed_sender_leaves_whole_frames},
};

}  // namespace
}  // namespace shm_ut

KILIM_TEST_MAIN(shm) {
  return kilim::test::run_tables("vhca/wire shm", {shm_ut::cases, kilim::test::shm_hostile_cases()},
                                 argc, argv);
}
