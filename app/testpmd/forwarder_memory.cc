// SPDX-License-Identifier: BSD-3-Clause
// The forwarder's buffers: how many a packet takes, how many all rings need, what is told of their
// misuse, and mode split's plans.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include "forwarder.hh"

namespace kilim::testpmd {

namespace {

std::atomic<uint64_t> told_pool_faults{0};

void say_pool_fault(void*, const pool::PoolFault& fault) {
  told_pool_faults.fetch_add(fault.buffers, std::memory_order_relaxed);
  std::fprintf(stderr, "kilim-testpmd: %s\n", fault.sentence);
}

}  // namespace

Exit failed(const std::string& about, const Error& e) {
  return {1, about + ": " + e.what + " (" + std::strerror(e.code) + ")"};
}

uint32_t Forwarder::stride() const noexcept {
  return pool::stride_for(std::max(options_.mbuf_size, options_.tx_length));
}

uint64_t Forwarder::pool_faults() noexcept {
  return told_pool_faults.load(std::memory_order_relaxed);
}

// Without those of headers.
uint32_t Forwarder::buffers_a_packet() const noexcept {
  const uint32_t header = engine_->splits ? options_.split.header_bytes : 0;
  if (options_.max_packet <= header) return 1;
  return (options_.max_packet - header + stride() - 1) / stride();
}

bool Forwarder::binds_keys(std::size_t port) const noexcept {
  return engine_->gathered || (engine_->splits && plans_[port].uses(chooser::Way::inline_key));
}

// Measured while no queue works.
std::optional<Exit> Forwarder::make_plans() {
  if (engine_->gathered && buffers_a_packet() > 1)
    return Exit{1, "--max-pkt-len: mode umr takes packets of one buffer; raise --mbuf-size"};
  plans_.resize(ports_.size());
  if (!engine_->splits) return std::nullopt;
  const uint32_t longest = options_.split.header_bytes + buffers_a_packet() * stride();
  for (std::size_t i = 0; i < ports_.size(); i++) {
    auto plan = plan_split(ports_[i]->device(), options_.split, stride(), longest);
    if (!plan) return failed(ports_[i]->name() + ": the chooser's measurement", plan.error());
    plans_[i] = *plan;
    if (plans_[i].uses(chooser::Way::none))
      return Exit{1, "--split-way: no such way sends all packets of " + ports_[i]->name() +
                         "; shorten --max-pkt-len or take in-place"};
  }
  return std::nullopt;
}

// Enough for every ring to be full, every cache to be full and every lane to hold a burst. A
// transmit ring holds at most four buffers a place.
std::optional<Exit> Forwarder::make_memory() {
  constexpr uint32_t a_lane = pool::BufferCache::capacity + max_burst;
  const auto lanes = static_cast<uint32_t>(lcores_.size());
  const uint32_t buffers = buffers_a_packet();
  uint32_t need = lanes * a_lane;
  uint32_t headers = 0;
  for (std::size_t i = 0; i < ports_.size(); i++) {
    const port::QueueSizes s = sizes_of(*ports_[i]);
    need += s.rxq * s.rxd * buffers + s.txq * s.txd * std::min(buffers, 4u);
    if (engine_->splits) headers += s.rxq * s.rxd + s.txq * s.txd;
    if (binds_keys(i)) headers += s.txq * options_.keys;
    if (binds_keys(i) && engine_->splits) need += s.txq * options_.keys * buffers;
  }
  if (headers != 0) headers += lanes * a_lane;
  if (options_.total_mbufs != 0) need = options_.total_mbufs;
  pool::ArenaConfig config;
  config.buffers = need + headers;
  config.stride = stride();
  config.numa_node = ports_[0]->device().numa_node();
  auto memory = pool::ArenaMemory::create(config);
  if (!memory) {
    const uint64_t mib = (uint64_t{config.buffers} * config.stride >> 20) + 1;
    return failed("packet buffers, " + std::to_string(mib) + " MiB", memory.error());
  }
  memory_.emplace(*std::move(memory));
  const pool::PoolDebug debug{.on = options_.pool_debug, .report = say_pool_fault};
  auto pool =
      pool::Pool::create(memory_->arena(), {.name = "testpmd", .count = need, .debug = debug});
  if (!pool) return failed("packet pool", pool.error());
  pool_.emplace(*std::move(pool));
  if (headers == 0) return std::nullopt;
  auto header_pool = pool::Pool::create(
      memory_->arena(),
      {.name = "testpmd_headers", .first = need, .count = headers, .debug = debug});
  if (!header_pool) return failed("header pool", header_pool.error());
  header_pool_.emplace(*std::move(header_pool));
  return std::nullopt;
}

}  // namespace kilim::testpmd
