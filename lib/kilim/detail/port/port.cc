// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/port/port.hh"

#include <cerrno>

#include "kilim/detail/base/error_text.hh"
#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/mr/runs.hh"

namespace kilim::inline v1::port {

Result<std::unique_ptr<Port>> Port::create(PortParts parts) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  std::unique_ptr<Port> p(new Port(std::move(parts)));
  auto info = p->device().port(p->parts_.number);
  if (!info) return info.error();
  if (!info->ethernet) return Error{EOPNOTSUPP, "the device's port is not an Ethernet port"};
  if (!p->device().caps().raw_packet)
    return Error{EOPNOTSUPP, "the device has no raw packet queues (CAP_NET_RAW may be missing)"};
  p->info_ = *info;
  if (Status s = check_sizes(p->parts_.defaults); !s) return s.error();
  (void)p->losses();  // others' frames, before the port was created
  return p;
}

Port::~Port() {
  stop();
}

Status Port::configure(const QueueSizes& sizes, const pool::Arena& arena) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  const std::lock_guard lock{shape_};
  if (started_) return Error{EBUSY, "a started port is not configured: stop it first"};
  if (Status s = check_sizes(sizes); !s) return s;
  if (sizes.rxq > 1 && !device().caps().spread.usable())
    return Error{EOPNOTSUPP,
                 "the device does not spread frames over receive queues: rxq must be 1"};
  region_.reset();
  const uint32_t rights = mr::packet_rights(parts_.relaxed_ordering);
  auto regions = mr::register_runs(device().registrar(), arena.memory(), rights);
  if (!regions) return regions.error();
  if (regions->size() != 1)
    return Error{EINVAL, "the arena needs pages of one size: it has one key"};
  region_.emplace(std::move(regions->front()));
  arena_ = arena;
  sizes_ = sizes;
  rx_.clear();
  tx_.clear();
  rx_.resize(sizes.rxq);
  tx_.resize(sizes.txq);
  return Done{};
}

void Port::unconfigure() noexcept {
  const std::lock_guard lock{shape_};
  end();
  rx_.clear();
  tx_.clear();
  region_.reset();
  reads_tunnels_ = false;
}

Status Port::set_rx(uint32_t queue, const RxSetup& setup) {
  if (started_) return Error{EBUSY, "the port is started: stop it before a queue is set up"};
  if (queue >= rx_.size())
    return error_with(EINVAL, "receive queue %u does not exist: the port has %zu, numbered from 0",
                      queue, rx_.size());
  if (Status s = check_rx(setup, sizes_, arena_, device().caps(), info_); !s) return s;
  rx_[queue].setup = setup;
  return Done{};
}

Status Port::set_tx(uint32_t queue, const TxSetup& setup) {
  if (started_) return Error{EBUSY, "the port is started: stop it before a queue is set up"};
  if (queue >= tx_.size())
    return error_with(EINVAL, "transmit queue %u does not exist: the port has %zu, numbered from 0",
                      queue, tx_.size());
  if (Status s = check_tx_buffers(setup); !s) return s;
  if (Status s = check_tx(setup, device().caps().tx, arena_.has_side()); !s) return s;
  tx_[queue].setup = setup;
  return Done{};
}

Status Port::start() {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  const std::lock_guard lock{shape_};
  if (started_) return Error{EBUSY, "the port is started already"};
  if (!region_) return Error{EINVAL, "the port is not configured"};
  for (const RxSlot& s : rx_)
    if (s.setup.cache == nullptr) return Error{EINVAL, "a receive queue is not set up"};
  for (const TxSlot& s : tx_)
    if (s.setup.cache == nullptr) return Error{EINVAL, "a transmit queue is not set up"};
  if (Status s = begin_mtu(); !s) return s;
  if (Status s = make_queues(); !s) {
    drop_queues();
    end_mtu();
    return s;
  }
  if (tap_ != nullptr) insert_tap(tap_);
  started_ = true;
  return Done{};
}

// One receive queue without anything special is carried by the first transmit queue's pair, as on
// devices that have no other.
bool Port::wants_rwqs() const noexcept {
  if (!parts_.device->caps().spread.usable()) return false;
  if (rx_.size() > 1 || rss_asked_) return true;
  return needs_rwq(rx_[0].setup);
}

// Each transmit queue is a raw packet queue pair; the first one may carry the receive queue too.
Status Port::make_pair(uint32_t index) {
  TxSlot& tx = tx_[index];
  auto send_cq = device::create_cq(device(), sizes_.txd);
  if (!send_cq) return send_cq.error();
  tx.cq = *std::move(send_cq);

  device::QpRequest request{
      .send_cq = tx.cq->handle, .recv_cq = tx.cq->handle, .send_wqebbs = sizes_.txd};
  if (RxSlot* rx = carried_by(index)) {
    auto recv_cq =
        device::create_cq(device(), {.entries = sizes_.rxd, .channel = rx->setup.events});
    if (!recv_cq) return recv_cq.error();
    rx->cq = *std::move(recv_cq);
    request.recv_cq = rx->cq->handle;
    request.recv_wrs = sizes_.rxd;
    request.max_recv_sge = rx->setup.segments();
  }
  auto qp = device::create_raw_packet(device(), request, parts_.number);
  if (!qp) return qp.error();
  tx.qp = *std::move(qp);
  return Done{};
}

Status Port::make_tx(uint32_t index) {
  TxSlot& tx = tx_[index];
  const Lkey key = region_->region().lkey;
  if (Status s = make_pair(index); !s) return s;
  if constexpr (queue::watched) tx.traffic = std::make_unique<diag::MkeyTraffic>();
  if (tx.setup.keys != 0) {
    auto gather =
        PacketGather::create(device(), arena_,
                             {.keys = tx.setup.keys,
                              .arena_key = key,
                              .headers = tx.setup.headers,
                              .traffic = tx.traffic.get(),
                              .errors = &last_errors_.keys,
                              .pieces = tx.setup.config.multi_seg ? burst::max_rx_segments : 2});
    if (!gather) return gather.error();
    tx.gather = *std::move(gather);
  }
  attach_tx(tx, arena_, key, device().caps());
  tx.queue->errors = &last_errors_.sent;
  return Done{};
}

// Fills the queues' rings, when their queue pair or work queue runs.
Status Port::make_rx() {
  if (with_rwqs()) {
    for (RxSlot& rx : rx_)
      if (Status s = run_rx(rx, caches_of(rx.setup)); !s) return s;
    return Done{};
  }
  RxSlot& rx = rx_[0];
  attach_rx(rx, tx_[0].qp->rq, arena_, region_->region().lkey);
  rx.queue->errors = &last_errors_.received;
  caches_of(rx.setup).release_owner();
  if (refill(*rx.queue) == 0)
    return Error{ENOMEM, "no packet buffer is free for the receive queue"};
  rx.queue->rq.release_owner();
  caches_of(rx.setup).release_owner();
  return Done{};
}

Status Port::make_queues() {
  if (wants_rwqs()) {
    for (RxSlot& rx : rx_) {
      if (Status s = create_rwq(rx); !s) return s;
      rx_targets_.push_back({rx.rwq->handle, lro_of(rx.setup, arena_)});
    }
  }
  auto lro = lro_of_all(rx_targets_);
  if (!lro) return lro.error();
  lro_ = *lro;
  for (uint32_t i = 0; i < tx_.size(); i++)
    if (Status s = make_tx(i); !s) return s;
  if (Status s = make_rx(); !s) return s;
  if (rss_.inner)
    if (const flow::RuleError e = check_rss(rss_); e.code != 0) return Error{e.code, e.what};
  own_set_ = 0;
  auto rules = lay_own_rules(filter_, rss_, own_set_);
  if (!rules) return rules.error();
  own_rules_.emplace(*std::move(rules));
  return Done{};
}

namespace {

// Ends a receive queue whose queue pair or work queue is gone; the buffers that were posted return
// to its cache.
void drop_rx(RxSlot& rx, const PostedBuffers& posted) noexcept {
  if (rx.queue != nullptr) {
    const RxCaches caches = caches_of(rx.setup);
    caches.release_owner();
    caches.first.free_indices(posted.first);
    caches.others.free_indices(posted.others);
    caches.release_owner();
  }
  rx.queue.reset();
  rx.chain.reset();
  rx.cq.destroy();
}

// Gives back what a transmit queue and its PacketGather hold, and the queue itself.
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

void Port::drop_rules() noexcept {
  rules_.clear();
  last_priority_ = 0;
  own_rules_.reset();
}

void Port::drop_queues() noexcept {
  drop_rules();
  for (TxSlot& tx : tx_)
    if (tx.qp) (void)device().fail(tx.qp->handle);
  std::vector<PostedBuffers> posted;
  for (RxSlot& rx : rx_) {
    if (rx.rwq) (void)device().set_rwq_state(rx.rwq->handle, device::RwqState::reset);
    posted.push_back(posted_buffers(rx));
    rx.rwq.destroy();
  }
  for (TxSlot& tx : tx_) tx.qp.destroy();  // from here on the device touches no buffer
  for (std::size_t i = 0; i < rx_.size(); i++) drop_rx(rx_[i], posted[i]);
  for (TxSlot& tx : tx_) drop_tx(tx);
  rx_targets_.clear();
}

void Port::stop() noexcept {
  const std::lock_guard lock{shape_};
  end();
}

// Frames that lie in the queues when no rule brings further ones are lost.
void Port::end() noexcept {
  if (!started_) return;
  drop_rules();
  for (uint32_t i = 0; i < rx_.size(); i++)
    if (!rx_[i].queue->failed) rx_[i].discarded->add(rx_depth(i));
  before_ += live();
  before_.queues_down = 0;  // they go
  before_.keys_ended = before_.keys_bound;
  drop_queues();
  end_mtu();
  started_ = false;
}

}  // namespace kilim::inline v1::port
