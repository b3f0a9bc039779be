// SPDX-License-Identifier: BSD-3-Clause
// Figures and protocol: Linux drivers/net/ethernet/mellanox/mlx5/core/lib/clock.c,
// mlx5_timecounter_init(), mlx5_update_clock_info_page() and mlx5_timestamp_overflow(); reader:
// rdma-core providers/mlx5/verbs.c, mlx5dv_get_clock_info().
#include "vhca/uverbs/clock_page.hh"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <pthread.h>
#include <rdma/mlx5-abi.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kilim/detail/base/fd.hh"
#include "vhca/core/core_clock.hh"
#include "vhca/core/own_page.hh"
#include "vhca/core/sealed.hh"

namespace kilim::vhca::uverbs::clock_page {

namespace {

constexpr std::size_t clock_bytes = 4096;
constexpr uint32_t shift = 31, mult = uint32_t{1} << 31;  // a tick is a nanosecond
constexpr uint64_t mask = (uint64_t{1} << 41) - 1;        // CLOCKSOURCE_MASK(41)
// A reader's 64 bits are full after 2^33 ns; Linux renews within a quarter of that
// (mlx5_init_overflow_period()).
constexpr timespec renewal{2, 0};
constexpr uint64_t overflow_period = 2;

struct Page {
  Fd fd;
  std::byte* at = nullptr;
  [[nodiscard]] mlx5_ib_clock_info& info() const noexcept {
    return *reinterpret_cast<mlx5_ib_clock_info*>(at);
  }
};

// What the process has made: never destroyed, since clients read it while static objects are.
struct Pages {
  std::mutex lock;
  std::vector<Page> all;  // more than one only where the client closed the last one's number
  uint64_t ns = 0, ticks = 0;
  pid_t process = 0;
};
Pages* made = nullptr;
std::mutex making;  // two adapters have two locks; all of them are held while the process forks

uint64_t time_of_day() noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

// Readers begin anew while the lowest bit is set, and where the word has changed meanwhile.
void write(const Page& page, uint64_t ns, uint64_t ticks) noexcept {
  mlx5_ib_clock_info& info = page.info();
  const std::atomic_ref<uint32_t> sign(info.sign);
  const uint32_t before = sign.load(std::memory_order_relaxed);
  sign.store(before | MLX5_IB_CLOCK_INFO_KERNEL_UPDATING, std::memory_order_relaxed);
  const auto put = [](auto& field, auto value) noexcept {
    std::atomic_ref(field).store(value, std::memory_order_release);  // behind the word
  };
  put(info.nsec, ns);
  put(info.cycles, ticks & mask);
  put(info.frac, uint64_t{0});
  put(info.mult, mult);
  put(info.shift, shift);
  put(info.mask, mask);
  put(info.overflow_period, overflow_period);
  sign.store(before + 2 * MLX5_IB_CLOCK_INFO_KERNEL_UPDATING, std::memory_order_release);
}

// The time of day goes on as the ticks do, as a card's does that nobody adjusts.
void renew(Pages& pages) noexcept {
  const uint64_t now = clock_ns();
  pages.ns += now - pages.ticks;
  pages.ticks = now;
  for (const Page& page : pages.all) write(page, pages.ns, pages.ticks);
}

void* run(void* arg) {
  auto& pages = *static_cast<Pages*>(arg);
  for (;;) {
    ::nanosleep(&renewal, nullptr);
    const std::lock_guard lock{pages.lock};
    renew(pages);
  }
}

// Without any signal of the program's. False: the process may have no more threads.
bool start_thread(Pages& pages) noexcept {
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const bool runs = ::pthread_create(&thread, nullptr, run, &pages) == 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!runs) return false;
  (void)::pthread_setname_np(thread, "kilim-clock");
  (void)::pthread_detach(thread);
  return true;
}

bool add_page(Pages& pages) {
  Page page{sealed_memory("clock-info", clock_bytes), nullptr};
  if (!page.fd) return false;
  void* at = ::mmap(nullptr, clock_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, page.fd.get(), 0);
  if (at == MAP_FAILED) return false;
  page.at = static_cast<std::byte*>(at);
  write_origin(page.fd.get(), {page.at, clock_bytes});
  pages.all.push_back(std::move(page));
  renew(pages);
  return true;
}

}  // namespace

int fd() noexcept {
  const std::lock_guard one{making};
  if (made == nullptr || made->process != ::getpid()) {
    auto* fresh = new Pages;
    fresh->process = ::getpid();
    fresh->ns = time_of_day();
    fresh->ticks = clock_ns();
    if (!start_thread(*fresh)) {
      delete fresh;
      return -1;
    }
    made = fresh;
  }
  const std::lock_guard lock{made->lock};
  if (!made->all.empty()) {
    Page& last = made->all.back();
    if (is_origin(last.fd.get(), {last.at, clock_bytes})) return last.fd.get();
    (void)last.fd.release();  // the number is the client's now
  }
  return add_page(*made) ? made->all.back().fd.get() : -1;
}

}  // namespace kilim::vhca::uverbs::clock_page
