// SPDX-License-Identifier: BSD-3-Clause
#include "net/kilim/mbuf_rx.hh"

#include <cstring>

#include <rte_mempool.h>

#include "kilim/detail/base/barrier.hh"
#include "kilim/detail/queue/completion.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/prm/cqe.hh"
#include "net/kilim/ethdev.hh"
#include "net/kilim/mbuf_blocks.hh"
#include "net/kilim/mbuf_fours.hh"
#include "net/kilim/mbuf_strides.hh"
#include "net/kilim/mbuf_words.hh"

namespace kilim::net {
namespace {

constexpr uint32_t segment_bytes = sizeof(prm::DataSeg);
constexpr std::size_t address_at = offsetof(prm::DataSeg, addr);

std::byte* segment(const MbufRx& q, uint32_t wqe, uint32_t k) noexcept {
  return q.wqes + std::size_t{wqe} * q.stride + std::size_t{k} * segment_bytes;
}

uint64_t address_of(const MbufRx& q, const rte_mbuf& m) noexcept {
  return reinterpret_cast<uint64_t>(m.buf_addr) + q.headroom;
}

// False: the mbuf's memory has no key.
[[gnu::noinline]] bool post(MbufRx& q, std::byte* to, const rte_mbuf& m) noexcept {
  const uint64_t at = address_of(q, m);
  if (!q.one_key) [[unlikely]] {
    if (!q.keys.last().covers(at, q.room) && !q.keys.find(m, at, q.room)) {
      queue::store_pointer(to, 0, q.room, Lkey{0});  // the device refuses it
      return false;
    }
    queue::store_pointer(to, at, q.room, q.keys.last().key);
    return true;
  }
  queue::store_word(to + address_at, be64{at});
  return true;
}

// Fills in the addresses of a row; false: memory without a key. With one key for all the key stands
// there already.
[[gnu::always_inline]] inline bool post_row(MbufRx& q, std::byte* to,
                                            rte_mbuf* const* some) noexcept {
  const std::size_t step = q.stride;
  if (q.one_key) [[likely]] {
    const uint64_t headroom = q.headroom;
#if defined(__SSE4_1__)
    for (uint32_t i = 0; i < MbufRx::row; i += 2, to += 2 * step)
      store_two_addresses(to + address_at, step, some + i, headroom);
#else
    for (uint32_t i = 0; i < MbufRx::row; i++, to += step)
      queue::store_word(to + address_at,
                        be64{reinterpret_cast<uint64_t>(some[i]->buf_addr) + headroom});
#endif
    return true;
  }
  for (uint32_t i = 0; i < MbufRx::row; i++, to += step)
    if (!post(q, to, *some[i])) return false;
  return true;
}

// Rows of mbufs for receives of one, from the mempool's cache to the ring. The ring has whole rows.
[[gnu::always_inline]] inline void refill_rows(MbufRx& q) noexcept {
  uint32_t rows = 0;
  for (; q.mask + 1 - (q.pi - q.ci) >= MbufRx::row; rows++) {
    const uint32_t at = q.pi & q.mask;
    auto** const some = reinterpret_cast<void**>(q.mbufs + at);
    if (rte_mempool_get_bulk(q.pool, some, MbufRx::row) != 0) [[unlikely]] {
      q.counts->no_mbuf.add(MbufRx::row);
      break;
    }
    if (!post_row(q, segment(q, at, 0), q.mbufs + at)) [[unlikely]] {
      rte_mempool_put_bulk(q.pool, some, MbufRx::row);
      q.counts->no_mbuf.add(MbufRx::row);
      break;
    }
    q.pi += MbufRx::row;
  }
  if (rows != 0) ring_rx(q);
}

// An error's mbuf goes back to the mempool, or, where rows are not refilled, stays in its WQE; one
// of a flush says that the queue is down.
[[gnu::noinline, gnu::cold]] void take_error(MbufRx& q, const prm::Cqe& e, bool stays) noexcept {
  const queue::Completion c = queue::decode_error(e);
  rte_mbuf** const some = q.mbufs + std::size_t{q.ci & q.mask} * q.segments;
  q.cq->consume_singles(1);
  if (c.syndrome == prm::Syndrome::wr_flush) {
    q.down.set(true);
    return;
  }
  if (c.syndrome == prm::Syndrome::local_length) q.counts->too_long.add(1);
  q.counts->errors.add(1);
  if (q.strides.log_count != 0) {
    end_strides(q);
    ring_rx(q);
    return;
  }
  if (stays) {
    q.ci++;
    q.pi++;
    ring_rx(q);
    return;
  }
  rte_mempool_put(q.pool, some[0]);
  q.ci++;
}

// What did not look like the next packet: nothing, an error, or the ring's end.
[[gnu::noinline]] bool clear_front(MbufRx& q, bool scattered) noexcept {
  if (q.down) {
    q.port->recover_rx(q.number);
    return false;
  }
  const prm::Cqe* const e = q.cq->peek(0);
  if (e == nullptr || !queue::Cq::is_error(e->op_own)) return false;
  take_error(q, *e, scattered);
  return !q.down;
}

// Packets of one mbuf in a row from the front, up to the ring's end or what is no good packet.
// `compressed`: there may be blocks between them.
template <bool extra, bool compressed>
[[gnu::always_inline]] inline uint16_t take_row(MbufRx& q, rte_mbuf** out, uint32_t want) noexcept {
  const queue::Cq::Row row = q.cq->row();
  const uint32_t at = q.ci & q.mask;
  const uint32_t to_end = q.mask + 1 - at;
  uint32_t most = want < row.count ? want : row.count;
  most = to_end < most ? to_end : most;
  const uint8_t wanted = prm::cqe::op_own(prm::CqeOpcode::resp_send, false, row.owner != 0);
  rte_mbuf** const from = q.mbufs + at;
  const std::byte* cqe = row.first;
  const Fresh fresh{q.rearm, q.base_flags};
  uint64_t bytes = 0;
  uint32_t n = 0;
#if defined(__SSE4_1__)
  const RowFours fours(fresh, row.owner);
  __m128i sum = _mm_setzero_si128();
  for (; n + 4 <= most; n += 4, cqe += 4 * sizeof(prm::Cqe)) {
    const auto* const four = reinterpret_cast<const prm::Cqe*>(cqe);
    if (!fours.are_packets(four)) break;
    after_owner_bit();
    sum = _mm_add_epi32(sum, fours.take(four, from + n, out + n));
    if constexpr (extra)
      for (uint32_t i = 0; i < 4; i++) write_extra(q, *from[n + i], four[i]);
  }
  bytes += static_cast<uint32_t>(_mm_extract_epi32(sum, 1));
#endif
  for (; n < most; n++, cqe += sizeof(prm::Cqe)) {
    const auto& e = *reinterpret_cast<const prm::Cqe*>(cqe);
    const uint8_t op = *static_cast<const volatile uint8_t*>(&e.op_own);
    if ((op & ~prm::cqe::solicited_bit) != wanted) break;
    after_owner_bit();
    rte_mbuf* const m = from[n];
    bytes += write_mbuf<extra>(q, fresh, *m, e);
    out[n] = m;
  }
  if (n == 0) return 0;
  q.ci += n;
  if constexpr (compressed)
    q.cq->consume_singles(n);
  else
    q.cq->consume(n);
  q.counts->packets.add(n);
  q.counts->bytes.add(bytes);
  return static_cast<uint16_t>(n);
}

// Chains the mbufs that a frame of `length` bytes filled; the WQE gets others. nullptr: the mempool
// has none, and the frame is dropped.
template <bool lro>
rte_mbuf* take_chain(MbufRx& q, const prm::Cqe& e, uint32_t length) noexcept {
  const uint32_t wqe = q.ci & q.mask;
  rte_mbuf** const mine = q.mbufs + std::size_t{wqe} * q.segments;
  const uint32_t used = length <= q.room ? 1 : (length + q.room - 1) / q.room;
  rte_mbuf* fresh[most_segments];
  if (rte_mempool_get_bulk(q.pool, reinterpret_cast<void**>(fresh), used) != 0) {
    q.counts->no_mbuf.add(used);
    return nullptr;
  }
  rte_mbuf* const head = mine[0];
  write_mbuf<true>(q, {q.rearm, q.base_flags}, *head, e);
  head->nb_segs = static_cast<uint16_t>(used);
  rte_mbuf* last = nullptr;
  for (uint32_t k = 0; k < used; k++) {
    rte_mbuf* const m = mine[k];
    if (k != 0) {
      std::memcpy(&m->rearm_data, &q.rearm, sizeof q.rearm);
      m->ol_flags = q.base_flags;
      last->next = m;
    }
    const uint32_t left = length - k * q.room;
    m->data_len = static_cast<uint16_t>(left < q.room ? left : q.room);
    last = m;
    mine[k] = fresh[k];
    (void)post(q, segment(q, wqe, k), *fresh[k]);
  }
  last->next = nullptr;
  if constexpr (lro)
    if (burst::is_joined(e)) end_joined(q, *head, e);
  return head;
}

template <bool lro>
uint16_t take_scattered(MbufRx& q, rte_mbuf** out, uint32_t want) noexcept {
  uint32_t n = 0, seen = 0;
  uint64_t bytes = 0;
  for (const prm::Cqe* e; n < want && (e = q.cq->peek(0)) != nullptr; seen++) {
    if (queue::Cq::is_error(e->op_own)) break;
    const uint32_t length = e->byte_cnt.host();
    if (rte_mbuf* const m = take_chain<lro>(q, *e, length)) {
      out[n++] = m;
      bytes += length;
    }
    q.ci++;
    q.pi++;
    q.cq->consume(1);
  }
  if (seen != 0) ring_rx(q);
  q.counts->packets.add(n);
  q.counts->bytes.add(bytes);
  return static_cast<uint16_t>(n);
}

uint16_t take_compressed(MbufRx& q, rte_mbuf** out, uint32_t want) noexcept {
  uint32_t n = 0;
  for (const prm::Cqe* e; n < want && (e = q.cq->peek(0)) != nullptr;) {
    if (queue::Cq::is_error(e->op_own)) break;
    const uint16_t more = queue::Cq::is_compressed(e->op_own)
                              ? take_block(q, *e, out + n, want - n)
                              : take_row<true, true>(q, out + n, want - n);
    if (more == 0) break;
    n += more;
  }
  return static_cast<uint16_t>(n);
}

template <RxForm F>
[[gnu::always_inline]] inline uint16_t take(MbufRx& q, rte_mbuf** out, uint32_t want) noexcept {
  if constexpr (F.scattered)
    return take_scattered<F.lro>(q, out, want);
  else if constexpr (F.strided)
    return take_strided<F.lro>(q, out, want);
  else if constexpr (F.compressed)
    return take_compressed(q, out, want);
  else
    return take_row<F.extra, false>(q, out, want);
}

template <RxForm F>
[[gnu::always_inline]] inline uint16_t receive_mbufs(MbufRx& q, rte_mbuf** out,
                                                     uint16_t want) noexcept {
  q.keys.refresh();
  uint16_t n = take<F>(q, out, want);
  if (n == 0 && clear_front(q, F.scattered)) n = take<F>(q, out, want);
  if constexpr (!F.scattered && !F.strided) {
    if (q.mask + 1 - (q.pi - q.ci) >= MbufRx::row && !q.down) refill_rows(q);
  }
  return n;
}

template <RxForm F>
uint16_t rx_mbufs(void* queue, rte_mbuf** out, uint16_t want) {
  return receive_mbufs<F>(*static_cast<MbufRx*>(queue), out, want);
}
template <RxForm F>
uint16_t rx_mbufs_polled(void* queue, rte_mbuf** out, uint16_t want) {
  auto& q = *static_cast<MbufRx*>(queue);
  q.poller.fn(q.poller.context, MbufRx::row);
  return receive_mbufs<F>(q, out, want);
}

struct RxRow {
  RxForm form;
  MbufBurst plain, polled;
};
template <RxForm F>
constexpr RxRow rx_row{F, &rx_mbufs<F>, &rx_mbufs_polled<F>};

constexpr RxRow rx_rows[] = {
    rx_row<RxForm{}>,
    rx_row<RxForm{.extra = true}>,
    rx_row<RxForm{.extra = true, .scattered = true}>,
    rx_row<RxForm{.extra = true, .compressed = true}>,
    rx_row<RxForm{.extra = true, .strided = true}>,
    rx_row<RxForm{.extra = true, .scattered = true, .lro = true}>,
    rx_row<RxForm{.extra = true, .strided = true, .lro = true}>,
};

}  // namespace

MbufBurst select_mbuf_rx(RxForm form, bool polled) noexcept {
  form.extra = form.extra || form.scattered || form.compressed || form.strided;
  for (const RxRow& r : rx_rows)
    if (r.form == form) return polled ? r.polled : r.plain;
  return nullptr;
}

uint32_t fill_mbuf_rx(MbufRx& q) noexcept {
  q.keys.refresh();
  if (q.strides.log_count != 0) return fill_strided(q);
  if (q.segments == 1) {
    refill_rows(q);
    return q.pi - q.ci;
  }
  for (uint32_t wqe = 0; wqe <= q.mask; wqe++) {
    rte_mbuf** const mine = q.mbufs + std::size_t{wqe} * q.segments;
    if (rte_mempool_get_bulk(q.pool, reinterpret_cast<void**>(mine), q.segments) != 0) break;
    for (uint32_t k = 0; k < q.segments; k++) (void)post(q, segment(q, wqe, k), *mine[k]);
    q.pi++;
  }
  ring_rx(q);
  return q.pi - q.ci;
}

}  // namespace kilim::net
