// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/port/steering.hh"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace kilim::inline v1::port {

Result<std::optional<device::Lro>> lro_of_all(std::span<const RxTarget> queues) noexcept {
  const auto takes = [](const RxTarget& q) noexcept { return q.lro.max_bytes != 0; };
  const auto taking = std::count_if(queues.begin(), queues.end(), takes);
  if (taking == 0) return std::optional<device::Lro>{};
  if (static_cast<std::size_t>(taking) != queues.size())
    return Error{EINVAL,
                 "all receive queues of a port take joined TCP segments (LRO), or none does"};
  device::Lro all = queues[0].lro;
  for (const RxTarget& q : queues)
    all = {.max_bytes = std::min(all.max_bytes, q.lro.max_bytes),
           .timeout_us = std::min(all.timeout_us, q.lro.timeout_us)};
  return std::optional(all);
}

Result<HashTarget> HashTarget::create(const Destinations& to, std::span<const uint16_t> table,
                                      const flow::Rss& rss) {
  HashTarget made(to, rss);
  if (to.queues.empty()) return made;
  std::vector<device::RwqHandle> queues;
  queues.reserve(table.size());
  for (const uint16_t q : table) queues.push_back(to.queues[q].queue);
  auto first = device::create_rwq_table(to.device, {queues.data(), 1});
  if (!first) return first.error();
  made.first_ = *std::move(first);
  if (table.size() == 1) return made;
  auto spread = device::create_rwq_table(to.device, queues);
  if (!spread) return spread.error();
  made.spread_ = *std::move(spread);
  return made;
}

// A hash of no fields needs a table of one entry (Linux drivers/infiniband/hw/mlx5/qp.c,
// create_rss_raw_qp_tir()).
Result<device::QpHandle> HashTarget::qp(flow::HashKind kind, bool inner) {
  if (!first_) return pair_;
  device::OwnedQp& qp = qps_[inner ? 1 : 0][static_cast<std::size_t>(kind)];
  if (qp) return qp->handle;
  const bool spreads = kind != flow::HashKind::none && spread_;
  const device::HashQpRequest request{.table = spreads ? spread_->handle : first_->handle,
                                      .kind = kind,
                                      .key = key_,
                                      .tunnels = tunnels_ || inner,
                                      .inner = inner,
                                      .lro = lro_,
                                      .sides = sides_};
  auto made = device::create_hash_qp(*device_, request, port_);
  if (!made) return made.error();
  qp = *std::move(made);
  return qp->handle;
}

Status RuleSet::add(const flow::Match& match, uint32_t types, uint16_t place,
                    const flow::Action& action) {
  const bool inner = types != 0 && action.rss.inner;
  for (const flow::Leaf& leaf : flow::expand(match, types, inner)) {
    auto qp = target_->qp(leaf.kind, inner);
    if (!qp) return qp.error();
    auto flow = device_->add_rule({.qp = *qp,
                                   .match = leaf.match,
                                   .priority = flow::device_priority(place, leaf.layer),
                                   .drop = action.fate == flow::Action::Fate::drop,
                                   .mark = action.mark,
                                   .count = action.count,
                                   .rewrite = action.rewrite});
    if (!flow) return flow.error();
    flows_.emplace_back(*device_, FlowInfo{*flow});
  }
  return Done{};
}

Status RuleSet::add_egress(const flow::Match& match, uint16_t place, const flow::Action& action) {
  auto flow = device_->add_rule({.match = match,
                                 .priority = flow::device_priority(place, flow::layer_of(match)),
                                 .drop = action.fate == flow::Action::Fate::drop,
                                 .count = action.count,
                                 .rewrite = action.rewrite,
                                 .egress = true,
                                 .prepend = action.prepend});
  if (!flow) return flow.error();
  flows_.emplace_back(*device_, FlowInfo{*flow});
  return Done{};
}

Result<flow::Count> RuleSet::query() const {
  flow::Count sum;
  for (const OwnedFlow& f : flows_) {
    auto count = device_->query_flow(f->handle);
    if (!count) return count.error();
    sum.packets += count->packets;
    sum.bytes += count->bytes;
  }
  return sum;
}

}  // namespace kilim::inline v1::port
