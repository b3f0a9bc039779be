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
#include <sched.h>

#include "rc_pair_fixture.hh"
#include "ut.hh"
#include "vhca/entry/attach.hh"
#include "vhca/entry/client_polls.hh"
#include "vhca/entry/guard_policy.hh"
#include "vhca/entry/poll_hook.hh"
#include "vhca/entry/progress_thread.hh"
#include "vhca/entry/spin_budget.hh"
#include "vhca/entry/thread_place.hh"

namespace client_polls_ut {
namespace {

using namespace kilim;
using namespace kilim::vhca;
using namespace std::chrono_literals;
using test::RcPair;
constexpr uint64_t young = ClientPolls::young_ticks - 1, stopped = ClientPolls::stopped_ticks;

void sleeps_grow_beside_a_poller() {
  ClientPolls polls;
  CU_ASSERT(!polls.any());
  polls.polled(1000);
  CU_ASSERT(polls.any());
  for (uint32_t us = ClientPolls::us_min; us < ClientPolls::us_max; us *= 2) {
    EQUAL(polls.sleep_us(), us);
    polls.slept(true, 1000 + young);
    CU_ASSERT(polls.polls_on());
  }
  EQUAL(polls.sleep_us(), ClientPolls::us_max);
  polls.slept(true, 1000 + young + 1);
  CU_ASSERT(!polls.polls_on() && polls.any());
  EQUAL(polls.sleep_us(), ClientPolls::us_min);
}

void a_poll_that_was_the_last_is_noticed() {
  ClientPolls polls;
  polls.polled(1000);
  polls.slept(true, 1000 + young);
  polls.polled(2000);
  polls.slept(false, 2000 + stopped);
  CU_ASSERT(polls.any());  // a frame or a call tells nothing
  polls.slept(true, 2000 + stopped - 1);
  CU_ASSERT(polls.any());
  polls.slept(true, 2000 + stopped);
  CU_ASSERT(!polls.any());
  EQUAL(polls.sleep_us(), ClientPolls::us_min);
}

// How often of 128 times a client that polls on hands the wires over, where the thread never takes
// a frame before the client takes them back.
uint32_t handed_over_in_vain(GuardPolicy& policy) {
  uint32_t times = 0;
  for (int i = 0; i < 128; i++) {
    if (!policy.hands_over()) continue;
    times++;
    policy.taken_back();
  }
  return times;
}

void wires_stay_with_who_takes_the_frames() {
  GuardPolicy policy;
  for (int i = 0; i < 1000; i++) {
    CU_ASSERT_FATAL(policy.hands_over());
    policy.taken();
    policy.taken_back();
  }
  EQUAL(handed_over_in_vain(policy), GuardPolicy::vain_max + 128 / GuardPolicy::tries_once_in - 1);
  EQUAL(handed_over_in_vain(policy), 128 / GuardPolicy::tries_once_in);
  while (!policy.hands_over()) continue;
  policy.taken();  // it pays again
  policy.taken_back();
  EQUAL(handed_over_in_vain(policy), GuardPolicy::vain_max + 128 / GuardPolicy::tries_once_in - 1);
  policy.stopped();
  CU_ASSERT(policy.hands_over());
}

// The set of the thread that runs this.
cpu_set_t own_set() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EQUAL(::sched_getaffinity(0, sizeof(set), &set), 0);
  return set;
}

int first_of(const cpu_set_t& set) {
  int cpu = 0;
  while (CPU_ISSET(static_cast<unsigned>(cpu), &set) == 0) cpu++;
  return cpu;
}

void the_thread_leaves_its_clients_processor() {
  std::thread([] {
    const cpu_set_t at_first = own_set();
    const int cpu = first_of(at_first);
    ThreadPlace place;
    place.client_at(cpu);
    EQUAL(place.avoided(), -1);  // not begun
    place.begin();
    for (uint32_t i = 1; i < ThreadPlace::times_min; i++) place.client_at(cpu);
    place.client_at(-1);
    EQUAL(place.avoided(), -1);
    place.client_at(cpu);
    const cpu_set_t then = own_set();
    if (CPU_COUNT(&at_first) == 1) {  // there is no other
      CU_ASSERT(place.avoided() == -1 && CPU_EQUAL(&then, &at_first));
      return;
    }
    EQUAL(place.avoided(), cpu);
    CU_ASSERT(!CPU_ISSET(static_cast<unsigned>(cpu), &then));
    EQUAL(CPU_COUNT(&then), CPU_COUNT(&at_first) - 1);
    // Somebody else keeps the processors that are left: the kernel chooses among all.
    ThreadPlace starved;
    EQUAL(::sched_setaffinity(0, sizeof(at_first), &at_first), 0);
    starved.begin();
    for (uint32_t i = 0; i < ThreadPlace::times_min; i++) starved.client_at(cpu);
    starved.woken_late(ThreadPlace::late_ns - 1);
    EQUAL(starved.avoided(), cpu);
    starved.woken_late(ThreadPlace::late_ns);
    const cpu_set_t freed = own_set();
    CU_ASSERT(starved.avoided() == -1 && CPU_EQUAL(&freed, &at_first));
    EQUAL(::sched_setaffinity(0, sizeof(then), &then), 0);
    // Somebody else says where the thread runs: nothing is changed any more.
    EQUAL(::sched_setaffinity(0, sizeof(at_first), &at_first), 0);
    const int other = first_of(then);
    for (uint32_t i = 0; i < 8 * ThreadPlace::times_min; i++) place.client_at(other);
    const cpu_set_t last = own_set();
    CU_ASSERT(CPU_EQUAL(&last, &at_first));
    EQUAL(place.avoided(), cpu);
  }).join();
}

void a_client_that_moves_is_followed_less_and_less() {
  std::thread([] {
    const cpu_set_t at_first = own_set();
    if (CPU_COUNT(&at_first) < 2) return;
    ThreadPlace place;
    place.begin();
    cpu_set_t rest = at_first;
    CPU_CLR(static_cast<unsigned>(first_of(at_first)), &rest);
    const int cpus[] = {first_of(at_first), first_of(rest)};
    uint32_t needed = ThreadPlace::times_min;
    for (int move = 0; move < 8; move++, needed *= 2) {
      uint32_t times = 0;
      while (place.avoided() != cpus[move % 2] && times < 100'000) {
        place.client_at(cpus[move % 2]);
        times++;
      }
      EQUAL(times, needed);
    }
  }).join();
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

uint32_t turns_in_vain(SpinBudgets& spin) {
  uint32_t taken = 0;
  while (spin.take()) taken++;
  return taken;
}

// A server: the client rings in the turns behind a request, and behind its answer nothing comes
// until the thread sleeps, since who asks waits for this processor.
void turns_behind_a_doorbell_are_judged_apart() {
  SpinBudgets spin;
  uint32_t behind_answer = 0;
  for (int request = 0; request < 8; request++) {
    spin.found(false);
    for (int turn = 0; turn < 3; turn++) CU_ASSERT(spin.take());
    spin.found(true);
    behind_answer = turns_in_vain(spin);
  }
  EQUAL(behind_answer, SpinBudget::least);
  spin.found(false);
  EQUAL(turns_in_vain(spin), SpinBudget::most);
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

// What a thread's counts say of some messages.
struct Woken {
  uint64_t frames, traps;
  static Woken between(const ProgressCounts& before, const ProgressCounts& after) {
    return {after.frames - before.frames, after.traps - before.traps};
  }
  // Frames that woke the thread while its client polled. A client that was kept off its processor
  // counts as stopped: its next doorbell traps, and the frame behind it is the thread's.
  [[nodiscard]] bool beside_polls(uint64_t most) const { return frames <= traps + most; }
};

// Writes from one adapter into the memory of another. The writer polls until it has its completion,
// and its acknowledgement wakes no thread; the other polls once and then watches its memory, and
// the frame wakes its thread.
void a_frame_wakes_the_thread_of_who_does_not_poll() {
  constexpr uint64_t rounds = 40;
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
    const ProgressCounts near_before = (*sender)->progress_counts();
    const ProgressCounts far_before = (*receiver)->progress_counts();
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
    const Woken writer = Woken::between(near_before, (*sender)->progress_counts());
    const Woken watcher = Woken::between(far_before, (*receiver)->progress_counts());
    CU_ASSERT(writer.beside_polls(rounds / 4));
    CU_ASSERT(watcher.frames > 0 && watcher.frames <= 2 * rounds);
  }
  ibv_close_device(from);
  ibv_close_device(to);
}

// Both poll until they have what they wait for: neither's thread is woken for long.
void two_that_poll_wake_no_thread() {
  constexpr uint64_t rounds = 80;
  const Folder folder;
  auto one = attach(threaded("ping0", folder.wire()));
  auto two = attach(threaded("pong0", folder.wire()));
  CU_ASSERT_FATAL(one.ok() && two.ok());
  ibv_context* from = hook_polls(test::open_by_name("ping0"));
  ibv_context* to = hook_polls(test::open_by_name("pong0"));
  CU_ASSERT_FATAL(from != nullptr && to != nullptr);
  {
    RcPair near(from), far(to);
    CU_ASSERT_FATAL(near.ok() && far.ok());
    CU_ASSERT_FATAL(near.connect_to(far));
    const auto write = [](RcPair& a, RcPair& b) {
      ibv_wc wc{};
      EQUAL_FATAL(a.post_write_to(b, 64), 0);
      int found = 0;
      const auto late = std::chrono::steady_clock::now() + 5s;
      while (found == 0 && std::chrono::steady_clock::now() < late) {
        found = ibv_poll_cq(a.cq(), 1, &wc);
        ibv_wc none{};
        EQUAL(ibv_poll_cq(b.cq(), 1, &none), 0);
      }
      CU_ASSERT_FATAL(found == 1 && wc.status == IBV_WC_SUCCESS);
    };
    const ProgressCounts near_before = (*one)->progress_counts();
    const ProgressCounts far_before = (*two)->progress_counts();
    for (uint64_t round = 1; round <= rounds; round++) write(near, far);
    const Woken first = Woken::between(near_before, (*one)->progress_counts());
    const Woken second = Woken::between(far_before, (*two)->progress_counts());
    CU_ASSERT(first.beside_polls(rounds / 8) && second.beside_polls(rounds / 8));
  }
  ibv_close_device(from);
  ibv_close_device(to);
}

const test::Case cases[] = {
    {"the thread's sleeps beside a client that polls on grow to a millisecond",
     sleeps_grow_beside_a_poller},
    {"a client whose last poll is old has stopped", a_poll_that_was_the_last_is_noticed},
    {"who takes the frames keeps the wires, and the other one is tried now and then",
     wires_stay_with_who_takes_the_frames},
    {"the thread leaves the processor of its client, unless somebody else says where it runs",
     the_thread_leaves_its_clients_processor},
    {"a client that moves is followed less and less",
     a_client_that_moves_is_followed_less_and_less},
    {"turns that find nothing get fewer, and are tried again", turns_that_find_nothing_get_fewer},
    {"turns behind a doorbell and turns behind a frame have budgets of their own",
     turns_behind_a_doorbell_are_judged_apart},
    {"a client that polls an idle queue costs the thread at most 2 % of a core, and none is none",
     the_thread_rests_beside_a_poller},
    {"a frame wakes the thread of who watches memory behind a poll, and of no client that polls",
     a_frame_wakes_the_thread_of_who_does_not_poll},
    {"between two that poll frames wake no thread", two_that_poll_wake_no_thread},
};

}  // namespace
}  // namespace client_polls_ut

KILIM_TEST_SUITE(client_polls, client_polls_ut::cases)
