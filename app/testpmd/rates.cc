// SPDX-License-Identifier: BSD-3-Clause
#include "rates.hh"

#include <algorithm>

namespace kilim::testpmd {
namespace {

constexpr uint64_t shortest = 200'000'000;  // nanoseconds of an interval

// Calls f(meter, packets, bytes) for each meter of a port.
template <typename F>
void each_meter(const PortRef& p, PortRates& r, F&& f) {
  const port::PortStats c = counts_of(p);
  f(r.rx, c.rx_packets, c.rx_bytes);
  f(r.tx, c.tx_packets, c.tx_bytes);
  if (p.native == nullptr || !p.native->started()) return;
  for (uint32_t q = 0; q < r.rx_queues.size(); q++) {
    const port::RxQueueStats s = p.native->rx_stats(q);
    f(r.rx_queues[q], s.packets, s.bytes);
  }
  for (uint32_t q = 0; q < r.tx_queues.size(); q++) {
    const port::TxQueueStats s = p.native->tx_stats(q);
    f(r.tx_queues[q], s.packets, s.bytes);
  }
}

}  // namespace

void Meter::begin(uint64_t p, uint64_t b) noexcept {
  *this = {};
  packets = first_packets = p;
  bytes = first_bytes = b;
}

// A queue that was brought back counts from 0 again.
void Meter::sample(uint64_t p, uint64_t b, double interval, double since) noexcept {
  if (p < packets || b < bytes) {
    begin(p, b);
    return;
  }
  now = {static_cast<double>(p - packets) / interval,
         8 * static_cast<double>(b - bytes) / interval};
  most = {std::max(most.pps, now.pps), std::max(most.bps, now.bps)};
  mean = {static_cast<double>(p - first_packets) / since,
          8 * static_cast<double>(b - first_bytes) / since};
  packets = p;
  bytes = b;
}

void Rates::begin(Forwarder& f, uint64_t now_ns) {
  begun_ = last_ = now_ns;
  samples_ = 0;
  past_.clear();
  ports_.assign(f.ports().size(), {});
  for (std::size_t i = 0; i < ports_.size(); i++) {
    const port::QueueSizes z = f.sizes_of(static_cast<uint32_t>(i));
    if (f.ports()[i].native != nullptr) {
      ports_[i].rx_queues.resize(z.rxq);
      ports_[i].tx_queues.resize(z.txq);
    }
    each_meter(f.ports()[i], ports_[i],
               [](Meter& m, uint64_t packets, uint64_t bytes) { m.begin(packets, bytes); });
  }
}

void Rates::sample(Forwarder& f, uint64_t now_ns) {
  if (now_ns - last_ < shortest && samples_ != 0) return;
  if (now_ns == last_) return;
  const double interval = static_cast<double>(now_ns - last_) / 1e9;
  const double since = static_cast<double>(now_ns - begun_) / 1e9;
  double all = 0;
  for (std::size_t i = 0; i < ports_.size(); i++) {
    each_meter(f.ports()[i], ports_[i], [=](Meter& m, uint64_t packets, uint64_t bytes) {
      m.sample(packets, bytes, interval, since);
    });
    all += f.engine().transmits ? ports_[i].tx.now.pps : ports_[i].rx.now.pps;
  }
  if (past_.size() == history) past_.erase(past_.begin());
  past_.push_back(all);
  last_ = now_ns;
  samples_++;
}

}  // namespace kilim::testpmd
