// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/port/port.hh"

#include <cerrno>

#include "kilim/mr/runs.hh"

namespace kilim::port {

PortStats& PortStats::operator+=(const PortStats& o) noexcept {
  rx_packets += o.rx_packets;
  rx_bytes += o.rx_bytes;
  tx_packets += o.tx_packets;
  tx_bytes += o.tx_bytes;
  tx_completed += o.tx_completed;
  rx_errors += o.rx_errors;
  rx_too_long += o.rx_too_long;
  rx_missed += o.rx_missed;
  rx_no_buffer += o.rx_no_buffer;
  tx_errors += o.tx_errors;
  keys_bound += o.keys_bound;
  keys_ended += o.keys_ended;
  bind_errors += o.bind_errors;
  recoveries += o.recoveries;
  queues_down += o.queues_down;
  return *this;
}

Result<std::unique_ptr<Port>> Port::create(PortParts parts) {
  std::unique_ptr<Port> p(new Port(std::move(parts)));
  auto info = p->device().port(p->parts_.number);
  if (!info) return info.error();
  if (!info->ethernet) return Error{EOPNOTSUPP, "the device's port is not an Ethernet port"};
  if (!p->device().caps().raw_packet)
    return Error{EOPNOTSUPP, "the device has no raw packet queues (CAP_NET_RAW may be missing)"};
  p->info_ = *info;
  if (Status s = check_sizes(p->parts_.defaults); !s) return s.error();
  (void)p->missed();  // others' frames, before the port was created
  return p;
}

Port::~Port() {
  stop();
}

Status Port::configure(const QueueSizes& sizes, const pool::ArenaMemory& arena) {
  if (started_) return Error{EBUSY, "a started port is not configured: stop it first"};
  if (Status s = check_sizes(sizes); !s) return s;
  region_.reset();
  auto regions =
      mr::register_runs(device().registrar(), arena.arena().memory(), mr::Access::local_write);
  if (!regions) return regions.error();
  if (regions->size() != 1)
    return Error{EINVAL, "the arena needs pages of one size: it has one key"};
  region_.emplace(std::move(regions->front()));
  arena_ = arena.arena();
  sizes_ = sizes;
  rx_.clear();
  tx_.clear();
  rx_.resize(sizes.rxq);
  tx_.resize(sizes.txq);
  return Done{};
}

void Port::unconfigure() noexcept {
  stop();
  rx_.clear();
  tx_.clear();
  region_.reset();
}

Status Port::set_rx(uint32_t queue, const RxSetup& setup) {
  if (started_ || queue >= rx_.size()) return Error{EINVAL, "no such receive queue to set up"};
  if (setup.cache == nullptr) return Error{EINVAL, "a receive queue needs its worker's cache"};
  if (setup.config.side && !arena_.has_side())
    return Error{EINVAL, "side records were not asked of the arena"};
  if (uint64_t{setup.head_lines} * cacheline_bytes >= arena_.stride())
    return Error{EINVAL, "the lines left free before the data leave no room for it"};
  rx_[queue].setup = setup;
  return Done{};
}

Status Port::set_tx(uint32_t queue, const TxSetup& setup) {
  if (started_ || queue >= tx_.size()) return Error{EINVAL, "no such transmit queue to set up"};
  if (setup.cache == nullptr) return Error{EINVAL, "a transmit queue needs its worker's cache"};
  if (setup.config.gathered != (setup.keys != 0))
    return Error{EINVAL, "a gathered transmit queue needs keys, and another has none"};
  tx_[queue].setup = setup;
  return Done{};
}

Status Port::start() {
  if (started_) return Error{EBUSY, "the port is started already"};
  if (!region_) return Error{EINVAL, "the port is not configured"};
  for (const RxSlot& s : rx_)
    if (s.setup.cache == nullptr) return Error{EINVAL, "a receive queue is not set up"};
  for (const TxSlot& s : tx_)
    if (s.setup.cache == nullptr) return Error{EINVAL, "a transmit queue is not set up"};
  if (Status s = make_queues(); !s) {
    drop_queues();
    return s;
  }
  started_ = true;
  return Done{};
}

// Each transmit queue is a raw packet queue pair; the first one has the receive queue too.
Status Port::make_pair(uint32_t index) {
  TxSlot& tx = tx_[index];
  auto send_cq = device::make_cq(device(), sizes_.txd);
  if (!send_cq) return send_cq.error();
  tx.cq = *std::move(send_cq);

  device::QpRequest request{
      .send_cq = tx.cq->handle, .recv_cq = tx.cq->handle, .send_wqebbs = sizes_.txd};
  if (index < rx_.size()) {
    auto recv_cq = device::make_cq(device(), sizes_.rxd);
    if (!recv_cq) return recv_cq.error();
    rx_[index].cq = *std::move(recv_cq);
    request.recv_cq = rx_[index].cq->handle;
    request.recv_wrs = sizes_.rxd;
  }
  auto qp = device::make_raw_packet(device(), request, parts_.number);
  if (!qp) return qp.error();
  tx.qp = *std::move(qp);
  return Done{};
}

Status Port::make_queues() {
  const Lkey key = region_->region().lkey;
  for (uint32_t i = 0; i < tx_.size(); i++) {
    TxSlot& tx = tx_[i];
    if (Status s = make_pair(i); !s) return s;
    if constexpr (queue::watched) tx.traffic = std::make_unique<diag::MkeyTraffic>();
    if (tx.setup.keys != 0) {
      auto gather = PacketGather::create(device(), arena_,
                                         {.keys = tx.setup.keys,
                                          .arena_key = key,
                                          .headers = tx.setup.headers,
                                          .traffic = tx.traffic.get()});
      if (!gather) return gather.error();
      tx.gather = *std::move(gather);
    }
    attach_tx(tx, arena_, key);
  }
  for (uint32_t i = 0; i < rx_.size(); i++) {
    attach_rx(rx_[i], tx_[i].qp->rq, arena_, key);
    rx_[i].setup.cache->release_owner();
    if (burst::rx_refill(*rx_[i].queue) == 0)
      return Error{ENOMEM, "no packet buffer is free for the receive queue"};
    rx_[i].queue->rq.release_owner();
    rx_[i].setup.cache->release_owner();
  }
  auto flow = device().add_flow(tx_[0].qp->handle, {.kind = device::FlowRule::Kind::all});
  if (!flow) return flow.error();
  flow_ = *flow;
  return Done{};
}

namespace {

// Ends a receive queue whose queue pair is gone; the buffers that were posted return to its cache.
void drop_rx(RxSlot& rx, std::span<const uint32_t> posted) noexcept {
  if (rx.queue != nullptr) {
    rx.setup.cache->release_owner();
    rx.setup.cache->free_indices(posted);
    rx.setup.cache->release_owner();
  }
  rx.queue.reset();
  rx.cq.destroy();
}

// The same for a transmit queue and its PacketGather.
void drop_tx(TxSlot& tx) noexcept {
  if (tx.queue != nullptr) {
    pool::BufferCache& headers = header_cache(tx.setup);
    empty_tx(tx, *tx.setup.cache, headers);
    if (tx.gather != nullptr) tx.gather->abandon_all(*tx.setup.cache, headers);
    tx.setup.cache->release_owner();
    headers.release_owner();
  }
  tx.revival = {};
  tx.queue.reset();
  tx.lint.reset();
  tx.gather.reset();
  tx.traffic.reset();
  tx.cq.destroy();
}

}  // namespace

void Port::drop_queues() noexcept {
  if (flow_) (void)device().remove_flow(*flow_);
  flow_.reset();
  for (TxSlot& tx : tx_)
    if (tx.qp) (void)device().fail(tx.qp->handle);
  std::vector<std::vector<uint32_t>> posted;
  for (RxSlot& rx : rx_) posted.push_back(posted_buffers(rx));
  for (TxSlot& tx : tx_) tx.qp.destroy();  // from here on the device touches no buffer
  for (std::size_t i = 0; i < rx_.size(); i++) drop_rx(rx_[i], posted[i]);
  for (TxSlot& tx : tx_) drop_tx(tx);
}

void Port::stop() noexcept {
  if (!started_) return;
  before_ += live();
  before_.queues_down = 0;  // they go
  drop_queues();
  started_ = false;
}

PortStats Port::live() const noexcept {
  PortStats sum;
  for (const RxSlot& s : rx_) {
    if (s.queue == nullptr) continue;
    const burst::RxCounters& c = s.queue->counters;
    sum.rx_packets += c.packets.read();
    sum.rx_bytes += c.bytes.read();
    sum.rx_errors += c.errors.read();
    sum.rx_too_long += c.too_long.read();
    sum.rx_no_buffer += c.no_buffer.read();
  }
  for (const TxSlot& s : tx_) {
    if (s.queue == nullptr) continue;
    const burst::TxCounters& c = s.queue->counters;
    sum.tx_packets += c.packets.read();
    sum.tx_bytes += c.bytes.read();
    sum.tx_completed += c.completed.read();
    sum.tx_errors += c.errors.read();
    if (s.gather == nullptr) continue;
    sum.keys_bound += s.gather->stats().gathered;
    sum.keys_ended += s.gather->stats().ended;
    sum.bind_errors += s.gather->stats().errors;
  }
  for (std::size_t i = 0; i < tx_.size(); i++) sum.queues_down += down(i) ? 1 : 0;
  return sum;
}

uint64_t Port::missed() {
  return missed_.read(parts_.device->out_of_buffer(parts_.number));
}

PortStats Port::stats() const noexcept {
  PortStats sum = before_;
  sum += live();
  sum.recoveries = recoveries_.read();
  return sum;
}

}  // namespace kilim::port
