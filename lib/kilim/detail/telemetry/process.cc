// SPDX-License-Identifier: BSD-3-Clause
// Commands about what a process has besides ports: workers, pools of buffers and of mkeys, binders.
#include <array>
#include <string>

#include "kilim/detail/mkey/mkey_binder.hh"
#include "kilim/detail/mkey/mkey_lists.hh"
#include "kilim/detail/mkey/mkey_pool.hh"
#include "kilim/detail/pool/pools.hh"
#include "kilim/detail/telemetry/answers.hh"
#include "kilim/detail/worker/worker.hh"

namespace kilim::inline v1::telemetry {
namespace {

constexpr std::size_t max_single = 64;  // pools and binders told one by one

const char* name_of(worker::Idle idle) {
  constexpr std::array names{"spin", "pause", "yield", "sleep"};
  return names[static_cast<std::size_t>(idle)];
}

void describe(const worker::Worker& w, const Dict& out) {
  const worker::WorkerStats s = w.stats();
  out.text("idle", name_of(w.idle()));
  out.number("rounds", s.rounds);
  out.number("busy_rounds", s.busy_rounds);
  out.number("busy_cycles", s.busy_cycles);
  out.number("messages", s.messages);
  out.number("ticks", s.ticks);
  out.number("sleeps", s.sleeps);
  out.number("woken_by_poller", s.by_poller);
  out.number("woken_by_call", s.by_wake);
  out.number("woken_by_time", s.by_time);
  out.number("naps", s.naps);
}

struct Bound {
  uint64_t bound = 0, invalidated = 0, poisoned = 0, swaps = 0, parked = 0;

  void add(const mkey::MkeyBinderCounters& c) {
    bound += c.bound.read();
    invalidated += c.invalidated.read();
    poisoned += c.poisoned.read();
    swaps += c.swaps.read();
    parked += c.parked.read();
  }
  void report(const Dict& out) const {
    out.number("bound", bound);
    out.number("invalidated", invalidated);
    out.number("poisoned", poisoned);
    out.number("swaps", swaps);
    out.number("parked", parked);
  }
};

}  // namespace

void answer_workers(Words words, const Dict& out) {
  const bool all = words.empty();
  const std::string_view word = words.next();
  const auto lcore = number_in(word);
  std::string there;
  bool found = all;
  worker::walk_workers([&](const worker::Worker& w) {
    there += (there.empty() ? "" : ", ") + std::to_string(w.lcore());
    if (all) {
      describe(w, out.child("lcore_" + std::to_string(w.lcore())));
    } else if (!found && lcore == w.lcore()) {
      found = true;
      describe(w, out);
    }
  });
  if (found) return;
  out.refuse("no worker runs on lcore " + std::string(word) +
             "; lcores: " + (there.empty() ? "none" : there));
}

void answer_pools(Words words, const Dict& out) {
  const bool all = words.empty();
  const std::string_view word = words.next();
  std::string there;
  bool found = all;
  pool::walk_pools([&](const pool::PoolView& p) {
    there += (there.empty() ? "" : ", ") + std::string(p.name);
    if (!all && (found || (p.name != word && key_of(p.name) != word))) return;
    found = true;
    const Dict one = all ? out.child(p.name) : out;
    one.number("size", p.size);
    one.maybe("available", p.available);
  });
  if (found) return;
  out.refuse("there is no pool " + std::string(word) +
             "; pools: " + (there.empty() ? "none" : there));
}

void answer_umr(Words, const Dict& out) {
  Bound sum;
  std::size_t n = 0;
  std::vector<Bound> each;
  mkey::walk_binders([&](const mkey::MkeyBinder& b) {
    Bound one;
    one.add(b.counters());
    sum.add(b.counters());
    if (n++ < max_single) each.push_back(one);
  });
  out.number("binders", n);
  sum.report(out);
  for (std::size_t i = 0; i < each.size(); i++)
    each[i].report(out.child("binder_" + std::to_string(i)));
}

void answer_mkeys(Words, const Dict& out) {
  uint64_t size = 0, available = 0;
  std::size_t n = 0;
  mkey::walk_mkey_pools([&](const mkey::MkeyPool& p) {
    size += p.size();
    available += p.available();
    if (n++ >= max_single) return;
    const Dict one = out.child("pool_" + std::to_string(n - 1));
    one.number("size", p.size());
    one.number("limit", p.limit());
    one.number("available", p.available());
  });
  out.number("pools", n);
  out.number("size", size);
  out.number("available", available);
}

}  // namespace kilim::inline v1::telemetry
