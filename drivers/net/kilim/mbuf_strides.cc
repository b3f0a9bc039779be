// SPDX-License-Identifier: BSD-3-Clause
#include "net/kilim/mbuf_strides.hh"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "kilim/detail/queue/sge.hh"
#include "kilim/prm/cqe.hh"
#include "net/kilim/mbuf_words.hh"

namespace kilim::net {
namespace {

constexpr std::size_t stride_address_at = offsetof(prm::DataSeg, addr);

// The last one that held the buffer, on any lcore.
void put_back(void*, void* buffer) {
  rte_mempool_put(rte_mempool_from_obj(buffer), buffer);
}

StrideBuffer* take_buffer(rte_mempool* pool) noexcept {
  void* at = nullptr;
  if (rte_mempool_get(pool, &at) != 0) return nullptr;
  auto* const b = static_cast<StrideBuffer*>(at);
  b->info.free_cb = put_back;
  b->info.fcb_opaque = b;
  rte_mbuf_ext_refcnt_set(&b->info, 1);
  return b;
}

void let_go(StrideBuffer* b) noexcept {
  if (b != nullptr && rte_mbuf_ext_refcnt_update(&b->info, -1) == 0) put_back(nullptr, b);
}

void post(const MbufRx& q, uint32_t wqe, StrideBuffer* b) noexcept {
  q.strides.buffers[wqe] = b;
  queue::store_word(q.wqes + std::size_t{wqe} * q.stride + stride_address_at,
                    be64{reinterpret_cast<uint64_t>(b->data())});
}

// Attaches an mbuf to the packet at `from`, with what is free before it as its headroom. The buffer
// has a headroom of its own in front of the first stride.
void attach(StrideBuffer* b, rte_mbuf& m, std::byte* from, uint16_t headroom, uint32_t length) {
  std::byte* const start = from - headroom;
  const rte_iova_t iova =
      rte_mempool_virt2iova(b) + static_cast<uint64_t>(start - reinterpret_cast<std::byte*>(b));
  rte_mbuf_ext_refcnt_update(&b->info, 1);
  rte_pktmbuf_attach_extbuf(&m, start, iova, static_cast<uint16_t>(headroom + length), &b->info);
  m.data_off = headroom;
  m.data_len = static_cast<uint16_t>(length);
}

// Copies a packet that is longer than `m`, an mbuf of the mempool, into that one and further ones.
// False: the mempool has none.
[[gnu::noinline]] bool copy_chain(const MbufRx& q, rte_mbuf& m, const std::byte* from,
                                  uint32_t length) noexcept {
  rte_mbuf*
      more[(UINT16_MAX + 63) / 64];  // of 64 bytes at least (rte_eth_dev_info::min_rx_bufsize)
  const uint32_t count = (length - 1) / q.room;
  if (count > std::size(more) ||
      rte_mempool_get_bulk(q.pool, reinterpret_cast<void**>(more), count) != 0)
    return false;
  rte_mbuf* last = &m;
  for (uint32_t k = 0, at = 0; k <= count; k++, at += q.room) {
    if (k != 0) {
      rte_mbuf* const next = more[k - 1];
      std::memcpy(&next->rearm_data, &q.rearm, sizeof q.rearm);
      next->ol_flags = q.base_flags;
      last = last->next = next;
    }
    last->data_len = static_cast<uint16_t>(std::min(length - at, q.room));
    std::memcpy(rte_pktmbuf_mtod(last, void*), from + at, last->data_len);
  }
  last->next = nullptr;
  m.nb_segs = static_cast<uint16_t>(count + 1);
  return true;
}

enum class Taken : uint8_t { done, no_mbuf, dropped };

// Fills in an mbuf for the packet of this entry, or it has no place and is dropped. Copied is what
// is short, what would leave too little headroom, and all while there is no spare buffer.
Taken take_packet(MbufRx& q, rte_mbuf& m, const prm::Cqe& e, uint32_t length) noexcept {
  MbufStrides& s = q.strides;
  StrideBuffer* const b = s.buffers[q.ci & q.mask];
  // A device that counts beyond the buffer is believed no further than the buffer's end.
  const uint32_t at = (e.wqe_counter.host() & ((1u << s.log_count) - 1)) << s.log_bytes;
  const uint32_t free = at < s.end ? 0 : at - s.end + (s.end == 0 ? RTE_PKTMBUF_HEADROOM : 0);
  const bool roomy = free >= RTE_PKTMBUF_HEADROOM;
  const bool inside = length <= stride_bytes(s) - at;
  std::byte* const from = b->data() + at;
  const bool fits = length <= q.room;
  const bool whole = inside && length <= UINT16_MAX - RTE_PKTMBUF_HEADROOM;
  Taken taken = Taken::done;
  if (whole && fits && (length <= s.copied || s.spare == nullptr || !roomy))
    std::memcpy(rte_pktmbuf_mtod(&m, void*), from, length);
  else if (whole && s.spare != nullptr)
    attach(b, m, from, static_cast<uint16_t>(roomy ? RTE_PKTMBUF_HEADROOM : free), length);
  else if (whole && s.chains)
    taken = copy_chain(q, m, from, length) ? Taken::done : Taken::no_mbuf;
  else
    taken = Taken::dropped;
  if (taken != Taken::no_mbuf) s.end = at + length;
  return taken;
}

// Pools that were given up while mbufs were attached to their buffers.
struct Strays {
  std::mutex lock;
  std::vector<rte_mempool*> pools;
};
Strays& strays() {
  static auto* const all = new Strays;  // the application's mbufs may outlive static destructors
  return *all;
}

void free_strays() {
  const std::lock_guard guard(strays().lock);
  std::erase_if(strays().pools, [](rte_mempool* pool) {
    if (!rte_mempool_full(pool)) return false;
    rte_mempool_free(pool);
    return true;
  });
}

}  // namespace

rte_mempool* make_stride_pool(uint32_t count, uint32_t bytes, int node) noexcept {
  static std::atomic<uint32_t> number{0};
  free_strays();
  const std::string name = "kilim_mprq_" + std::to_string(number.fetch_add(1));
  const uint32_t element = RTE_CACHE_LINE_SIZE + RTE_PKTMBUF_HEADROOM + bytes;
  // Private data as mbuf pools have: whose flags are looked at (MbufMemory).
  rte_mempool* const pool =
      rte_mempool_create(name.c_str(), count, element, 0, sizeof(rte_pktmbuf_pool_private), nullptr,
                         nullptr, nullptr, nullptr, node, 0);
  if (pool != nullptr) std::memset(rte_mempool_get_priv(pool), 0, sizeof(rte_pktmbuf_pool_private));
  return pool;
}

void give_up_stride_pool(rte_mempool* pool) noexcept {
  if (pool == nullptr) return;
  {
    const std::lock_guard guard(strays().lock);
    strays().pools.push_back(pool);
  }
  free_strays();
}

namespace {

// A packet in an mbuf of its own.
struct OnePacket {
  Taken taken;
  rte_mbuf* m;  // where it is done
  uint32_t length;
};
template <bool lro>
[[gnu::always_inline]] inline OnePacket take_one(MbufRx& q, const prm::Cqe& e) noexcept {
  void* fresh = nullptr;
  if (rte_mempool_get(q.pool, &fresh) != 0) return {Taken::no_mbuf, nullptr, 0};
  auto* const m = static_cast<rte_mbuf*>(fresh);
  prm::Cqe each;
  std::memcpy(static_cast<void*>(&each), static_cast<const void*>(&e), sizeof each);
  each.byte_cnt = be32{e.byte_cnt.host() & 0xffff};
  const uint32_t length = write_mbuf<true>(q, {q.rearm, q.base_flags}, *m, each);
  const Taken taken = take_packet(q, *m, e, length);
  if (taken != Taken::done) rte_mempool_put(q.pool, m);
  if constexpr (lro)
    if (taken == Taken::done && burst::is_joined(e)) end_joined(q, *m, e);
  return {taken, m, length};
}

}  // namespace

// Receives like rx_burst_strides() (kilim/detail/burst/rx_strides.hh). An entry without data gives
// strides back.
template <bool lro>
uint16_t take_strided(MbufRx& q, rte_mbuf** out, uint32_t want) noexcept {
  MbufStrides& s = q.strides;
  const uint32_t before = q.pi;
  uint32_t n = 0;
  uint64_t bytes = 0;
  for (const prm::Cqe* e; n < want && (e = q.cq->peek(0)) != nullptr;) {
    if (queue::Cq::is_error(e->op_own)) break;
    const uint32_t word = e->byte_cnt.host();
    if ((word & prm::cqe::stride_filler) == 0) {
      const OnePacket p = take_one<lro>(q, *e);
      if (p.taken == Taken::no_mbuf) {
        q.counts->no_mbuf.add(1);
        break;  // the packet waits
      }
      if (p.taken == Taken::done) {
        out[n++] = p.m;
        bytes += p.length;
      } else {
        q.counts->errors.add(1);
        q.counts->too_long.add(1);
      }
    }
    s.used += word >> prm::cqe::strides_shift & prm::cqe::strides_mask;
    q.cq->consume(1);
    if (s.used >= 1u << s.log_count) end_strides(q);
  }
  if (q.pi != before) ring_rx(q);
  q.counts->packets.add(n);
  q.counts->bytes.add(bytes);
  return static_cast<uint16_t>(n);
}

template uint16_t take_strided<false>(MbufRx&, rte_mbuf**, uint32_t) noexcept;
template uint16_t take_strided<true>(MbufRx&, rte_mbuf**, uint32_t) noexcept;

void end_strides(MbufRx& q) noexcept {
  MbufStrides& s = q.strides;
  StrideBuffer* const old = s.buffers[q.ci & q.mask];
  if (rte_mbuf_ext_refcnt_read(&old->info) > 1) {  // then there is a spare
    post(q, q.pi & q.mask, s.spare);
    s.spare = take_buffer(s.pool);
    let_go(old);
  } else if (s.spare == nullptr) {
    s.spare = take_buffer(s.pool);
  }
  q.ci++;
  q.pi++;
  s.used = s.end = 0;
}

uint32_t fill_strided(MbufRx& q) noexcept {
  MbufStrides& s = q.strides;
  for (uint32_t wqe = 0; wqe <= q.mask; wqe++) {
    StrideBuffer* const b = take_buffer(s.pool);
    if (b == nullptr) break;
    post(q, wqe, b);
    q.pi++;
  }
  s.spare = take_buffer(s.pool);
  s.used = s.end = 0;
  ring_rx(q);
  return q.pi - q.ci;
}

void empty_strided(MbufRx& q) noexcept {
  MbufStrides& s = q.strides;
  for (; q.ci != q.pi; q.ci++) let_go(s.buffers[q.ci & q.mask]);
  let_go(s.spare);
  s.spare = nullptr;
  s.used = s.end = 0;
}

}  // namespace kilim::net
