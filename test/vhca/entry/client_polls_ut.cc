// SPDX-License-Identifier: BSD-3-Clause
// What the adapter's thread does beside a client that polls: it stays out of the way of one that
// polls on, and works for one that has stopped. Processor time and counts, no elapsed time: other
// processes may take the machine.
#include <algorithm>
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
#include "vhca/entry/poll_hook.hh"
#include "vhca/entry/progress_thread.hh"

namespace client_polls_ut {
namespace {

using namespace kilim;
using namespace kilim::vhca;
using namespace std::chrono_literals;
using test::RcPair;
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
  CU_ASSERT_FATAL(entry::attach(threaded("beside0", folder.wire())).ok());
  ibv_context* context = entry::hook_polls(test::open_by_name("beside0"));
  CU_ASSERT_FATAL(context != nullptr);
  ibv_cq* cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  CU_ASSERT_FATAL(cq != nullptr);
  ibv_wc wc{};
  const auto poll_for = [&](std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) ibv_poll_cq(cq, 1, &wc);
  };
  // Who pushes the client off its processor makes the thread believe that it has stopped: one calm
  // second in ten will do.
  const auto least_run_in = [](uint64_t limit, auto&& second) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 10 && least >= limit; i++) {
      const uint64_t before = run_by_threads("kilim-vhca");
      second();
      least = std::min(least, run_by_threads("kilim-vhca") - before);
    }
    return least;
  };
  poll_for(20ms);
  CU_ASSERT(least_run_in(dearer * 20'000'000, [&] { poll_for(1s); }) < dearer * 20'000'000);
  // And where nobody polls, next to nothing.
  std::this_thread::sleep_for(20ms);
  CU_ASSERT(least_run_in(dearer * 2'000'000, [] { std::this_thread::sleep_for(1s); }) <
            dearer * 2'000'000);
  ibv_destroy_cq(cq);
  ibv_close_device(context);
}

// What a thread's counts say of some messages.
struct Woken {
  uint64_t frames, traps;
  static Woken between(const entry::ProgressCounts& before, const entry::ProgressCounts& after) {
    return {after.frames - before.frames, after.traps - before.traps};
  }
  // Frames that woke the thread while its client polled. A client that was kept off its processor
  // counts as stopped: its next doorbell traps, and the frame behind it is the thread's.
  [[nodiscard]] bool beside_polls(uint64_t most) const { return frames <= traps + most; }
};

// A client that others keep off its processor counts as stopped for a moment, and frames are the
// thread's then: what holds in one try of these is what is asked.
constexpr int most_tries = 30;

// Writes from one adapter into the memory of another. The writer polls until it has its completion,
// and its acknowledgement wakes no thread; the other polls once and then watches its memory, and
// the frame wakes its thread.
void a_frame_wakes_the_thread_of_who_does_not_poll() {
  constexpr uint64_t rounds = 40;
  const Folder folder;
  auto sender = entry::attach(threaded("from0", folder.wire()));
  auto receiver = entry::attach(threaded("to0", folder.wire()));
  CU_ASSERT_FATAL(sender.ok());
  CU_ASSERT_FATAL(receiver.ok());
  ibv_context* from = entry::hook_polls(test::open_by_name("from0"));
  ibv_context* to = entry::hook_polls(test::open_by_name("to0"));
  CU_ASSERT_FATAL(from != nullptr);
  CU_ASSERT_FATAL(to != nullptr);
  {
    RcPair near(from), far(to);
    CU_ASSERT_FATAL(near.ok());
    CU_ASSERT_FATAL(far.ok());
    CU_ASSERT_FATAL(near.connect_to(far));
    ibv_wc wc{};
    bool calm = false;
    for (int i = 0; i < most_tries && !calm; i++) {
      const entry::ProgressCounts near_before = (*sender)->progress_counts();
      const entry::ProgressCounts far_before = (*receiver)->progress_counts();
      for (uint64_t round = 1; round <= rounds; round++) {
        ibv_poll_cq(far.cq(), 1, &wc);
        std::memset(near.from(), static_cast<int>(round), 64);
        EQUAL_FATAL(near.post_write_to(far, 64), 0);
        int found = 0;
        const auto late = std::chrono::steady_clock::now() + 5s;
        while (found == 0 && std::chrono::steady_clock::now() < late)
          found = ibv_poll_cq(near.cq(), 1, &wc);
        EQUAL_FATAL(found, 1);
        EQUAL_FATAL(wc.status, IBV_WC_SUCCESS);
        EQUAL(far.to()[63], round);
      }
      const Woken writer = Woken::between(near_before, (*sender)->progress_counts());
      const Woken watcher = Woken::between(far_before, (*receiver)->progress_counts());
      CU_ASSERT(watcher.frames > 0);
      calm = writer.beside_polls(rounds / 4) && watcher.frames <= 2 * rounds;
    }
    CU_ASSERT(calm);
  }
  ibv_close_device(from);
  ibv_close_device(to);
}

// Both poll until they have what they wait for: neither's thread is woken for long.
void two_that_poll_wake_no_thread() {
  constexpr uint64_t rounds = 80;
  const Folder folder;
  auto one = entry::attach(threaded("ping0", folder.wire()));
  auto two = entry::attach(threaded("pong0", folder.wire()));
  CU_ASSERT_FATAL(one.ok());
  CU_ASSERT_FATAL(two.ok());
  ibv_context* from = entry::hook_polls(test::open_by_name("ping0"));
  ibv_context* to = entry::hook_polls(test::open_by_name("pong0"));
  CU_ASSERT_FATAL(from != nullptr);
  CU_ASSERT_FATAL(to != nullptr);
  {
    RcPair near(from), far(to);
    CU_ASSERT_FATAL(near.ok());
    CU_ASSERT_FATAL(far.ok());
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
      EQUAL_FATAL(found, 1);
      EQUAL_FATAL(wc.status, IBV_WC_SUCCESS);
    };
    bool calm = false;
    for (int i = 0; i < most_tries && !calm; i++) {
      const entry::ProgressCounts near_before = (*one)->progress_counts();
      const entry::ProgressCounts far_before = (*two)->progress_counts();
      for (uint64_t round = 1; round <= rounds; round++) write(near, far);
      const Woken first = Woken::between(near_before, (*one)->progress_counts());
      const Woken second = Woken::between(far_before, (*two)->progress_counts());
      calm = first.beside_polls(rounds / 8) && second.beside_polls(rounds / 8);
    }
    CU_ASSERT(calm);
  }
  ibv_close_device(from);
  ibv_close_device(to);
}

const test::Case cases[] = {
    {"a client that polls an idle queue costs the thread at most 2 % of a core, and none is none",
     the_thread_rests_beside_a_poller},
    {"a frame wakes the thread of who watches memory behind a poll, and of no client that polls",
     a_frame_wakes_the_thread_of_who_does_not_poll},
    {"between two that poll frames wake no thread", two_that_poll_wake_no_thread},
};

}  // namespace
}  // namespace client_polls_ut

KILIM_TEST_SUITE(client_polls, client_polls_ut::cases)
