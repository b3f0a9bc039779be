// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/port/queues.hh"

#include <algorithm>
#include <cerrno>

#include "kilim/detail/base/error_text.hh"

namespace kilim::inline v1::port {
namespace {

bool depth_ok(uint32_t n) noexcept {
  return n >= min_depth && n <= max_depth && (n & (n - 1)) == 0;
}

burst::RxStrides strides_of(const RxSetup& setup) noexcept {
  if (!setup.strides) return {};
  return {static_cast<uint8_t>(setup.strides->log_bytes),
          static_cast<uint8_t>(setup.strides->log_count)};
}

// A ring of few buffers is filled up early.
uint16_t refill_at(uint32_t wqes) noexcept {
  constexpr uint32_t usual = burst::RxQueue::usual_refill;
  return static_cast<uint16_t>(wqes / 4 < usual ? (wqes + 3) / 4 : usual);
}

// The burst of a queue, whose setup check_tx() has passed.
burst::TxConfig config_of(const TxSetup& setup, const device::Caps& caps) noexcept {
  burst::TxConfig c = setup.config;
  c.offloads = setup.words.any() || caps.tx.min_inline != 0;
  c.multi_packet = caps.multi_packet && caps.tx.min_inline == 0 && !c.multi_seg && !c.gathered;
  return c;
}

burst::TxOffer offer_of(const TxSetup& setup, const device::TxCaps& caps) noexcept {
  return {.words = setup.words.any(),
          .tags = caps.vlan_insertion,
          .checksums = setup.words.checksums,
          .min_inline = static_cast<uint16_t>(caps.min_inline),
          .max_tso = setup.words.tso ? caps.max_tso : 0};
}

}  // namespace

Status check_sizes(const QueueSizes& s) noexcept {
  if (s.rxq < 1 || s.rxq > max_rxq)
    return error_with(EINVAL, "rxq is %u, it must be 1 to %u", s.rxq, max_rxq);
  if (s.txq < 1 || s.txq > max_txq)
    return error_with(EINVAL, "txq is %u, it must be 1 to %u", s.txq, max_txq);
  if (!depth_ok(s.rxd))
    return error_with(EINVAL, "rxd is %u, it must be a power of two from 64 to 8192", s.rxd);
  if (!depth_ok(s.txd))
    return error_with(EINVAL, "txd is %u, it must be a power of two from 64 to 8192", s.txd);
  return Done{};
}

uint32_t first_room(const RxSetup& s, const pool::Arena& arena) noexcept {
  return burst::RxPlace{arena, Lkey{0}, s.head_lines, s.split.header_bytes, strides_of(s)}.room();
}

uint32_t longest_packet(const RxSetup& s, const pool::Arena& arena) noexcept {
  return first_room(s, arena) + (s.segments() - 1) * arena.room();
}

device::Lro lro_of(const RxSetup& s, const pool::Arena& arena) noexcept {
  if (!s.config.lro) return {};
  const uint32_t room = longest_packet(s, arena);
  return {.max_bytes = s.max_lro_bytes == 0 ? room : std::min(room, s.max_lro_bytes),
          .timeout_us = s.lro_timeout_us};
}

namespace {

// What the receives of a queue have behind their first segment.
void attach_chain(RxSlot& slot, const queue::RqGeometry& rq, const burst::RxPlace& first) {
  const uint32_t segments = slot.setup.segments();
  slot.further.assign(std::size_t{rq.wqe_count} * (segments - 1), 0);
  slot.missing.assign(rq.wqe_count, 0);
  slot.chain = std::make_unique<burst::RxChain>(
      rq, slot.further, slot.missing,
      burst::RxChainPlace{first.arena, first.key, segments, first.room()}, *slot.setup.cache);
  slot.queue->chain = slot.chain.get();
  slot.burst = burst::select_rx_chain(slot.setup.config).burst;
}

}  // namespace

void attach_rx(RxSlot& slot, const queue::RqGeometry& rq, const pool::Arena& arena, Lkey key) {
  slot.buffers.assign(rq.wqe_count, 0);
  slot.discarded = std::make_unique<Counter>();
  slot.stopped.set(false);
  slot.revival = {};
  const RxSetup& s = slot.setup;
  const burst::RxPlace place{arena, key, s.head_lines, s.split.header_bytes, strides_of(s)};
  slot.queue = std::make_unique<TappedRxQueue>(
      TappedRxQueue{burst::RxQueue{.rq = burst::RxRing(rq, slot.buffers, place),
                                   .cq = queue::Cq(slot.cq->geometry),
                                   .cache = &s.first_cache(),
                                   .arena = arena,
                                   .head_lines = s.head_lines,
                                   .refill_at = refill_at(rq.wqe_count),
                                   .mini_hash = s.compression == device::Compression::hash,
                                   .strides = place.strides}});
  slot.burst = s.strides ? burst::select_strided_rx(s.config).burst
               : s.compression != device::Compression::none
                   ? burst::select_compressed_rx(s.config, burst::widest_simd()).burst
                   : burst::select_rx(s.config, burst::widest_simd()).burst;
  if (s.segments() > 1) attach_chain(slot, rq, place);
}

uint32_t frames_of(const burst::RxQueue& q, const prm::Cqe& e) noexcept {
  if (q.strides.log_bytes != 0 && (e.byte_cnt.host() & prm::cqe::stride_filler) != 0) return 0;
  return std::max(queue::Cq::completions(e), prm::cqe::lro_num_seg::get(e));
}

uint32_t drop_frames(burst::RxQueue& q) noexcept {
  uint32_t frames = 0;
  for (const prm::Cqe* e; (e = q.cq.peek(0)) != nullptr;) {
    const bool good = !queue::Cq::is_error(e->op_own);
    if (good) frames += frames_of(q, *e);
    q.cq.consume_block(good ? queue::Cq::completions(*e) : 1);
  }
  frames -= q.block_done;
  q.block_done = 0;
  if (q.strides.log_bytes != 0) burst::rx_forget_strides(q);
  return frames;
}

void attach_tx(TxSlot& slot, const pool::Arena& arena, Lkey key, const device::Caps& caps) {
  const queue::SqGeometry& sq = slot.qp->sq;
  slot.wr_ids.assign(sq.wqebb_count, 0);
  // The ring holds as many packets as WQEBBs, even if a WQE has many packets: pools are sized by
  // the depth.
  const bool of_pieces = slot.setup.config.multi_seg || slot.setup.config.gathered;
  slot.handles.assign(std::size_t{sq.wqebb_count} * (of_pieces ? 4 : 1), {});
  slot.bursts.assign(slot.cq->geometry.cqe_count, {});
  slot.queue = std::make_unique<TappedTxQueue>(
      TappedTxQueue{burst::TxQueue{.sq = queue::Sq(sq, slot.wr_ids),
                                   .cq = queue::Cq(slot.cq->geometry),
                                   .sent = burst::SentRing(slot.handles, slot.bursts),
                                   .cache = slot.setup.cache,
                                   .arena = arena,
                                   .key = key,
                                   .offload = slot.setup.offload,
                                   .slots = slot.gather == nullptr ? nullptr : slot.gather->slots(),
                                   .headers = slot.setup.headers,
                                   .offer = offer_of(slot.setup, caps.tx)}});
  if constexpr (queue::watched) {
    slot.lint = std::make_unique<diag::DoorbellLint>(
        slot.setup.lint_stops, prm::lint::QueueKind::raw_packet, slot.traffic.get());
    (void)slot.queue->sq.watch(slot.lint.get());
  }
  const burst::TxVariant& variant =
      burst::select_tx(config_of(slot.setup, caps), burst::widest_simd());
  slot.burst = variant.burst;
  slot.reclaim = variant.reclaim;
}

uint32_t refill(burst::RxQueue& q) noexcept {
  if (q.strides.log_bytes != 0) return burst::rx_refill_strides(q);
  return q.chain == nullptr ? burst::rx_refill(q) : burst::rx_refill_chain(q);
}

void use_caches(burst::RxQueue& q, RxCaches caches) noexcept {
  q.cache = &caches.first;
  if (q.chain != nullptr) q.chain->set_cache(caches.others);
}

void empty_rx(burst::RxQueue& q, RxCaches caches) noexcept {
  q.rq.reset([&caches](uint32_t index) noexcept { caches.first.free_indices({&index, 1}); });
  if (q.chain == nullptr) return;
  q.chain->reset([&caches](uint32_t index) noexcept { caches.others.free_indices({&index, 1}); });
}

PostedBuffers posted_buffers(RxSlot& slot) {
  PostedBuffers all;
  if (slot.queue == nullptr) return all;
  all.first.reserve(slot.queue->rq.posted());
  slot.queue->rq.release_owner();
  if (slot.queue->strides.log_bytes != 0) burst::rx_forget_strides(*slot.queue);
  slot.queue->rq.reset([&all](uint32_t index) noexcept { all.first.push_back(index); });
  if (slot.chain == nullptr) return all;
  all.others.reserve(slot.chain->held());
  slot.chain->reset([&all](uint32_t index) noexcept { all.others.push_back(index); });
  return all;
}

void free_by_pool(std::span<const pool::Handle> handles, pool::BufferCache& cache,
                  pool::BufferCache& headers) noexcept {
  for (const pool::Handle h : handles) (headers.pool().has(h.index) ? headers : cache).free_one(h);
}

pool::BufferCache& header_cache(const TxSetup& setup) noexcept {
  return setup.headers == nullptr ? *setup.cache : *setup.headers;
}

void empty_tx(TxSlot& slot, pool::BufferCache& cache, pool::BufferCache& headers) noexcept {
  if (slot.queue == nullptr) return;
  cache.release_owner();
  headers.release_owner();
  if (slot.gather != nullptr) slot.gather->release_owner();
  const burst::SentRing::Done left = slot.queue->sent.pop_all();
  for (const std::span<const pool::Handle> part : {left.first, left.second}) {
    if (slot.gather != nullptr)
      slot.gather->abandon(part, cache, headers);
    else if (slot.setup.config.two_pools)
      free_by_pool(part, cache, headers);
    else
      cache.free(part);
  }
  cache.release_owner();
  headers.release_owner();
}

}  // namespace kilim::inline v1::port
