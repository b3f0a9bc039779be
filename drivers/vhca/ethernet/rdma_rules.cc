// SPDX-License-Identifier: BSD-3-Clause
// Rules of RDMA's flow tables, and the way through tables beyond. A frame that meets no rule, or a
// table without an entry, goes on: Linux drivers/net/ethernet/mellanox/mlx5/core/fs_core.c,
// init_rdma_rx_root_ns() makes the tables such that what they miss goes to the next domain.
// Adapter's lock held.
#include "vhca/ethernet/rdma_rules.hh"

#include <algorithm>

#include "vhca/ethernet/soft_steering.hh"

namespace kilim::vhca::ethernet {

namespace {

constexpr std::size_t most_tables = 256;  // that one frame may meet: tables can lead in circles

void count(const SoftSteering& s, const FlowEntry& entry, const RdmaRules::Packets& p) noexcept {
  for (const uint32_t number : entry.counters) {
    FlowCount* counter = s.counters->at(number);
    if (counter == nullptr) continue;
    counter->packets += p.count;
    counter->bytes += p.bytes;
  }
}

// Whether any way through the tables lets the frames go on.
bool goes_on(const SoftSteering& s, const FlowTable& first, const RdmaRules::Packets& p,
             bool counts) noexcept {
  std::array<const FlowTable*, most_tables> tables;
  std::size_t known = 0;
  tables[known++] = &first;
  bool passes = false;
  for (std::size_t i = 0; i < known; i++) {
    const FlowTable& t = *tables[i];
    if (t.has_entry && counts) count(s, t.entry, p);
    passes = passes || !t.has_entry || (!t.entry.drops && t.entry.to.empty());
    if (!t.has_entry) continue;
    for (const FlowEntry::To& to : t.entry.to) {
      const FlowTable* next = to.table ? s.tables.at(to.number) : nullptr;
      if (next != nullptr && known < most_tables) tables[known++] = next;
    }
  }
  return passes;
}

}  // namespace

Result<uint32_t> RdmaRules::add(TableType type, FlowTable* to, const FlowSpec& asked) {
  Side& s = side(type);
  FlowSpec spec = asked;
  auto counting = std::make_unique<Counting>();
  counting->told = asked.count;
  if (asked.count != nullptr) spec.count = &counting->hit;
  s.counting.reserve(s.counting.size() + 1);
  Result<uint32_t> rule = s.rules.add(to != nullptr ? &to->end : nullptr, spec);
  if (!rule) return rule;
  counting->rule = *rule;
  if (asked.count != nullptr) s.counting.push_back(std::move(counting));
  return *rule | (type == TableType::rdma_tx ? tx_rule : rx_rule);
}

int RdmaRules::remove(uint32_t rule) {
  Side& s = side((rule & tx_rule) != 0 ? TableType::rdma_tx : TableType::rdma_rx);
  const uint32_t number = rule & ~(rx_rule | tx_rule);
  const int rc = s.rules.remove(number);
  if (rc == 0) std::erase_if(s.counting, [number](const auto& c) { return c->rule == number; });
  return rc;
}

bool RdmaRules::uses(const wq::Qp& end) const noexcept {
  return std::any_of(sides_.begin(), sides_.end(),
                     [&end](const Side& s) { return s.rules.uses(&end); });
}

bool RdmaRules::ask(const SoftSteering& soft, TableType type, const Packets& p,
                    bool counts) noexcept {
  Side& s = side(type);
  if (s.rules.count() == 0) return true;
  const std::span<const FlowTarget> to = s.rules.match(p.first);
  if (counts && s.rules.counted()) {
    s.rules.count_hits(p.first.size());
    for (const std::unique_ptr<Counting>& c : s.counting) {
      if (c->hit.packets == 0) continue;
      c->told->packets += p.count;
      c->told->bytes += p.bytes;
      c->hit = {};
    }
  }
  if (s.rules.dropped()) return false;
  bool passes = to.empty();
  for (const FlowTarget& t : to) passes = goes_on(soft, *t.qp->table, p, counts) || passes;
  return passes;
}

bool RdmaRules::lets_through(const SoftSteering& soft, TableType type, const Packets& p) noexcept {
  return ask(soft, type, p, true);
}

bool RdmaRules::would_let_through(const SoftSteering& soft, TableType type,
                                  const Packets& p) noexcept {
  return ask(soft, type, p, false);
}

}  // namespace kilim::vhca::ethernet
