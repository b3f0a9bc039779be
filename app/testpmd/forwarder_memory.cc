// SPDX-License-Identifier: BSD-3-Clause
// The forwarder's buffers: how many a packet takes, how many all rings need, what is told of their
// misuse, and mode split's plans.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include <rte_errno.h>
#include <rte_mbuf.h>

#include "csum_bits.hh"
#include "forwarder.hh"
#include "spread.hh"

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

const pool::Arena& Forwarder::arena() const noexcept {
  return mbufs_ ? mbufs_->arena() : memory_->arena();
}

pool::Pool& Forwarder::pool() noexcept {
  return mbufs_ ? mbufs_->pool() : *pool_;
}

std::vector<pool::Pool*> Forwarder::pools() noexcept {
  std::vector<pool::Pool*> all{&pool()};
  if (header_pool_) all.push_back(&*header_pool_);
  return all;
}

void Forwarder::FreeMempool::operator()(rte_mempool* m) const noexcept {
  rte_mempool_free(m);
}

// What the device finds out about packets, or is asked to do to them, has a place beside each.
// At the prompt rules may mark and packets be shown at any time; DPDK's driver always tells both.
bool Forwarder::reads_rules() const noexcept {
  return options_.interactive && !has_ethdevs();
}

bool Forwarder::side_records() const noexcept {
  if (has_ethdevs()) return false;
  if (reads_rules()) return true;
  if (options_.rx_cksum || options_.rx_timestamp || options_.latency || options_.lro) return true;
  if (hashes_inside(rss_asked(options_))) return true;
  for (uint32_t p = 0; p < ports_.size(); p++)
    if (tx_words(p).any() || strips_vlan(options_, p)) return true;
  return false;
}

// Joined segments leave as they came.
bool Forwarder::divides_joined(std::size_t port) const noexcept {
  const PortRef& p = ports_[port];
  return options_.lro && p.native != nullptr && p.native->device().caps().tx.max_tso != 0;
}

port::TxOffloads Forwarder::tx_words(std::size_t port) const noexcept {
  if (port >= options_.modes.mss.size() || has_ethdevs()) return {};
  return {.checksums = wqe_checksums(options_.modes.csum_by_device[port]),
          .vlan = options_.modes.tag[port] != 0,
          .tso = options_.modes.mss[port] != 0 || divides_joined(port)};
}

uint32_t Forwarder::pieces_a_packet() const noexcept {
  const auto own = static_cast<uint32_t>(options_.tx_segments.size());
  return std::max(buffers_a_packet(), engine_->receives ? 1 : own) + (engine_->splits ? 1 : 0);
}

// Without those of headers.
uint32_t Forwarder::buffers_a_packet() const noexcept {
  const uint32_t header = engine_->splits ? options_.split.header_bytes : 0;
  const uint32_t longest =
      options_.lro ? std::max(options_.max_packet, options_.max_lro) : options_.max_packet;
  if (longest <= header) return 1;
  return (longest - header + stride() - 1) / stride();
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
    auto plan = plan_split(ports_[i].native->device(), options_.split, stride(), longest);
    if (!plan) return failed(name_of(ports_[i]) + ": the chooser's measurement", plan.error());
    plans_[i] = *plan;
    if (plans_[i].uses(chooser::Way::none))
      return Exit{1, "--split-way: no such way sends all packets of " + name_of(ports_[i]) +
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
    const port::QueueSizes s = sizes_of(static_cast<uint32_t>(i));
    need += s.rxq * s.rxd * buffers + s.txq * s.txd * std::min(buffers, 4u);
    if (engine_->splits) headers += s.rxq * s.rxd + s.txq * s.txd;
    if (binds_keys(i)) headers += s.txq * options_.keys;
    if (binds_keys(i) && engine_->splits) need += s.txq * options_.keys * buffers;
  }
  if (headers != 0) headers += lanes * a_lane;
  if (options_.total_mbufs != 0) need = options_.total_mbufs;
  return has_ethdevs() ? make_mbuf_pool(need) : make_pools(need, headers);
}

std::optional<Exit> Forwarder::make_pools(uint32_t need, uint32_t headers) {
  pool::ArenaConfig config;
  config.buffers = need + headers;
  config.stride = stride();
  config.side_records = side_records();
  config.holders = options_.strides;
  if (options_.strides) config.side_piece = 1u << packet_strides.log_bytes;
  config.numa_node = numa_node_of(ports_[0]);
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

// Drivers that are told no depth have rings of up to 4,096 places.
std::optional<Exit> Forwarder::make_mbuf_pool(uint32_t need) {
  constexpr uint32_t cache = 256;
  constexpr uint32_t driver_depth = 4096;
  if (options_.total_mbufs == 0)
    for (uint32_t p = 0; p < ports_.size(); p++)
      if (ports_[p].native == nullptr) need += driver_depth * buffers_a_packet();
  const uint32_t room = RTE_PKTMBUF_HEADROOM + std::max(options_.mbuf_size, options_.tx_length);
  mempool_.reset(rte_pktmbuf_pool_create("testpmd_mbufs", need, cache, 0,
                                         static_cast<uint16_t>(room), numa_node_of(ports_[0])));
  const uint64_t mib = (uint64_t{need} * room >> 20) + 1;
  if (!mempool_)
    return Exit{1, "packet buffers, " + std::to_string(mib) +
                       " MiB of mbufs: " + rte_strerror(rte_errno) + " (EAL's -m gives more)"};
  auto mbufs = pool::MbufPool::over(*mempool_);
  if (!mbufs) return failed("mbufs as packet buffers", mbufs.error());
  mbufs_.emplace(*std::move(mbufs));
  return std::nullopt;
}

}  // namespace kilim::testpmd
