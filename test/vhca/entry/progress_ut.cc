// SPDX-License-Identifier: BSD-3-Clause
// The adapter's thread: asleep, it is woken by a doorbell.

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <thread>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rc_pair_fixture.hh"
#include "ut.hh"
#include "vhca/entry/attach.hh"
#include "vhca/entry/progress_thread.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace std::chrono_literals;
using test::RcPair;

namespace progress_ut {
namespace {

ibv_context* open_threaded(const char* name) {
  DeviceSpec config;
  config.name = name;
  config.progress = Progress::thread;
  return entry::attach(config).ok() ? test::open_by_name(name) : nullptr;
}

// Longer than the spin: the thread sleeps.
void let_it_sleep() {
  std::this_thread::sleep_for(5ms);
}

// Nobody polls: memory changes because the thread was woken, or looked in.
void writes_arrive(ibv_context* context, uint8_t rounds) {
  {
    RcPair pair(context);
    CU_ASSERT_FATAL(pair.ok());
    for (uint8_t round = 1; round <= rounds; round++) {
      let_it_sleep();
      std::memset(pair.from(), round, 64);
      EQUAL(pair.post_write(64), 0);
      const auto volatile* last = pair.to() + 63;
      for (int i = 0; i < 500 && *last != round; i++) std::this_thread::sleep_for(1ms);
      EQUAL(*last, round);
      ibv_wc wc{};
      for (int i = 0; i < 500 && ibv_poll_cq(pair.cq(), 1, &wc) == 0; i++) {
        std::this_thread::sleep_for(1ms);
      }
      EQUAL(wc.status, IBV_WC_SUCCESS);
      EQUAL(wc.wr_id, 64);
    }
  }
  ibv_close_device(context);
}

void doorbell_wakes_it() {
  ibv_context* context = open_threaded("wake0");
  CU_ASSERT_FATAL(context != nullptr);
  writes_arrive(context, 20);
}

// As many container runtimes do. False: the kernel has no such filters.
bool refuse_userfaultfd() {
  constexpr auto number = static_cast<uint32_t>(offsetof(seccomp_data, nr));
  constexpr auto second = static_cast<uint32_t>(offsetof(seccomp_data, args[1]));
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, second),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, USERFAULTFD_IOC_NEW, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// The child's answer: 0, or which step went wrong.
int child_without_userfaultfd(int said) {
  if (!refuse_userfaultfd()) return 1;
  if (::dup2(said, STDERR_FILENO) < 0) return 2;
  ibv_context* context = open_threaded("timed0");
  if (context == nullptr) return 3;
  const unsigned failed = CU_get_number_of_failures();
  writes_arrive(context, 5);
  return CU_get_number_of_failures() == failed ? 0 : 4;
}

// Without traps the thread looks in from time to time, and says so once.
void works_without_userfaultfd() {
  int ends[2];
  EQUAL_FATAL(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(child_without_userfaultfd(ends[1]));
  ::close(ends[1]);
  char text[512]{};
  const ssize_t n = ::read(ends[0], text, sizeof(text) - 1);
  int status = 0;
  EQUAL(::waitpid(child, &status, 0), child);
  CU_ASSERT(WIFEXITED(status));
  EQUAL(WEXITSTATUS(status), 0);
  CU_ASSERT(n > 0);
  CU_ASSERT(std::strstr(text, "userfaultfd is refused") != nullptr);
  ::close(ends[0]);
}

void completion_channel_becomes_readable() {
  ibv_context* context = open_threaded("event0");
  CU_ASSERT_FATAL(context != nullptr);
  {
    RcPair pair(context, true);
    CU_ASSERT_FATAL(pair.ok());
    for (int round = 0; round < 10; round++) {
      EQUAL(ibv_req_notify_cq(pair.cq(), 0), 0);
      let_it_sleep();
      EQUAL(pair.post_write(8), 0);
      pollfd ready{pair.channel()->fd, POLLIN, 0};
      EQUAL_FATAL(::poll(&ready, 1, 2000), 1);
      ibv_cq* cq = nullptr;
      void* owner = nullptr;
      CU_ASSERT(ibv_get_cq_event(pair.channel(), &cq, &owner) == 0 && cq == pair.cq());
      ibv_ack_cq_events(cq, 1);
      ibv_wc wc{};
      CU_ASSERT(ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
    }
  }
  ibv_close_device(context);
}

// A completion queue as a program reads it that knows its format: UCX, DPDK.
class OwnPoller {
 public:
  explicit OwnPoller(ibv_cq* cq) {
    mlx5dv_obj obj{};
    obj.cq.in = cq;
    obj.cq.out = &cq_;
    ok_ = mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ) == 0;
  }
  [[nodiscard]] bool ok() const { return ok_; }
  // Spins as those do: no system call, no word to the adapter.
  mlx5_cqe64* wait() {
    auto* cqe = reinterpret_cast<mlx5_cqe64*>(static_cast<char*>(cq_.buf) +
                                              (next_ & (cq_.cqe_cnt - 1)) * cq_.cqe_size);
    const uint8_t owner = (next_++ & cq_.cqe_cnt) != 0 ? 1 : 0;
    for (;;) {
      const uint8_t word = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE);
      if (word >> 4 != MLX5_CQE_INVALID && (word & 1) == owner) return cqe;
    }
  }

 private:
  mlx5dv_cq cq_{};
  uint32_t next_ = 0;
  bool ok_ = false;
};

// Counts, not times: who runs when is the machine's. A message's doorbell traps once; a client that
// gets no processor for 63 ms (1 + 2 + ... + 32) behind its trap does once more, hence the two.
void a_poller_of_its_own_costs_a_bounded_work() {
  constexpr uint64_t messages = 40, pages = 4;
  constexpr uint64_t looks = entry::ProgressThread::store_looks;
  DeviceSpec config;
  config.name = "own0";
  config.progress = Progress::thread;
  auto attached = entry::attach(config);
  CU_ASSERT_FATAL(attached.ok());
  ibv_context* context = test::open_by_name("own0");
  CU_ASSERT_FATAL(context != nullptr);
  {
    RcPair pair(context);
    OwnPoller poller(pair.cq());
    CU_ASSERT_FATAL(pair.ok());
    CU_ASSERT_FATAL(poller.ok());
    let_it_sleep();
    const entry::ProgressCounts before = (*attached)->progress_counts();
    for (uint64_t i = 0; i < messages; i++) {
      EQUAL_FATAL(pair.post_write(64), 0);
      EQUAL(poller.wait()->op_own >> 4, MLX5_CQE_REQ);
      ibv_wc wc{};  // frees the library's slot; nobody hooked it, so the adapter does not hear
      EQUAL(ibv_poll_cq(pair.cq(), 1, &wc), 1);
    }
    const entry::ProgressCounts after = (*attached)->progress_counts();
    CU_ASSERT(after.traps - before.traps <= 2 * messages);
    CU_ASSERT(after.turns - before.turns <=
              2 * messages * (entry::ProgressThread::spin_turns + 2 * looks + 8));
    CU_ASSERT(after.sleeps - before.sleeps <= 2 * messages * (looks + 2));
    CU_ASSERT(after.system_calls - before.system_calls <= 2 * messages * (looks + 4 + 2 * pages));
    CU_ASSERT(after.turns > before.turns);
  }
  ibv_close_device(context);
}

// The client waits until the thread sleeps behind each message: however busy the machine is, it has
// taken all the turns that it takes.
void it_sleeps_after_so_many_turns() {
  constexpr uint64_t turns_max =
      2 * (entry::ProgressThread::spin_turns + 2 * entry::ProgressThread::store_looks + 8);
  DeviceSpec config;
  config.name = "turns0";
  config.progress = Progress::thread;
  auto attached = entry::attach(config);
  CU_ASSERT_FATAL(attached.ok());
  ibv_context* context = test::open_by_name("turns0");
  CU_ASSERT_FATAL(context != nullptr);
  {
    RcPair pair(context);
    OwnPoller poller(pair.cq());
    CU_ASSERT_FATAL(pair.ok());
    CU_ASSERT_FATAL(poller.ok());
    for (int round = 0; round < 5; round++) {
      let_it_sleep();
      const entry::ProgressCounts before = (*attached)->progress_counts();
      EQUAL_FATAL(pair.post_write(64), 0);
      EQUAL(poller.wait()->op_own >> 4, MLX5_CQE_REQ);
      entry::ProgressCounts after = before;
      for (int i = 0; i < 5000 && after.sleeps == before.sleeps; i++) {
        std::this_thread::sleep_for(1ms);
        after = (*attached)->progress_counts();
      }
      CU_ASSERT(after.sleeps > before.sleeps);
      CU_ASSERT(after.turns > before.turns);
      CU_ASSERT(after.turns - before.turns <= turns_max);
    }
  }
  ibv_close_device(context);
}

const test::Case cases[] = {
    {"behind a doorbell the thread takes so many turns and sleeps", it_sleeps_after_so_many_turns},
    {"a client that reads its completion queue itself costs bounded turns and calls a message",
     a_poller_of_its_own_costs_a_bounded_work},
    {"a doorbell wakes the sleeping thread, which does the work", doorbell_wakes_it},
    {"a completion channel wakes a client that sleeps as well",
     completion_channel_becomes_readable},
    {"where userfaultfd is refused the thread looks in from time to time",
     works_without_userfaultfd},
};

}  // namespace
}  // namespace progress_ut

KILIM_TEST_SUITE(progress, progress_ut::cases)
