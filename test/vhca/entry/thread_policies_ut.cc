// SPDX-License-Identifier: BSD-3-Clause
// What the adapter's thread decides beside clients, by itself: how long it sleeps, who takes the
// wires, on which processor it runs, how many turns in vain it takes. No device, no elapsed time.
#include <cstdint>

#include <sched.h>

#include "ut.hh"
#include "vhca/entry/client_polls.hh"
#include "vhca/entry/guard_policy.hh"
#include "vhca/entry/spin_budget.hh"
#include "vhca/entry/thread_place.hh"

namespace thread_policies_ut {
namespace {

using namespace kilim;
using namespace kilim::vhca;

constexpr uint64_t young = entry::ClientPolls::young_ticks - 1,
                   stopped = entry::ClientPolls::stopped_ticks;

void sleeps_grow_beside_a_poller() {
  entry::ClientPolls polls;
  CU_ASSERT(!polls.any());
  polls.polled(1000);
  CU_ASSERT(polls.any());
  for (uint32_t us = entry::ClientPolls::us_min; us < entry::ClientPolls::us_max; us *= 2) {
    EQUAL(polls.sleep_us(), us);
    polls.slept(true, 1000 + young);
    CU_ASSERT(polls.polls_on());
  }
  EQUAL(polls.sleep_us(), entry::ClientPolls::us_max);
  polls.slept(true, 1000 + young + 1);
  CU_ASSERT(!polls.polls_on());
  CU_ASSERT(polls.any());
  EQUAL(polls.sleep_us(), entry::ClientPolls::us_min);
}

void a_poll_that_was_the_last_is_noticed() {
  entry::ClientPolls polls;
  polls.polled(1000);
  polls.slept(true, 1000 + young);
  polls.polled(2000);
  polls.slept(false, 2000 + stopped);
  CU_ASSERT(polls.any());  // a frame or a call tells nothing
  polls.slept(true, 2000 + stopped - 1);
  CU_ASSERT(polls.any());
  polls.slept(true, 2000 + stopped);
  CU_ASSERT(!polls.any());
  EQUAL(polls.sleep_us(), entry::ClientPolls::us_min);
}

// How often of 128 times a client that polls on hands the wires over, where the thread never takes
// a frame before the client takes them back.
uint32_t handed_over_in_vain(entry::GuardPolicy& policy) {
  uint32_t times = 0;
  for (int i = 0; i < 128; i++) {
    if (!policy.hands_over()) continue;
    times++;
    policy.taken_back();
  }
  return times;
}

void wires_stay_with_who_takes_the_frames() {
  entry::GuardPolicy policy;
  for (int i = 0; i < 1000; i++) {
    CU_ASSERT_FATAL(policy.hands_over());
    policy.taken();
    policy.taken_back();
  }
  EQUAL(handed_over_in_vain(policy),
        entry::GuardPolicy::vain_max + 128 / entry::GuardPolicy::tries_once_in - 1);
  EQUAL(handed_over_in_vain(policy), 128 / entry::GuardPolicy::tries_once_in);
  while (!policy.hands_over()) continue;
  policy.taken();  // it pays again
  policy.taken_back();
  EQUAL(handed_over_in_vain(policy),
        entry::GuardPolicy::vain_max + 128 / entry::GuardPolicy::tries_once_in - 1);
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
    entry::ThreadPlace place;
    place.client_at(cpu);
    EQUAL(place.avoided(), -1);  // not begun
    place.begin();
    for (uint32_t i = 1; i < entry::ThreadPlace::times_min; i++) place.client_at(cpu);
    place.client_at(-1);
    EQUAL(place.avoided(), -1);
    place.client_at(cpu);
    const cpu_set_t then = own_set();
    if (CPU_COUNT(&at_first) == 1) {  // there is no other
      EQUAL(place.avoided(), -1);
      CU_ASSERT(CPU_EQUAL(&then, &at_first));
      return;
    }
    EQUAL(place.avoided(), cpu);
    CU_ASSERT(!CPU_ISSET(static_cast<unsigned>(cpu), &then));
    EQUAL(CPU_COUNT(&then), CPU_COUNT(&at_first) - 1);
    // Somebody else keeps the processors that are left: the kernel chooses among all.
    entry::ThreadPlace starved;
    EQUAL(::sched_setaffinity(0, sizeof(at_first), &at_first), 0);
    starved.begin();
    for (uint32_t i = 0; i < entry::ThreadPlace::times_min; i++) starved.client_at(cpu);
    starved.woken_late(entry::ThreadPlace::late_ns - 1);
    EQUAL(starved.avoided(), cpu);
    starved.woken_late(entry::ThreadPlace::late_ns);
    const cpu_set_t freed = own_set();
    EQUAL(starved.avoided(), -1);
    CU_ASSERT(CPU_EQUAL(&freed, &at_first));
    EQUAL(::sched_setaffinity(0, sizeof(then), &then), 0);
    // Somebody else says where the thread runs: nothing is changed any more.
    EQUAL(::sched_setaffinity(0, sizeof(at_first), &at_first), 0);
    const int other = first_of(then);
    for (uint32_t i = 0; i < 8 * entry::ThreadPlace::times_min; i++) place.client_at(other);
    const cpu_set_t last = own_set();
    CU_ASSERT(CPU_EQUAL(&last, &at_first));
    EQUAL(place.avoided(), cpu);
  }).join();
}

void a_client_that_moves_is_followed_less_and_less() {
  std::thread([] {
    const cpu_set_t at_first = own_set();
    if (CPU_COUNT(&at_first) < 2) return;
    entry::ThreadPlace place;
    place.begin();
    cpu_set_t rest = at_first;
    CPU_CLR(static_cast<unsigned>(first_of(at_first)), &rest);
    const int cpus[] = {first_of(at_first), first_of(rest)};
    uint32_t needed = entry::ThreadPlace::times_min;
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
  entry::SpinBudget spin;
  const auto turns = [&spin] {
    uint32_t taken = 0;
    while (spin.take()) taken++;
    return taken;
  };
  for (uint32_t expected = entry::SpinBudget::most; expected > entry::SpinBudget::least;
       expected /= 2) {
    EQUAL(turns(), expected);
    EQUAL(turns(), 0u);
    spin.found();  // by a frame that woke the thread
  }
  EQUAL(turns(), entry::SpinBudget::least);
  spin.restart();
  CU_ASSERT(spin.take());
  spin.found();  // in a turn: they pay again
  EQUAL(turns(), entry::SpinBudget::most);
  uint32_t most = 0;
  for (uint32_t i = 0; i < entry::SpinBudget::tries_once_in; i++) {
    spin.found();
    const uint32_t taken = turns();
    if (i > 8 && taken > most) most = taken;
  }
  EQUAL(most, entry::SpinBudget::most);  // tried once more
}

uint32_t turns_in_vain(entry::SpinBudgets& spin) {
  uint32_t taken = 0;
  while (spin.take()) taken++;
  return taken;
}

// A server: the client rings in the turns behind a request, and behind its answer nothing comes
// until the thread sleeps, since who asks waits for this processor.
void turns_behind_a_doorbell_are_judged_apart() {
  entry::SpinBudgets spin;
  uint32_t behind_answer = 0;
  for (int request = 0; request < 8; request++) {
    spin.found(false);
    for (int turn = 0; turn < 3; turn++) CU_ASSERT(spin.take());
    spin.found(true);
    behind_answer = turns_in_vain(spin);
  }
  EQUAL(behind_answer, entry::SpinBudget::least);
  spin.found(false);
  EQUAL(turns_in_vain(spin), entry::SpinBudget::most);
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
};

}  // namespace
}  // namespace thread_policies_ut

KILIM_TEST_SUITE(thread_policies, thread_policies_ut::cases)
