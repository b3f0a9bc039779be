// SPDX-License-Identifier: BSD-3-Clause
// What the adapter's thread does beside a client that polls: it stays out of the way of one that
// polls on, and works for one that has stopped. Processor time and counts, no elapsed time: other
// processes may take the machine.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <infiniband/verbs.h>

#include "rc_pair_fixture.hh"
#include "ut.hh"
#include "vhca/entry/attach.hh"
#include "vhca/entry/client_polls.hh"
#include "vhca/entry/poll_hook.hh"
#include "vhca/entry/progress_thread.hh"
#include "vhca/entry/spin_budget.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace std::chrono_literals;
using test::RcPair;
using End = ClientPolls::End;

namespace client_polls_ut {
namespace {

constexpr uint64_t old = ClientPolls::young_ticks, young = old - 1;

void sleeps_grow_beside_a_poller() {
  ClientPolls polls;
  CU_ASSERT(!polls.any());
  polls.polled(1000);
  CU_ASSERT(polls.any());
  for (uint32_t us = ClientPolls::us_min; us < ClientPolls::us_max; us *= 2) {
    EQUAL(polls.sleep_us(), us);
    polls.slept(End::time, 1000 + young);
  }
  EQUAL(polls.sleep_us(), ClientPolls::us_max);
  CU_ASSERT(polls.with_wires());  // no frame came
}

void a_poll_that_was_the_last_is_noticed() {
  ClientPolls polls;
  polls.polled(1000);
  polls.slept(End::time, 1000 + young);
  polls.polled(2000);
  polls.slept(End::frame, 2000 + old);
  CU_ASSERT(polls.any());  // a frame tells nothing
  polls.slept(End::time, 2000 + old);
  CU_ASSERT(!polls.any());
  EQUAL(polls.sleep_us(), ClientPolls::us_min);
}

// As many frames as wake the thread until it looks whether the client takes them.
uint32_t frames_until_blind(ClientPolls& polls) {
  uint32_t frames = 0;
  while (polls.with_wires() && frames < 100'000) {
    polls.slept(End::call, 0);
    polls.slept(End::frame, 0);
    frames++;
  }
  return frames;
}

void frames_go_to_who_takes_them() {
  ClientPolls polls;
  polls.polled(1000);
  uint32_t frames = ClientPolls::watched_min;
  EQUAL(frames_until_blind(polls), frames);
  EQUAL(polls.sleep_us(), ClientPolls::us_min);
  // The client does not: more and more are left to the thread.
  for (int i = 0; i < 8; i++) {
    polls.slept(End::time, 1000 + old);
    CU_ASSERT(polls.with_wires());
    frames = frames * 2 < ClientPolls::watched_max ? frames * 2 : ClientPolls::watched_max;
    EQUAL(frames_until_blind(polls), frames);
  }
  // It does: the thread is not woken for them.
  for (int i = 0; i < 8; i++) polls.slept(End::time, 1000 + young);
  CU_ASSERT(!polls.with_wires());
  EQUAL(polls.sleep_us(), ClientPolls::us_max);
}

// A frame that the client has taken does not end the sleep: the kernel's count tells.
void frames_that_a_poller_takes_wake_nobody() {
  ClientPolls polls;
  polls.polled(1000);
  polls.slept(End::time, 1000 + young, ClientPolls::in_vain_max - 1);
  CU_ASSERT(polls.with_wires());
  polls.slept(End::time, 1000 + old, ClientPolls::in_vain_max);
  CU_ASSERT(polls.with_wires());
  polls.slept(End::time, 1000 + young, ClientPolls::in_vain_max);
  CU_ASSERT(!polls.with_wires());
}

void turns_that_find_nothing_get_fewer() {
  SpinBudget spin;
  const auto turns = [&spin] {
    uint32_t taken = 0;
    while (spin.take()) taken++;
    return taken;
  };
  for (uint32_t expected = SpinBudget::most; expected > SpinBudget::least; expected /= 2) {
    EQUAL(turns(), expected);
    EQUAL(turns(), 0u);
    spin.found();  // by a frame that woke the thread
  }
  EQUAL(turns(), SpinBudget::least);
  spin.restart();
  CU_ASSERT(spin.take());
  spin.found();  // in a turn: they pay again
  EQUAL(turns(), SpinBudget::most);
  uint32_t most = 0;
  for (uint32_t i = 0; i < SpinBudget::tries_once_in; i++) {
    spin.found();
    const uint32_t taken = turns();
    if (i > 8 && taken > most) most = taken;
  }
  EQUAL(most, SpinBudget::most);  // tried once more
}

// Nanoseconds that the threads of this name have run for (proc(5), schedstat).
uint64_t run_by_threads(const char* name) {
  uint64_t sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string comm;
    uint64_t ns = 0;
    std::getline(std::ifstream(task.path() / "comm"), comm);
    if (comm == name && std::ifstream(task.path() / "schedstat") >> ns) sum += ns;
  }
  return sum;
}

DeviceSpec threaded(const char* name, const std::string& wire) {
  DeviceSpec config;
  config.name = name;
  config.progress = Progress::thread;
  config.wires = {wire};
  return config;
}

// A folder for a wire, gone with the object.
class Folder {
 public:
  Folder() {
    char path[] = "/tmp/kilim-polls-XXXXXX";
    if (::mkdtemp(path) != nullptr) path_ = path;
  }
  ~Folder() {
    std::error_code none;
    std::filesystem::remove_all(path_, none);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string wire() const { return "unix:" + path_; }

 private:
  std::string path_;
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t dearer = 4;
#else
constexpr uint64_t dearer = 1;
#endif

// A client that never finds anything runs the adapter itself all the time.
void the_thread_rests_beside_a_poller() {
  const Folder folder;
  CU_ASSERT_FATAL(attach(threaded("beside0", folder.wire())).ok());
  ibv_context* context = hook_polls(test::open_by_name("beside0"));
  CU_ASSERT_FATAL(context != nullptr);
  ibv_cq* cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  CU_ASSERT_FATAL(cq != nullptr);
  ibv_wc wc{};
  const auto poll_for = [&](std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) ibv_poll_cq(cq, 1, &wc);
  };
  poll_for(20ms);
  const uint64_t before = run_by_threads("kilim-vhca");
  poll_for(1s);
  CU_ASSERT(run_by_threads("kilim-vhca") - before < dearer * 20'000'000);
  // And where nobody polls, next to nothing.
  std::this_thread::sleep_for(20ms);
  const uint64_t idle = run_by_threads("kilim-vhca");
  std::this_thread::sleep_for(1s);
  CU_ASSERT(run_by_threads("kilim-vhca") - idle < dearer * 2'000'000);
  ibv_destroy_cq(cq);
  ibv_close_device(context);
}

// Writes from one adapter into the memory of another, whose client polls once before each: its
// thread sleeps with the wires, but for the tries that it makes.
void a_frame_wakes_the_thread_behind_a_poll() {
  constexpr uint64_t rounds = 200;
  const Folder folder;
  auto sender = attach(threaded("from0", folder.wire()));
  auto receiver = attach(threaded("to0", folder.wire()));
  CU_ASSERT_FATAL(sender.ok() && receiver.ok());
  ibv_context* from = hook_polls(test::open_by_name("from0"));
  ibv_context* to = hook_polls(test::open_by_name("to0"));
  CU_ASSERT_FATAL(from != nullptr && to != nullptr);
  {
    RcPair near(from), far(to);
    CU_ASSERT_FATAL(near.ok() && far.ok());
    CU_ASSERT_FATAL(near.connect_to(far));
    ibv_wc wc{};
    const ProgressCounts before = (*receiver)->progress_counts();
    for (uint64_t round = 1; round <= rounds; round++) {
      ibv_poll_cq(far.cq(), 1, &wc);
      std::memset(near.from(), static_cast<int>(round), 64);
      EQUAL_FATAL(near.post_write_to(far, 64), 0);
      int found = 0;
      const auto late = std::chrono::steady_clock::now() + 5s;
      while (found == 0 && std::chrono::steady_clock::now() < late)
        found = ibv_poll_cq(near.cq(), 1, &wc);
      CU_ASSERT_FATAL(found == 1 && wc.status == IBV_WC_SUCCESS);
      EQUAL(far.to()[63], round);
    }
    const ProgressCounts after = (*receiver)->progress_counts();
    CU_ASSERT(after.sleeps > before.sleeps && (after.blind - before.blind) * 8 <= rounds);
  }
  ibv_close_device(from);
  ibv_close_device(to);
}

const test::Case cases[] = {
    {"the thread's sleeps beside a client that polls on grow to a millisecond",
     sleeps_grow_beside_a_poller},
    {"a client whose last poll is old has stopped", a_poll_that_was_the_last_is_noticed},
    {"frames wake the thread until a client is seen to take them", frames_go_to_who_takes_them},
    {"frames that a polling client takes do not go on waking the thread",
     frames_that_a_poller_takes_wake_nobody},
    {"turns that find nothing get fewer, and are tried again", turns_that_find_nothing_get_fewer},
    {"a client that polls an idle queue costs the thread at most 2 % of a core, and none is none",
     the_thread_rests_beside_a_poller},
    {"a frame wakes the thread although its client has just polled",
     a_frame_wakes_the_thread_behind_a_poll},
};

}  // namespace
}  // namespace client_polls_ut

KILIM_TEST_SUITE(client_polls, client_polls_ut::cases)
