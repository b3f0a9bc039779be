// SPDX-License-Identifier: BSD-3-Clause
// What a port counts, of all queues and of each, and what it tells of itself.
#include "kilim/detail/port/stats.hh"

#include <algorithm>

#include "kilim/detail/port/ended_keys.hh"
#include "kilim/detail/port/port.hh"

namespace kilim::inline v1::port {

PortStats& PortStats::operator+=(const PortStats& o) noexcept {
  rx_packets += o.rx_packets;
  rx_bytes += o.rx_bytes;
  tx_packets += o.tx_packets;
  tx_bytes += o.tx_bytes;
  tx_completed += o.tx_completed;
  rx_joined += o.rx_joined;
  rx_errors += o.rx_errors;
  rx_too_long += o.rx_too_long;
  rx_discarded += o.rx_discarded;
  rx_missed += o.rx_missed;
  rx_discards += o.rx_discards;
  rx_damaged += o.rx_damaged;
  rx_undersize += o.rx_undersize;
  rx_oversize += o.rx_oversize;
  rx_no_rule += o.rx_no_rule;
  rx_cut += o.rx_cut;
  rx_returned += o.rx_returned;
  rx_no_buffer += o.rx_no_buffer;
  tx_errors += o.tx_errors;
  tx_lost += o.tx_lost;
  keys_bound += o.keys_bound;
  keys_ended += o.keys_ended;
  bind_errors += o.bind_errors;
  recoveries += o.recoveries;
  queues_down += o.queues_down;
  cq_overruns += o.cq_overruns;
  queue_events += o.queue_events;
  port_changes += o.port_changes;
  return *this;
}

RxQueueStats Port::rx_stats(uint32_t queue) const noexcept {
  if (queue >= rx_.size()) return {};  // start_for(): somebody else's queues
  const RxSlot& s = rx_[queue];
  if (s.queue == nullptr) return {};
  const burst::RxCounters& c = s.queue->counters;
  return {.packets = c.packets.read(),
          .bytes = c.bytes.read(),
          .errors = c.errors.read(),
          .too_long = c.too_long.read(),
          .discarded = s.discarded->read(),
          .no_buffer = c.no_buffer.read(),
          .compressed = c.compressed.read(),
          .joined = c.joined.read(),
          .down = s.queue->failed && !s.stopped,
          .stopped = static_cast<bool>(s.stopped)};
}

TxQueueStats Port::tx_stats(uint32_t queue) const noexcept {
  if (queue >= tx_.size()) return {};
  const TxSlot& s = tx_[queue];
  if (s.queue == nullptr) return {};
  const burst::TxCounters& c = s.queue->counters;
  return {.packets = c.packets.read(),
          .bytes = c.bytes.read(),
          .completed = c.completed.read(),
          .errors = c.errors.read(),
          .down = s.queue->failed || (s.gather != nullptr && s.gather->failed())};
}

namespace {

// Counts the frames that wait in a queue whose entries stand for none or several frames.
uint32_t depth_by_walking(const burst::RxQueue& q) noexcept {
  const uint32_t entries = q.cq.geometry().cqe_count;
  uint32_t frames = 0, at = 0;
  for (const prm::Cqe* e; at < entries && (e = q.cq.peek(at)) != nullptr;) {
    const bool error = queue::Cq::is_error(e->op_own);
    frames += error ? 1 : frames_of(q, *e);
    at += error ? 1 : queue::Cq::completions(*e);
  }
  return frames - q.block_done;
}

}  // namespace

// CQEs are written in order, so the first one that is missing is found by halving.
uint32_t Port::rx_depth(uint32_t queue) const noexcept {
  const RxSetup& setup = rx_[queue].setup;
  const burst::RxQueue& q = *rx_[queue].queue;
  if (setup.strides || setup.config.lro || setup.compression != device::Compression::none)
    return depth_by_walking(q);
  uint32_t there = 0, missing = q.rq.posted() + 1;  // of peek(): number `there` - 1 is written
  while (missing - there > 1) {
    const uint32_t middle = there + (missing - there) / 2;
    if (q.cq.peek(middle - 1) != nullptr)
      there = middle;
    else
      missing = middle;
  }
  return there;
}

PortStats Port::live() const noexcept {
  PortStats sum;
  for (uint32_t i = 0; i < rx_.size(); i++) {
    const RxQueueStats q = rx_stats(i);
    sum.rx_packets += q.packets;
    sum.rx_bytes += q.bytes;
    sum.rx_joined += q.joined;
    sum.rx_errors += q.errors;
    sum.rx_too_long += q.too_long;
    sum.rx_discarded += q.discarded;
    sum.rx_no_buffer += q.no_buffer;
    sum.queues_down += with_rwqs() && q.down ? 1 : 0;
  }
  for (uint32_t i = 0; i < tx_.size(); i++) {
    const TxQueueStats q = tx_stats(i);
    sum.tx_packets += q.packets;
    sum.tx_bytes += q.bytes;
    sum.tx_completed += q.completed;
    sum.tx_errors += q.errors;
    sum.queues_down += down(i) ? 1 : 0;
    if (tx_[i].gather == nullptr) continue;
    sum.keys_bound += tx_[i].gather->stats().gathered;
    sum.keys_ended += ended_keys(*tx_[i].gather, tx_[i].setup.keys);
    sum.bind_errors += tx_[i].gather->stats().errors;
  }
  return sum;
}

PortStats Port::losses() {
  const std::lock_guard lock{shape_};
  return losses_.read(*parts_.device, parts_.number);
}

// Frames that went back to a capture are not lost, though they lay in a queue that was stopped.
PortStats Port::counts() {
  PortStats sum = stats();
  sum += losses_.read(*parts_.device, parts_.number);
  sum.rx_discarded -= std::min(sum.rx_discarded, sum.rx_returned);
  return sum;
}

PortStats Port::all_stats() {
  const std::lock_guard lock{shape_};
  return counts();
}

PortStats Port::stats() const noexcept {
  PortStats sum = before_;
  sum += live();
  sum.recoveries = recoveries_.read();
  sum.cq_overruns = cq_overruns_.read();
  sum.queue_events = queue_events_.read();
  sum.port_changes = port_changes_.read();
  return sum;
}

// A thread that is neither a worker nor the control lcore reads here, so everything is a counter, a
// flag, or under the port's lock.
PortView Port::view() {
  const std::lock_guard lock{shape_};
  PortView v{.name = parts_.name,
             .device = parts_.device->name(),
             .number = parts_.number,
             .started = started_,
             .info = info_,
             .sizes = rx_.empty() ? parts_.defaults : sizes_,
             .stats = counts(),
             .filter = filter_,
             .rss = rss_};
  if (!started_) return v;
  for (uint32_t q = 0; q < rx_.size(); q++) v.rx.push_back(rx_stats(q));
  for (uint32_t q = 0; q < tx_.size(); q++) v.tx.push_back(tx_stats(q));
  for (const auto& [id, rules] : rules_) {
    RuleView& r = v.rules.emplace_back(RuleView{id, std::nullopt});
    if (auto count = rules.query()) r.count = *count;
  }
  std::sort(v.rules.begin(), v.rules.end(),
            [](const RuleView& a, const RuleView& b) { return a.id < b.id; });
  return v;
}

}  // namespace kilim::inline v1::port
