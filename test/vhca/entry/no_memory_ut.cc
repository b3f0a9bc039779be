// SPDX-License-Identifier: BSD-3-Clause
// A process without memory: whichever allocation of the device fails, a call ends well or with
// ENOMEM, data are right, and nothing ends the process. Each case in a process of its own.

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kilim/detail/base/memory_reserve.hh"
#include "rc_pair_fixture.hh"
#include "ut.hh"
#include "vhca/entry/attach.hh"
#include "vhca/memory/valgrind.hh"
#include "vhca/rdmacm/cm_file.hh"

namespace {

constexpr int aborted = 99;  // what an exception ends in that nobody catches

// Of the calls of operator new from now on the one that fails, once; negative: none.
std::atomic<long> until_failure{-1};
std::atomic<bool> has_failed{false};

bool fails_now() noexcept {
  if (until_failure.load(std::memory_order_relaxed) < 0) return false;
  if (until_failure.fetch_sub(1) != 0) return false;
  has_failed.store(true);
  return true;
}

}  // namespace

// As libstdc++ has them, with a failure in between.
void* operator new(std::size_t bytes) {
  for (;;) {
    if (!fails_now()) {
      if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
    }
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) ::_exit(aborted);
    handler();
  }
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

using namespace kilim;
using namespace kilim::vhca;
using test::RcPair;

namespace {

enum Answer : int { well, refused, wrong, not_reached };

// The allocations among which one fails: those of an adapter's making, and all behind them; or
// only those of its clients' calls.
enum class From : uint8_t { attaching, opening };

// From an adapter's making to its last object: each of a program's usual calls once.
Answer work(const DeviceSpec& config, From from, long failing) {
  if (from == From::attaching) until_failure.store(failing);
  if (!entry::attach(config).ok()) return refused;
  if (from == From::opening) until_failure.store(failing);
  ibv_context* context = test::open_by_name(config.name.c_str());
  if (context == nullptr) return refused;
  Answer answer = well;
  {
    RcPair pair(context, true);
    if (!pair.ok()) return refused;
    for (uint8_t value = 1; value <= 3; value++) {
      std::memset(pair.from(), value, 64);
      if (ibv_req_notify_cq(pair.cq(), 0) != 0 || pair.post_write(64) != 0) return refused;
      ibv_wc wc{};
      while (ibv_poll_cq(pair.cq(), 1, &wc) == 0) ::sched_yield();
      if (wc.status != IBV_WC_SUCCESS || pair.to()[63] != value) answer = wrong;
    }
  }
  return ibv_close_device(context) == 0 ? answer : refused;
}

template <typename Child>
int answer_of(Child child) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(30);
    ::_exit(child());
  }
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

// Each `stride`th of them, until there are no more.
void fail_each(From from, long stride) {
  DeviceSpec config;
  config.name = "poor0";
  config.progress = Progress::thread;
  int good = 0, refusals = 0;
  for (long n = 0;; n += stride) {
    const int answer = answer_of([&] {
      const Answer done = work(config, from, n);
      until_failure.store(-1);
      return has_failed.load() ? done : not_reached;
    });
    if (answer == not_reached) break;
    CU_ASSERT(answer == well || answer == refused);
    if (answer != well && answer != refused)
      std::fprintf(stderr, "allocation %ld: %d\n", n, answer);
    good += answer == well;
    refusals += answer == refused;
    CU_ASSERT_FATAL(n < 5000);
  }
  CU_ASSERT(good > 20);
  CU_ASSERT(refusals < good);
}

void any_allocation_of_a_call_may_fail() {
  fail_each(From::opening, 1);
}

// Some 700; a child for each takes a minute or more.
void any_allocation_of_the_set_up_may_fail() {
  const char* check = std::getenv("KILIM_CHECK");
  fail_each(From::attaching, check != nullptr && std::strcmp(check, "long") == 0 ? 1 : 13);
}

rlim_t address_space() {
  long pages = 0;
  if (FILE* f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%ld", &pages) != 1) pages = 0;
    std::fclose(f);
  }
  return static_cast<rlim_t>(pages) * 4096;
}

// Queues until there is no more room, then all of them are destroyed, and a new one is made.
int fill_the_address_space(const DeviceSpec& config) {
  if (!entry::attach(config).ok()) return 10;
  ibv_context* context = test::open_by_name(config.name.c_str());
  if (context == nullptr) return 11;
  const rlim_t limit = address_space() + (rlim_t{48} << 20);
  const rlimit tight{limit, limit};
  if (::setrlimit(RLIMIT_AS, &tight) != 0) return 12;
  constexpr std::size_t most = 100'000;
  static ibv_cq* made[most];
  std::size_t count = 0;
  while (count < most && (made[count] = ibv_create_cq(context, 64, nullptr, nullptr, 0)) != nullptr)
    count++;
  if (count == most) return 13;
  if (errno != ENOMEM && errno != EAGAIN) return 14;
  for (std::size_t i = 0; i < count; i++)
    if (ibv_destroy_cq(made[i]) != 0) return 15;
  ibv_cq* again = ibv_create_cq(context, 64, nullptr, nullptr, 0);
  if (again == nullptr || ibv_destroy_cq(again) != 0) return 16;
  return ibv_close_device(context) == 0 ? 0 : 17;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool limits_work = false;  // their shadow is mapped already
#else
constexpr bool limits_work = true;
#endif

void the_address_space_may_be_used_up() {
  DeviceSpec config;
  config.name = "tight0";
  if (limits_work && !memory::under_valgrind())
    EQUAL(answer_of([&] { return fill_the_address_space(config); }), 0);
}

// A pair that the compiler may not leave out.
void allocate_one() {
  int* volatile one = new int(3);
  delete one;
}

// Nothing left of the reserve, and no room to fill it.
bool use_up_the_reserve() {
  if (!memory_reserve::fill()) return false;
  const memory_reserve::Scope scope;
  while (!memory_reserve::exhausted()) {
    until_failure.store(0);
    allocate_one();
  }
  const rlim_t limit = address_space() + (rlim_t{1} << 20);
  const rlimit tight{limit, limit};
  return ::setrlimit(RLIMIT_AS, &tight) == 0 && !memory_reserve::fill();
}

int ask_without_a_reserve(const DeviceSpec& config) {
  if (!entry::attach(config).ok()) return 10;
  ibv_context* context = test::open_by_name(config.name.c_str());
  if (context == nullptr) return 11;
  ibv_pd* pd = ibv_alloc_pd(context);
  Fd client;
  auto cm = rdmacm::CmFile::create(true, client);
  if (pd == nullptr || !cm.ok()) return 12;
  if (!use_up_the_reserve()) return 13;
  errno = 0;
  if (ibv_alloc_pd(context) != nullptr || errno != ENOMEM) return 14;
  if (ibv_dealloc_pd(pd) != 0) return 15;
  struct {
    rdma_ucm_cmd_hdr header{RDMA_USER_CM_CMD_CREATE_ID, sizeof(rdma_ucm_create_id),
                            sizeof(rdma_ucm_create_id_resp)};
    rdma_ucm_create_id body{};
  } command;
  if ((*cm)->write(&command, sizeof(command), {}) != -ENOMEM) return 16;
  return ibv_close_device(context) == 0 ? 0 : 17;
}

void making_is_refused_and_destroying_runs() {
  DeviceSpec config;
  config.name = "empty0";
  if (limits_work && !memory::under_valgrind())
    EQUAL(answer_of([&] { return ask_without_a_reserve(config); }), 0);
}

// The client's own allocations meet its own handler, or none, as if we were not there.
std::atomic<int> asked{0};
void handler_of_the_client() {
  asked++;
  std::set_new_handler(nullptr);
}

void the_clients_allocations_are_its_own() {
  EQUAL(answer_of([] {
          std::set_new_handler(&handler_of_the_client);
          if (!memory_reserve::fill() || !memory_reserve::whole()) return 1;
          until_failure.store(0);
          allocate_one();  // ours answers that it is none of its business
          if (asked.load() != 1) return 2;
          return memory_reserve::whole() ? 0 : 3;
        }),
        0);
  EQUAL(answer_of([] {
          if (!memory_reserve::fill()) return 1;
          const memory_reserve::Scope scope;
          until_failure.store(0);
          allocate_one();
          if (memory_reserve::whole() || memory_reserve::exhausted()) return 2;
          return memory_reserve::fill() ? 0 : 3;
        }),
        0);
}

const test::Case cases[] = {
    {"whichever allocation of a call fails, none ends the process",
     any_allocation_of_a_call_may_fail},
    {"whichever allocation of an adapter's set-up fails, none ends the process",
     any_allocation_of_the_set_up_may_fail},
    {"queues are made until the address space is used up", the_address_space_may_be_used_up},
    {"where there is no memory making is ENOMEM and destroying runs",
     making_is_refused_and_destroying_runs},
    {"an allocation of the client's own is not answered by the device",
     the_clients_allocations_are_its_own},
};

}  // namespace

KILIM_TEST_SUITE(no_memory, cases)
