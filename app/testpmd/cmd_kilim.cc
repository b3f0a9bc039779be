// SPDX-License-Identifier: BSD-3-Clause
// Commands that testpmd has not: keys, memory regions, on-demand paging, buffers, errors.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "commands.hh"
#include "explain.hh"
#include "kilim/device.hh"
#include "kilim/inline_recv.hh"
#include "kilim/mkey.hh"
#include "kilim/region.hh"
#include "session.hh"

namespace kilim::testpmd {
namespace {

// Each of Kilim's ports with its number.
template <typename F>
void each_native(Session& s, F&& f) {
  for (uint32_t n = 0; n < s.ports(); n++)
    if (port::Port* p = s.port(n).native; p != nullptr) f(n, *p);
}

void show_keys(Session& s, const Line&) {
  const uint32_t keys = s.forwarder().options().keys;
  each_native(s, [keys](uint32_t n, port::Port& p) {
    const port::PortStats c = p.stats();
    std::printf("port %u (%s): keys-bound %" PRIu64 ", keys-ended %" PRIu64 ", bind-errors %" PRIu64
                "\n",
                n, p.device().name(), c.keys_bound, c.keys_ended, c.bind_errors);
    for (uint32_t q = 0; p.started() && q < p.sizes().txq; q++) {
      port::PacketGather* const g = p.packet_gather(q);
      if (g == nullptr) continue;
      const port::PacketGatherStats st = g->stats();
      std::printf("  TX queue %u: bound %" PRIu64 ", ended %" PRIu64 ", errors %" PRIu64 "%s\n", q,
                  st.gathered, port::ended_keys(*g, keys), st.errors, g->failed() ? ", down" : "");
    }
  });
}

void show_pools(Session& s, const Line&) {
  const Options& o = s.forwarder().options();
  each_native(s, [&o](uint32_t n, port::Port& p) {
    uint32_t queues = 0;
    for (uint32_t q = 0; p.started() && q < p.sizes().txq; q++)
      queues += p.packet_gather(q) != nullptr;
    std::printf("port %u (%s): %u transmit queue(s) with a pool of %u mkeys each\n", n,
                p.device().name(), queues, queues == 0 ? 0 : o.keys);
  });
}

void show_chooser(Session& s, const Line&) {
  Forwarder& f = s.forwarder();
  if (!f.engine().splits)
    std::printf("mode %s decides nothing; mode split does (set fwd split, start)\n",
                f.engine().name);
  else
    each_native(s, [&f](uint32_t n, port::Port&) {
      std::printf("port %u: %s\n", n, chooser::text_of(f.plan(n)).c_str());
    });
}

void show_regions(Session& s, const Line&) {
  each_native(s, [](uint32_t n, port::Port& p) {
    const mr::Region* r = p.region();
    std::printf("port %u (%s): ", n, p.device().name());
    if (r == nullptr)
      std::printf("no region\n");
    else
      std::printf("pinned, 0x%" PRIx64 " and %" PRIu64 " bytes on, lkey 0x%x, pages of %" PRIu64
                  " bytes, %" PRIu64 " entries, NUMA node %d\n",
                  r->address, r->length, r->lkey.value(), r->page_bytes, r->entries, r->node);
  });
}

void show_odp_caps(Session& s, const Line&) {
  each_native(s, [](uint32_t n, port::Port& p) {
    std::printf("port %u (%s): %s", n, p.device().name(),
                mr::odp_table(p.device().caps().odp).c_str());
  });
}

void show_odp_stats(Session& s, const Line&) {
  each_native(s, [](uint32_t n, port::Port& p) {
    std::printf("port %u (%s):\n", n, p.device().name());
    const device::OdpStatistics all = p.device().odp_statistics();
    for (std::size_t i = 0; i < device::odp_counters; i++) {
      if (all.values[i])
        std::printf("  %-34s %" PRIu64 "\n", device::odp_counter_names[i], *all.values[i]);
      else
        std::printf("  %-34s not reported\n", device::odp_counter_names[i]);
    }
  });
}

void show_inline(Session& s, const Line&) {
  each_native(s, [](uint32_t n, port::Port& p) {
    std::printf("port %u (%s): ", n, p.device().name());
    const auto packets = device::arbitrate(
        {.transport = device::Transport::raw_packet, .wish = device::InlineReceive::on});
    std::printf("packet queues: %s\n", packets ? packets->why : packets.error().what);
    const auto rc = device::arbitrate({.capable = p.device().caps().inline_receive});
    std::printf("  connections (RC): up to %u bytes in the CQE; %s\n", rc ? rc->received : 0,
                rc ? rc->why : rc.error().what);
  });
}

void show_buffers(Session& s, const Line&) {
  Forwarder& f = s.forwarder();
  for (pool::Pool* p : f.pools()) {
    std::printf("%s: %u buffers, %u free in the pool", p == f.pools()[0] ? "packets" : "headers",
                p->size(), p->available());
    uint32_t cached = 0;
    for (Lane& lane : f.lanes())
      for (pool::BufferCache* c : {lane.cache.get(), lane.headers.get()})
        if (c != nullptr && &c->pool() == p) cached += c->held();
    std::printf(", %u in caches of lcores, %u in queues%s\n", cached,
                p->size() - p->available() - cached,
                s.running() ? " and under way (a snapshot of what moves)" : "");
  }
}

void show_leaks(Session& s, const Line&) {
  if (!s.options().pool_debug) {
    std::printf("only pools that watch their buffers know who has them: --pool-debug\n");
    return;
  }
  if (s.busy("show buffers leaks")) return;
  uint32_t held = 0;
  for (pool::Pool* p : s.forwarder().pools()) held += p->report_held();
  std::printf("%u buffers are held; those of receive queues are at their place\n", held);
}

void explain_last(Session& s, const Line&) {
  bool any = false;
  each_native(s, [&any](uint32_t n, port::Port& p) {
    const std::string text = explain_errors(p);
    any = any || !text.empty();
    if (!text.empty()) std::printf("port %u (%s):\n%s", n, p.device().name(), text.c_str());
  });
  if (!any) std::printf("no completion with an error was seen\n");
  if (!s.refusal().empty()) std::printf("the last refusal: %s\n", s.refusal().c_str());
}

// Devices that are attached later read the environment (vhca/entry/instance.cc).
void set_lint(Session& s, const Line& line) {
  const char* mode = line.on(1) ? "warn" : "off";
  ::setenv("KILIM_VHCA_LINT", mode, 1);
  each_native(s, [&](uint32_t n, port::Port& p) {
    const char* device = p.device().name();
    if (const Status done = attach::set_lint(device, mode); !done)
      std::fprintf(stderr, "port %u (%s): %s\n", n, device, done.error().what);
    else
      std::printf("port %u (%s): lint is %s\n", n, device, line.word(1).c_str());
  });
}

constexpr CommandRow kilim_rows[] = {
    {"show umr keys", show_keys, "Mkeys bound and ended, by queue."},
    {"show umr pools", show_pools, "Pools of mkeys."},
    {"show umr chooser", show_chooser, "split: how packets are sent, and what the ways cost."},
    {"show mr", show_regions, "Memory regions of the ports."},
    {"show odp caps", show_odp_caps, "What devices can do with on-demand paging."},
    {"show odp stats", show_odp_stats, "Its statistics."},
    {"show inline-recv", show_inline, "Where receives are inline in the CQE, and why not."},
    {"show buffers", show_buffers, "Where packet buffers are."},
    {"show buffers leaks", show_leaks, "With --pool-debug: who holds which."},
    {"explain last", explain_last,
     "The last errors of each port, in words and bytes; the last refusal."},
    {"lint on|off", set_lint,
     "Virtual devices tell of WQEs that are wrong or a race, from now on."},
};

}  // namespace

const Section kilim_commands{"kilim", "Keys, memory, on-demand paging, buffers (not testpmd's)",
                             kilim_rows};

}  // namespace kilim::testpmd
