// SPDX-License-Identifier: BSD-3-Clause
// Instantiates the whole inline API of this room, so that the undefined symbols of this object can
// be checked: no heap, lock, log, throw, virtual or system call. Never run.
#include "kilim/detail/burst/recv.hh"
#include "kilim/detail/burst/select.hh"

namespace kilim::inline v1::burst::hot {

uint32_t receive(RxQueue& q, std::span<pool::Handle> out, RxConfig c) noexcept {
  uint32_t n = rx_refill(q);
  for (const Simd s : {Simd::base, Simd::avx2}) n += select_rx(c, s).burst(q, out);
  return n;
}
uint32_t receive_other_forms(RxQueue& q, std::span<pool::Handle> out, RxConfig c) noexcept {
  uint32_t n = rx_refill_strides(q) + select_strided_rx(c).burst(q, out);
  rx_forget_strides(q);
  constexpr auto all = detail::compressed_table(std::make_index_sequence<rx_configs>{});
  for (const Simd s : {Simd::base, Simd::avx2}) n += select_compressed_rx(c, s).burst(q, out);
  n += static_cast<uint32_t>(all.size());
#if defined(__SSE4_1__)
  const pool::SideRecord none{};
  n += detail::flags_without_hash(none) + detail::last_word(none);
  n += static_cast<uint32_t>(_mm_cvtsi128_si32(detail::mini_hash_order(n != 0)));
#endif
  n += rx_burst_compressed<RxConfig{.side = true}>(q, out);
  constexpr auto strided = detail::strides_table(std::make_index_sequence<rx_configs>{});
  n += rx_burst_strides<RxConfig{.side = true}>(q, out) + static_cast<uint32_t>(strided.size());
  return n + q.rq.oldest_counter() + q.strides.bytes();
}
template <typename Queue>
uint64_t messages(RecvQueue<Queue>& q) noexcept {
  uint64_t sum = rx_refill(q);
  sum += recv_burst(q, 32, [&sum](const Message& m) noexcept { sum += m.bytes.size(); });
  return sum;
}
template uint64_t messages(RecvQueue<queue::Rq>&) noexcept;
template uint64_t messages(RecvQueue<queue::Srq>&) noexcept;

uint32_t transmit(TxQueue& q, std::span<const pool::Handle> in, TxConfig c) noexcept {
  uint32_t n = tx_room(q);
  for (const Simd s : {Simd::base, Simd::avx2}) {
    const TxVariant& v = select_tx(c, s);
    n += v.reclaim(q) + v.burst(q, in);
  }
  return n;
}
uint32_t receive_chains(RxQueue& q, std::span<pool::Handle> out, RxConfig c) noexcept {
  q.chain->set_cache(*q.cache);
  return rx_refill_chain(q) + select_rx_chain(c).burst(q, out) + q.chain->held() +
         q.chain->cache().held();
}
uint32_t restart_chain(RxQueue& q) noexcept {
  uint32_t last = 0;
  q.chain->reset([&last](uint32_t index) noexcept { last = index; });
  return last;
}
uint32_t restart(RxQueue& q, const RxPlace& place) noexcept {
  uint32_t last = place.head_bytes() + place.room() + q.rq.geometry().wqe_count;
  q.rq.reset([&last](uint32_t index) noexcept { last = index; });
  q.rq.release_owner();
  return last;
}
uint32_t take_slot(MkeySlots& slots) noexcept {
  const uint32_t slot = slots.top();
  slots.pop_free();
  return slot + slots.read_free_count();
}
uint32_t abandon(TxQueue& q) noexcept {
  return static_cast<uint32_t>(q.sent.pop_all().first.size()) + q.sent.held() + q.sent.ended_at(0);
}

}  // namespace kilim::inline v1::burst::hot
