// SPDX-License-Identifier: BSD-3-Clause
// Tests write, read and atomic: one reliable connection to itself, the device's work on the same
// core, results in perftest's table.
#include <chrono>
#include <cstdio>
#include <memory>

#include "kilim/queue/rc_wqe.hh"
#include "kilim/queue/wqe_cursor.hh"
#include "perf_test.hh"
#include "rig.hh"

namespace kilim::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t most_bytes = 1u << 23;

struct Job {
  Rig rig;
  std::unique_ptr<std::byte[]> memory;
  mlx5::VerbsMr region;
  uint64_t iterations = 0;
  Clock::time_point end;  // of a run by time
  bool by_time = false;

  [[nodiscard]] bool over(uint64_t done) const {
    return by_time ? Clock::now() >= end : done >= iterations;
  }
};

using Append = bool (*)(queue::WqeCursor&, const queue::Remote&, const queue::Sge&, uint64_t id);

constexpr queue::Wr signalled(uint64_t id) noexcept {
  return {.id = id, .flags = queue::WrFlags::signalled};
}
bool append_write(queue::WqeCursor& c, const queue::Remote& r, const queue::Sge& s, uint64_t id) {
  return queue::rdma_write(c, r, s, signalled(id));
}
bool append_read(queue::WqeCursor& c, const queue::Remote& r, const queue::Sge& s, uint64_t id) {
  return queue::rdma_read(c, r, s, signalled(id));
}
bool append_atomic(queue::WqeCursor& c, const queue::Remote& r, const queue::Sge& s, uint64_t id) {
  return queue::fetch_and_add(
      c, {.target = r, .result_address = s.address, .result_key = s.key, .swap_or_add = 1},
      signalled(id));
}

bool open(Job& job, const Options& o) {
  std::string why = job.rig.open(o.device);
  if (why.empty()) {
    job.memory = std::make_unique<std::byte[]>(std::size_t{2} * most_bytes);
    constexpr int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    job.region.reset(
        ibv_reg_mr(job.rig.device.pd.get(), job.memory.get(), std::size_t{2} * most_bytes, access));
    if (!job.region) why = "the memory cannot be registered";
  }
  if (!why.empty()) std::fprintf(stderr, "kilim-perf: %s\n", why.c_str());
  return why.empty();
}

// Messages done, 0 where one failed.
uint64_t run_size(Job& job, const Options& o, uint32_t bytes, Append append) {
  Rig& r = job.rig;
  const auto at = reinterpret_cast<uint64_t>(job.memory.get());
  const queue::Sge local{at, bytes, Lkey{job.region->lkey}};
  const queue::Remote remote{at + most_bytes, Rkey{job.region->rkey}};
  uint64_t posted = 0, done = 0;
  std::array<queue::Completion, 32> seen;
  job.end = Clock::now() + std::chrono::seconds(o.seconds);
  while (!job.over(done)) {
    queue::WqeCursor cursor{*r.sq};
    for (uint32_t i = 0; i < o.list && posted - done < o.depth; i++, posted++)
      if (!append(cursor, remote, local, posted)) break;
    cursor.commit();
    r.device.run();
    for (uint32_t n; (n = r.cq->poll(seen, *r.sq)) != 0; done += n)
      for (uint32_t i = 0; i < n; i++)
        if (!seen[i].ok()) return 0;
  }
  return done;
}

void print(const Options& o, uint32_t bytes, uint64_t messages, double seconds) {
  const double rate = static_cast<double>(messages) / seconds;
  const double mib = rate * bytes / (1024.0 * 1024.0);
  std::printf(o.json ? "{\"test\": \"%s\", \"bytes\": %u, \"iterations\": %llu, "
                       "\"average_mib_s\": %.2f, \"mpps\": %.6f}\n"
                     : " %-8.0s%-10u %-14llu %-20.2f %-14.6f\n",
              o.test.c_str(), bytes, static_cast<unsigned long long>(messages), mib, rate / 1e6);
  std::fflush(stdout);
}

int run_rc(const Options& o, Append append, bool fixed_size) {
  auto job = std::make_unique<Job>();
  if (!open(*job, o)) return 1;
  job->iterations = o.iterations;
  job->by_time = o.seconds != 0;
  if (!o.json)
    std::printf(" %-10s %-14s %-20s %-14s\n", "#bytes", "#iterations", "BW average[MiB/sec]",
                "MsgRate[Mpps]");
  const bool all = o.all_sizes && !fixed_size;
  const uint32_t last = all ? most_bytes : fixed_size ? 8 : o.size;
  for (uint32_t bytes = all ? 2 : last; bytes <= last; bytes *= 2) {
    const auto start = Clock::now();
    const uint64_t messages = run_size(*job, o, bytes, append);
    const std::chrono::duration<double> spent = Clock::now() - start;
    if (messages == 0) {
      std::fprintf(stderr, "kilim-perf: a request failed\n");
      return 1;
    }
    print(o, bytes, messages, spent.count());
  }
  return 0;
}

int run_write(const Options& o) {
  return run_rc(o, append_write, false);
}
int run_read(const Options& o) {
  return run_rc(o, append_read, false);
}
int run_atomic(const Options& o) {
  return run_rc(o, append_atomic, true);
}

}  // namespace

const PerfTest write_test = {"write", "RDMA WRITE to itself, device on the same core", run_write};
const PerfTest read_test = {"read", "RDMA READ from itself, likewise", run_read};
const PerfTest atomic_test = {"atomic", "fetch and add of 8 bytes, likewise", run_atomic};

}  // namespace kilim::perf
