// SPDX-License-Identifier: BSD-3-Clause
// A doorbell's store that waits although the adapter's thread does not sleep behind protected
// pages: the kernel leaves one so where it comes while the thread lets others go
// (write_protect.hh). The tests protect a page through the thread's own userfaultfd, which makes
// the same. Each case in a process of its own; one that hangs ends by SIGALRM.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rc_pair_fixture.hh"
#include "ut.hh"
#include "vhca/entry/attach.hh"
#include "vhca/entry/instance.hh"
#include "vhca/entry/open_files.hh"
#include "vhca/entry/poll_hook.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace std::chrono_literals;
using test::RcPair;

namespace stores_ut {
namespace {

constexpr unsigned seconds_max = 60;

// The only one of this process: the adapter's thread has opened it. Below 0: there is none.
int userfaultfd_of_the_thread() {
  constexpr int highest = 256;
  for (int fd = 3; fd < highest; fd++) {
    char name[64]{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    if (::readlink(link.c_str(), name, sizeof(name) - 1) <= 0) continue;
    if (std::string_view(name).find("[userfaultfd]") != std::string_view::npos) return fd;
  }
  return -1;
}

// Makes the next store to the doorbell page of a queue wait until the thread lets it go.
class Doorbell {
 public:
  explicit Doorbell(ibv_qp* qp) : fd_(userfaultfd_of_the_thread()) {
    mlx5dv_qp found{};
    mlx5dv_obj obj{};
    obj.qp.in = qp;
    obj.qp.out = &found;
    if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP) != 0) return;
    page_ = reinterpret_cast<uintptr_t>(found.bf.reg) & ~(page_bytes - 1);
  }
  [[nodiscard]] bool protect() const {
    uffdio_writeprotect wp{};
    wp.range = {page_, page_bytes};
    wp.mode = UFFDIO_WRITEPROTECT_MODE_WP;
    return page_ != 0 && ::ioctl(fd_, UFFDIO_WRITEPROTECT, &wp) == 0;
  }

 private:
  static constexpr uint64_t page_bytes = 4096;
  int fd_;
  uint64_t page_ = 0;
};

// The store of the doorbell waits, then the write completes. False: the page could not be
// protected, or the write failed.
bool write_behind_a_protected_page(RcPair& pair, const Doorbell& doorbell) {
  if (!doorbell.protect() || pair.post_write(64) != 0) return false;
  ibv_wc wc{};
  while (ibv_poll_cq(pair.cq(), 1, &wc) == 0) std::this_thread::sleep_for(100us);
  return wc.status == IBV_WC_SUCCESS;
}

// Polls an idle queue for as long as it lives, so that the thread sleeps beside a client that
// polls.
class Poller {
 public:
  explicit Poller(ibv_context* context)
      : cq_(ibv_create_cq(context, 1, nullptr, nullptr, 0)), thread_([this] {
          ibv_wc wc{};
          while (!stop_.load(std::memory_order_relaxed)) ibv_poll_cq(cq_, 1, &wc);
        }) {}
  ~Poller() {
    stop_ = true;
    thread_.join();
    ibv_destroy_cq(cq_);
  }
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

 private:
  ibv_cq* cq_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// The children's answers: 0, or which step went wrong.
int beside_a_client_that_polls(ibv_context* context) {
  RcPair pair(context);
  if (!pair.ok()) return 3;
  const Doorbell doorbell(pair.qp(0));
  const Poller poller(entry::hook_polls(context));
  for (int round = 0; round < 50; round++) {
    std::this_thread::sleep_for(1ms);
    if (!write_behind_a_protected_page(pair, doorbell)) return 4;
  }
  return 0;
}

int where_doorbells_are_looked_for(ibv_context* context) {
  RcPair pair(context);
  if (!pair.ok()) return 3;
  const entry::OpenFileRef open(context->cmd_fd);
  if (!open || open->instance == nullptr) return 5;
  open->instance->shared();
  const Doorbell doorbell(pair.qp(0));
  for (int round = 0; round < 20; round++) {
    std::this_thread::sleep_for(5ms);
    if (!write_behind_a_protected_page(pair, doorbell)) return 4;
  }
  return 0;
}

int child(int (*run)(ibv_context*)) {
  ::alarm(seconds_max);
  DeviceSpec config;
  config.name = "stores0";
  config.progress = Progress::thread;
  if (!entry::attach(config).ok()) return 1;
  ibv_context* context = test::open_by_name("stores0");
  return context == nullptr ? 2 : run(context);
}

void goes_on(int (*run)(ibv_context*)) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(child(run));
  int status = 0;
  EQUAL_FATAL(::waitpid(pid, &status, 0), pid);
  CU_ASSERT_FATAL(WIFEXITED(status));
  EQUAL(WEXITSTATUS(status), 0);
}

void lets_it_go_beside_a_client_that_polls() {
  goes_on(&beside_a_client_that_polls);
}

void lets_it_go_where_doorbells_are_looked_for() {
  goes_on(&where_doorbells_are_looked_for);
}

const test::Case cases[] = {
    {"a store that waits beside a client that polls goes on",
     lets_it_go_beside_a_client_that_polls},
    {"a store that waits while doorbells are looked for goes on",
     lets_it_go_where_doorbells_are_looked_for},
};

}  // namespace
}  // namespace stores_ut

KILIM_TEST_SUITE(stores, stores_ut::cases)
