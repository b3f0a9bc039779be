// SPDX-License-Identifier: BSD-3-Clause
// Commands about ports.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <string>

#include <rte_cycles.h>
#include <unistd.h>

#include "kilim/detail/device/devices.hh"
#include "kilim/detail/pool/pools.hh"
#include "kilim/detail/port/registry.hh"
#include "kilim/detail/telemetry/answers.hh"
#include "kilim/detail/worker/worker.hh"
#include "kilim/version.h"

namespace kilim::inline v1::telemetry {
namespace {

constexpr uint32_t queues_a_page = 16;
constexpr uint32_t rules_a_page = 64;

struct Count {
  const char* name;
  uint64_t port::PortStats::*value;
};
constexpr Count counts[] = {
    {"rx_packets", &port::PortStats::rx_packets},
    {"rx_bytes", &port::PortStats::rx_bytes},
    {"tx_packets", &port::PortStats::tx_packets},
    {"tx_bytes", &port::PortStats::tx_bytes},
    {"tx_completed", &port::PortStats::tx_completed},
    {"rx_missed", &port::PortStats::rx_missed},
    {"rx_no_buffer", &port::PortStats::rx_no_buffer},
    {"rx_errors", &port::PortStats::rx_errors},
    {"rx_too_long", &port::PortStats::rx_too_long},
    {"rx_joined", &port::PortStats::rx_joined},
    {"rx_discarded", &port::PortStats::rx_discarded},
    {"tx_errors", &port::PortStats::tx_errors},
    {"rx_discards", &port::PortStats::rx_discards},
    {"rx_damaged", &port::PortStats::rx_damaged},
    {"rx_undersize", &port::PortStats::rx_undersize},
    {"rx_oversize", &port::PortStats::rx_oversize},
    {"rx_no_rule", &port::PortStats::rx_no_rule},
    {"rx_cut", &port::PortStats::rx_cut},
    {"tx_lost", &port::PortStats::tx_lost},
    {"keys_bound", &port::PortStats::keys_bound},
    {"keys_ended", &port::PortStats::keys_ended},
    {"bind_errors", &port::PortStats::bind_errors},
    {"recoveries", &port::PortStats::recoveries},
    {"queues_down", &port::PortStats::queues_down},
    {"cq_overruns", &port::PortStats::cq_overruns},
    {"queue_events", &port::PortStats::queue_events},
    {"port_changes", &port::PortStats::port_changes},
};

void add_counts(const Dict& out, const port::PortStats& s) {
  for (const Count& c : counts) out.number(c.name, s.*c.value);
}

// Finds the port that a word names, by name or by number. Without one the answer lists the ports.
std::optional<port::PortView> find_port(std::string_view word, const Dict& out) {
  std::optional<port::PortView> found;
  const std::optional<uint32_t> number = number_in(word);
  std::string there;
  uint32_t at = 0;
  port::walk_ports([&](port::Port& p) {
    if (!found && (p.name() == word || number == at)) found = p.view();
    there += (at++ == 0 ? "" : ", ") + p.name();
  });
  if (found) return found;
  const std::string what =
      word.empty() ? "a port is to be named" : "there is no port " + std::string(word);
  out.refuse(what + "; ports: " + (at == 0 ? "none" : there));
  return std::nullopt;
}

// The first queue or rule of a page.
std::optional<uint32_t> find_first(Words& words, const Dict& out) {
  if (words.empty()) return 0;
  const std::string_view word = words.next();
  const std::optional<uint32_t> n = number_in(word);
  if (!n) out.refuse("where to begin is a number, and not " + std::string(word));
  return n;
}

// Calls see(kind, number) for the queues of a page, receive queues first; where there are more the
// answer says where to go on.
template <typename See>
void walk_queues(const port::PortView& v, uint32_t first, const Dict& out, See see) {
  const auto most = static_cast<uint32_t>(std::max(v.rx.size(), v.tx.size()));
  const uint32_t end = std::min(most, first > most ? most : first + queues_a_page);
  for (uint32_t q = first; q < end && q < v.rx.size(); q++) see("rx_q", q);
  for (uint32_t q = first; q < end && q < v.tx.size(); q++) see("tx_q", q);
  if (end < most) out.number("next_queue", end);
}

constexpr bool is_rx(const char* kind) {
  return kind[0] == 'r';
}

void add_rx(const Dict& out, const std::string& prefix, const port::RxQueueStats& q) {
  out.number(prefix + "packets", q.packets);
  out.number(prefix + "bytes", q.bytes);
  out.number(prefix + "errors", q.errors);
  out.number(prefix + "too_long", q.too_long);
  out.number(prefix + "discarded", q.discarded);
  out.number(prefix + "no_buffer", q.no_buffer);
  out.number(prefix + "compressed", q.compressed);
  out.number(prefix + "joined", q.joined);
}

void add_tx(const Dict& out, const std::string& prefix, const port::TxQueueStats& q) {
  out.number(prefix + "packets", q.packets);
  out.number(prefix + "bytes", q.bytes);
  out.number(prefix + "completed", q.completed);
  out.number(prefix + "errors", q.errors);
}

std::string text_of(const device::MacAddress& m) {
  std::array<char, 18> text{};
  std::snprintf(text.data(), text.size(), "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3],
                m[4], m[5]);
  return text.data();
}

void describe(const port::PortView& v, const Dict& out) {
  out.text("name", v.name);
  out.text("device", v.device);
  out.number("device_port", v.number);
  out.flag("started", v.started);
  out.text("mac", text_of(v.info.mac));
  out.number("mtu", v.info.frame_mtu);
  out.number("speed_mbps", v.info.speed_mbps);
  out.number("rxq", v.sizes.rxq);
  out.number("txq", v.sizes.txq);
  out.number("rxd", v.sizes.rxd);
  out.number("txd", v.sizes.txd);
}

}  // namespace

void answer_list(Words, const Dict& out) {
  std::vector<std::string> ports, devices, pools, lcores;
  port::walk_ports([&](port::Port& p) { ports.push_back(p.name()); });
  device::walk_devices([&](device::Device& d) { devices.emplace_back(d.name()); });
  pool::walk_pools([&](const pool::PoolView& p) { pools.emplace_back(p.name); });
  worker::walk_workers(
      [&](const worker::Worker& w) { lcores.push_back(std::to_string(w.lcore())); });
  out.texts("ports", ports);
  out.texts("devices", devices);
  out.texts("pools", pools);
  out.texts("workers", lcores);
}

void answer_info(Words words, const Dict& out) {
  if (!words.empty()) {
    if (const auto v = find_port(words.next(), out)) describe(*v, out);
    return;
  }
  out.text("version", kilim_version());
  out.text("program", program_invocation_short_name);
  out.number("pid", static_cast<uint64_t>(::getpid()));
  out.number("ports", port::port_count());
  out.number("tsc_hz", rte_get_tsc_hz());
}

void answer_stats(Words words, const Dict& out) {
  if (!words.empty()) {
    if (const auto v = find_port(words.next(), out)) add_counts(out, v->stats);
    return;
  }
  port::walk_ports([&out](port::Port& p) { add_counts(out.child(p.name()), p.view().stats); });
}

void answer_xstats(Words words, const Dict& out) {
  const auto v = find_port(words.next(), out);
  if (!v) return;
  const auto first = find_first(words, out);
  if (!first) return;
  if (*first == 0) add_counts(out, v->stats);
  walk_queues(*v, *first, out, [&](const char* kind, uint32_t q) {
    const std::string prefix = kind + std::to_string(q) + "_";
    if (is_rx(kind))
      add_rx(out, prefix, v->rx[q]);
    else
      add_tx(out, prefix, v->tx[q]);
  });
}

void answer_queues(Words words, const Dict& out) {
  const auto v = find_port(words.next(), out);
  if (!v) return;
  const auto first = find_first(words, out);
  if (!first) return;
  walk_queues(*v, *first, out, [&](const char* kind, uint32_t q) {
    const Dict one = out.child(kind + std::to_string(q));
    if (is_rx(kind)) {
      add_rx(one, "", v->rx[q]);
      one.flag("down", v->rx[q].down);
      one.flag("stopped", v->rx[q].stopped);
    } else {
      add_tx(one, "", v->tx[q]);
      one.flag("down", v->tx[q].down);
    }
  });
}

void answer_flows(Words words, const Dict& out) {
  const auto v = find_port(words.next(), out);
  if (!v) return;
  const auto first = find_first(words, out);
  if (!first) return;
  out.flag("promiscuous", v->filter.promiscuous);
  out.flag("all_multicast", v->filter.all_multicast);
  out.number("filter_macs", v->filter.macs.size());
  out.number("filter_vlans", v->filter.vlans.size());
  out.number("hash_types", v->rss.types);
  out.number("hash_table", flow::table_of(v->rss, v->sizes.rxq).size());
  out.number("rules", v->rules.size());
  const std::size_t from = std::min<std::size_t>(*first, v->rules.size());
  const std::size_t end = std::min(from + rules_a_page, v->rules.size());
  for (std::size_t i = from; i < end; i++) {
    const port::RuleView& r = v->rules[i];
    const Dict one = out.child("rule_" + std::to_string(r.id));
    one.flag("counts", r.count.has_value());
    if (!r.count) continue;
    one.number("packets", r.count->packets);
    one.number("bytes", r.count->bytes);
  }
  if (end < v->rules.size()) out.number("next_rule", end);
}

}  // namespace kilim::inline v1::telemetry
