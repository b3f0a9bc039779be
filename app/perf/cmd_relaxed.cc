// SPDX-License-Identifier: BSD-3-Clause
// Test relaxed: what registering and deregistering 4 KiB costs the application's core, 32 a
// doorbell, beside posting a UMR of one entry and beside ibv_reg_mr. The device completes without
// executing, and is run between the pieces that are measured. The pieces are functions of their
// own, by whose names callgrind counts them (doc/guides/perf.md). Then the C functions, one call at
// a time and each with its completion, over memory of each kind.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include "cli/json.hh"
#include "kilim/ibv_compat.h"
#include "kilim/relaxed.hh"
#include "mlx5/mkey_source.hh"
#include "perf/command.hh"
#include "perf/compare/measure.hh"
#include "perf/compare/rig.hh"
#include "vhca/entry/poll_hook.hh"

namespace kilim::perf {
namespace {

constexpr uint32_t batch = round_requests;
constexpr uint32_t keys = 4 * batch;
constexpr uint64_t page = 4096;
constexpr uint32_t access = mr::Access::local_write | mr::Access::remote_write;

struct Bench {
  Rig rig;
  std::unique_ptr<mlx5::VerbsMkeySource> source;
  std::unique_ptr<mkey::MkeyPool> pool;
  std::unique_ptr<mkey::Epochs> epochs;
  std::unique_ptr<mkey::MkeyBinder> binder;
  std::unique_ptr<relaxed::Relaxed> engine;
  std::array<relaxed::Region, batch> regions;

  [[nodiscard]] uint64_t address(uint32_t i) const {
    return reinterpret_cast<uint64_t>(rig.memory.get()) + i * page;
  }
};

}  // namespace

// Named for callgrind.
__attribute__((noinline)) uint32_t relaxed_umr_batch(Bench& b) {
  const Lkey key{b.rig.ours.key->lkey};
  umr::ListRequest r{.key = key,
                     .max_entries = 64,
                     .new_tag = tag_of(key),
                     .access = umr::mkey_access(access),
                     .has_start = true};
  queue::WqeCursor c{*b.rig.sq};
  uint32_t n = 0;
  for (; n < batch; n++) {
    const umr::Piece piece{b.address(n), page, Lkey{b.rig.region->lkey}};
    r.start = piece.address;
    if (!umr::umr_list(c, r, umr::View{&piece, 1, page}, {.id = n, .flags = 0}).ok()) break;
  }
  c.signal_last();
  c.commit();
  return n;
}

__attribute__((noinline)) uint32_t relaxed_register_batch(Bench& b) {
  queue::WqeCursor c{*b.rig.sq};
  uint32_t n = 0;
  for (; n < batch; n++)
    if (b.engine->register_memory(c, {b.address(n), page, access, n}, b.regions[n]) !=
        relaxed::Answer::done)
      break;
  b.engine->commit(c);
  return n;
}

__attribute__((noinline)) uint32_t relaxed_deregister_batch(Bench& b) {
  for (relaxed::Region& r : b.regions) b.engine->deregister(std::move(r));
  return batch;
}

__attribute__((noinline)) uint32_t relaxed_flush_batch(Bench& b) {
  (void)b.engine->flush();
  return batch;
}

__attribute__((noinline)) uint32_t relaxed_back_batch(Bench& b) {
  for (int i = 0; i < 2; i++) b.engine->poll();  // reaped, then through an epoch
  return batch;
}

namespace {

std::string open(Bench& b, const Options& o) {
  if (std::string why = b.rig.open(o.device); !why.empty()) return why;
  b.source = std::make_unique<mlx5::VerbsMkeySource>(b.rig.device.pd.get(), 64u);
  auto pool = mkey::MkeyPool::create(*b.source, keys, 4);
  auto epochs = mkey::Epochs::create(nullptr, 1);
  if (!pool || !epochs) return "no keys";
  b.pool = *std::move(pool);
  b.epochs = *std::move(epochs);
  auto binder = mkey::MkeyBinder::create(*b.rig.sq, *b.pool, *b.epochs, {});
  if (!binder) return binder.error().what;
  b.binder = *std::move(binder);
  auto engine = relaxed::Relaxed::create(*b.binder, {.keys = keys, .flush_share = 1});
  if (!engine) return engine.error().what;
  b.engine = *std::move(engine);
  const ibv_mr* mr = b.rig.region.get();
  const auto base = reinterpret_cast<uint64_t>(mr->addr);
  const mr::Region arena{.address = base,
                         .length = mr->length,
                         .iova = base,
                         .lkey = Lkey{mr->lkey},
                         .rkey = Rkey{mr->rkey},
                         .page_bytes = page,
                         .access = mr::Access::all};
  if (!b.engine->cover().add(arena)) return "no arena";
  return b.rig.device.set_executing(false) ? "" : "the device executes all it is given";
}

// The device works, and its completions reach the binder. Not measured.
bool settle(Bench& b) {
  for (int i = 0; i < 1000 && !b.rig.sq->idle(); i++) {
    b.rig.device.run();
    queue::Completion c[batch];
    const uint32_t n = b.rig.cq->poll(c);
    for (uint32_t k = 0; k < n; k++) {
      if (!c[k].ok()) return false;
      (void)b.binder->handle_completion(c[k]);
    }
  }
  return b.rig.sq->idle();
}

struct Piece {
  const char* name;
  uint32_t (*work)(Bench&);
};
// In this order, round by round.
constexpr Piece pieces[] = {
    {"UMR of one entry, posted", relaxed_umr_batch},
    {"register, posted", relaxed_register_batch},
    {"deregister, marked", relaxed_deregister_batch},
    {"its invalidation, posted", relaxed_flush_batch},
    {"its key, back in the pool", relaxed_back_batch},
};
constexpr std::size_t count = sizeof pieces / sizeof *pieces;

bool round(Bench& b, std::array<uint64_t, count>& spent) {
  for (std::size_t i = 0; i < count; i++) {
    const uint64_t from = __rdtsc();
    const uint32_t n = pieces[i].work(b);
    spent[i] += __rdtsc() - from;
    const bool posts = pieces[i].work != relaxed_deregister_batch;
    if (n != batch || (posts && !settle(b))) return false;
  }
  b.engine->poll();
  return true;
}

// Nanoseconds of one registration, and of one deregistration with its part of a flush.
struct Cost {
  double make = 0;
  double end = 0;
};

// What the verbs cost where no DPDK is loaded: 0 where they could not be asked.
Cost plain_verbs;

Cost verbs_ns(ibv_pd* pd, std::byte* memory) {
  constexpr uint32_t times = 200;
  uint64_t made = 0;
  uint64_t ended = 0;
  for (uint32_t i = 0; i < times; i++) {
    const uint64_t from = __rdtsc();
    ibv_mr* mr = ibv_reg_mr(pd, memory, page, static_cast<int>(access));
    const uint64_t between = __rdtsc();
    if (mr == nullptr) return {};
    (void)ibv_dereg_mr(mr);
    made += between - from;
    ended += __rdtsc() - between;
  }
  const double each = ns_per_tick() / times;
  return {static_cast<double>(made) * each, static_cast<double>(ended) * each};
}

// EAL loads DPDK's mlx5 driver, which calls ibv_fork_init(3) (mlx5_common_os.c): from then on
// libibverbs reads /proc/self/smaps for each region. A process of its own, forked before, has
// libibverbs as a program without DPDK has it.
void measure_verbs(const Options& o) {
  int ends[2];
  if (pipe(ends) != 0) return;
  const pid_t child = fork();
  if (child == 0) {
    Rig rig;
    Cost least{};
    if (!rig.open(o.device).empty()) _exit(1);
    for (uint32_t s = 0; s < o.samples; s++) {
      const Cost c = verbs_ns(rig.device.pd.get(), rig.memory.get());
      least.make = s == 0 ? c.make : std::min(least.make, c.make);
      least.end = s == 0 ? c.end : std::min(least.end, c.end);
    }
    _exit(write(ends[1], &least, sizeof least) == sizeof least ? 0 : 1);
  }
  close(ends[1]);
  Cost said{};
  if (child > 0 && read(ends[0], &said, sizeof said) == sizeof said) plain_verbs = said;
  close(ends[0]);
  // Until the child, which only measures, has ended.
  if (child > 0) (void)waitpid(child, nullptr, 0);
}

struct CFunctions {
  const char* name;
  kilim_relaxed_memory memory;
  bool arena;
};
constexpr CFunctions c_functions[] = {
    {"ibv_reg_mr_relaxed, inside an arena", KILIM_RELAXED_PINNED, true},
    {"ibv_reg_mr_relaxed, memory under no key", KILIM_RELAXED_PINNED, false},
    {"ibv_reg_mr_relaxed, on demand", KILIM_RELAXED_ON_DEMAND, false},
};

// Regions of a page, `batch` of them before a flush. 0: a call failed.
Cost relaxed_ns(const Bench& b, ibv_pd* pd, const CFunctions& f) {
  constexpr uint32_t times = 100;
  kilim_relaxed_attr attr{};
  attr.memory = f.memory;
  if (kilim_relaxed_config(pd, &attr) != 0) return {};
  std::byte* const memory = b.rig.memory.get();
  if (f.arena && kilim_relaxed_arena(pd, memory, batch * page) != 0) return {};
  uint64_t made = 0;
  uint64_t ended = 0;
  std::array<ibv_mr*, batch> regions{};
  for (uint32_t round = 0; round < times + 1; round++) {
    if (round == 1) made = ended = 0;  // the first one makes the keys
    uint64_t from = __rdtsc();
    for (uint32_t i = 0; i < batch; i++) {
      regions[i] = ibv_reg_mr_relaxed(pd, memory + i * page, page, static_cast<int>(access));
      if (regions[i] == nullptr) return {};
    }
    made += __rdtsc() - from;
    from = __rdtsc();
    for (ibv_mr* mr : regions) (void)ibv_dereg_mr_relaxed(mr);
    if (ibv_flush_relaxed_mr(pd) != 0) return {};
    ended += __rdtsc() - from;
  }
  const double each = ns_per_tick() / (double{times} * batch);
  return {static_cast<double>(made) * each, static_cast<double>(ended) * each};
}

void print(const Options& o, const char* what, double ns, double one) {
  if (o.json)
    cli::JsonObject().text("test", what).real("ns", ns, 3).real("ratio", ns / one, 3).print();
  else
    std::printf("%-40s %9.2f ns %8.2f\n", what, ns, ns / one);
}

// On a context whose polls run the device, as under the launcher.
int print_c_functions(const Bench& b, const Options& o, double one) {
  const mlx5::Context context{
      vhca::entry::hook_polls(ibv_open_device(b.rig.device.context->device))};
  if (context == nullptr) return 1;
  for (const CFunctions& f : c_functions) {
    const mlx5::Pd pd{ibv_alloc_pd(context.get())};
    const Cost cost = pd == nullptr ? Cost{} : relaxed_ns(b, pd.get(), f);
    if (cost.make == 0) {
      std::fprintf(stderr, "relaxed: %s: %s\n", f.name, kilim_compat_error());
      return 1;
    }
    print(o, f.name, cost.make, one);
    print(o, "  deregistered and flushed", cost.end, one);
  }
  return 0;
}

int run_relaxed(const Options& o) {
  Bench b;
  if (const std::string why = open(b, o); !why.empty()) {
    std::fprintf(stderr, "relaxed: %s\n", why.c_str());
    return 1;
  }
  std::array<double, count> least;
  least.fill(HUGE_VAL);
  constexpr uint32_t rounds = 200;  // of a sample
  for (uint32_t s = 0; s < o.samples; s++) {
    std::array<uint64_t, count> spent{};
    for (uint32_t i = 0; i < rounds; i++)
      if (!round(b, spent)) return 1;
    for (std::size_t i = 0; i < count; i++)
      least[i] = std::min(least[i],
                          static_cast<double>(spent[i]) * ns_per_tick() / (double{rounds} * batch));
  }
  for (std::size_t i = 0; i < count; i++) print(o, pieces[i].name, least[i], least[0]);
  print(o, "deregister, all of it", least[2] + least[3] + least[4], least[0]);
  print(o, "ibv_reg_mr", plain_verbs.make, least[0]);
  print(o, "ibv_dereg_mr", plain_verbs.end, least[0]);
  return print_c_functions(b, o, least[0]);
}

}  // namespace

const Command relaxed_test = {"relaxed", "regions registered by a work request", run_relaxed, false,
                              measure_verbs};

}  // namespace kilim::perf
