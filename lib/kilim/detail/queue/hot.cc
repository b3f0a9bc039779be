// SPDX-License-Identifier: BSD-3-Clause
// Instantiates the whole inline API of this room, so that the undefined symbols of this object can
// be checked: no heap, lock, log, throw, virtual or system call. Never run.
#include "kilim/detail/queue/completion.hh"
#include "kilim/detail/queue/cq.hh"
#include "kilim/detail/queue/device_clock.hh"
#include "kilim/detail/queue/error_log.hh"
#include "kilim/detail/queue/eth_packet.hh"
#include "kilim/detail/queue/eth_row.hh"
#include "kilim/detail/queue/eth_wqe.hh"
#include "kilim/detail/queue/geometry.hh"
#include "kilim/detail/queue/inline_recv.hh"
#include "kilim/detail/queue/mpw_row.hh"
#include "kilim/detail/queue/piece_check.hh"
#include "kilim/detail/queue/preset.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/queue/rq.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/detail/queue/sq.hh"
#include "kilim/detail/queue/srq.hh"
#include "kilim/detail/queue/watch.hh"
#include "kilim/detail/queue/wqe_cursor.hh"

namespace kilim::inline v1::queue::hot {

uint64_t sq(Sq& q, uint16_t counter) noexcept {
  const uint64_t id = q.retire(counter);
  if (q.idle()) q.reset();
  q.watch(nullptr);
  q.release_owner();
  return id + q.wr_ids()[counter] + q.credits().value() + q.geometry().wqebb_count;
}

uint32_t cursor(Sq& q) noexcept {
  WqeCursor c{q};
  c.fence_next(c.pending_fence());
  c.fence_next_user();
  c.signal_last();
  c.commit();
  if (c.retired() == c.position()) return 0;
  return c.straight(4) && c.line() != nullptr ? c.room().value() : c.qpn().value();
}

uint64_t time_of(const ClockSample& s, uint64_t stamp) noexcept {
  return DeviceClock(s).ns(stamp) - DeviceClock().ns(stamp) + DeviceClock(s).good_for_ns();
}
uint32_t row(const Cq& q) noexcept {
  return q.row().count;
}
uint32_t block(Cq& q) noexcept {
  const prm::Cqe* e = q.peek(0);
  if (e == nullptr) return 0;
  const uint32_t n = Cq::completions(*e);
  if (!Cq::is_compressed(e->op_own)) {
    q.consume_singles(n);
    return n;
  }
  q.prefetch_minis(n);
  const uint32_t last = q.mini(n - 1).byte_cnt.host();
  q.consume_block(n);
  return last;
}

#if defined(__SSE4_1__)
uint32_t eth_row(Sq& q, __m128i data) noexcept {
  WqeCursor c{q};
  EthRow row(c, EthOffload::none, WrFlags::none);
  row.put(_mm_or_si128(data, _mm_or_si128(EthRow::first_control(c, WrFlags::none),
                                          EthRow::eth_segment(EthOffload::none))));
  EthRow::close(c, 1);
  return c.row();
}
[[gnu::target("avx2")]] uint32_t wide_eth_row(Sq& q, __m256i data) noexcept {
  WqeCursor c{q};
  WideEthRow row(c, EthOffload::none, WrFlags::none);
  row.put_four(data, data);
  WideEthRow::close(c, 4);
  return c.row();
}
[[gnu::target("avx2")]] uint32_t mpw_row(Sq& q, __m256i data) noexcept {
  WqeCursor c{q};
  MpwRow row(c, EthOffload::none, WrFlags::none);
  row.put_four(data, data);
  row.put(_mm256_castsi256_si128(data));
  row.close(c, 5);
  return static_cast<uint32_t>(MpwRow::most(c));
}
#endif

bool made_on_the_spot(Sq& q, uint64_t at) noexcept {
  WqeCursor c{q};
  const Remote to;
  return rdma_write(c, to, Sge{at, 64, Lkey{1}}, {}) &&
         rdma_read(c, to, Sge{at, 64, Lkey{1}}, {}) && send(c, Sge{at, 64, Lkey{1}}, {});
}

uint32_t write_burst(Sq& q, std::span<const Sge> from, const Remote& to) noexcept {
  WqeCursor c{q};
  uint32_t n = 0;
  for (const Sge& s : from) {
    if (!rdma_write(c, to, s, Wr{.id = n})) break;
    n++;
  }
  if (n != 0) c.signal_last();
  c.commit();
  return n;
}

bool rc(Sq& q, std::span<const Sge> list, const Remote& remote, const Wr& wr) noexcept {
  WqeCursor c{q};
  const Atomic a{.target = remote, .result_address = list[0].address, .result_key = list[0].key};
  bool ok = rdma_read(c, remote, list[0], wr) && send(c, list[0], wr);
  ok = ok && send_invalidate(c, list[0], Rkey{1}, wr);
  ok = ok && rdma_write(c, remote, list, wr) && rdma_write_imm(c, remote, list, wr);
  ok = ok && rdma_read(c, remote, list, wr) && send(c, list, wr) && send_imm(c, list, wr);
  ok = ok && compare_and_swap(c, a, wr) && fetch_and_add(c, a, wr);
  c.commit();
  return ok;
}

bool eth(Sq& q, std::span<const Sge> frame, const Wr& wr) noexcept {
  WqeCursor c{q};
  const bool ok = eth_send(c, frame[0], EthOffload::none, wr) &&
                  eth_send(c, frame, EthOffload::l3 | EthOffload::l4, wr);
  c.commit();
  return ok;
}

bool eth_packets(Sq& q, std::span<const Sge> frame, std::span<const std::byte> header) noexcept {
  WqeCursor c{q};
  const bool ok = eth_send_tagged(c, frame[0], EthOffload::l4, service_tag(2), {}) &&
                  eth_packet(c, {.tag = customer_tag(1)}, frame, {}) &&
                  eth_packet(c, {.mss = 9, .tag = service_tag(1), .bytes = header}, frame, {});
  c.commit();
  return ok;
}

std::size_t refused(const Outcome& a) noexcept {
  return a ? 0 : std::size_t{a.asked} - a.limit;
}

uint64_t rq(Rq& q, std::span<const Sge> into, std::span<const uint64_t> ids) noexcept {
  uint64_t sum = q.post_burst(into, ids) + q.posted();
  sum += q.post(into[0], ids[0]) && q.post(into, ids[0]) ? 1 : 0;
  q.ring();
  sum += q.wr_id(0) + q.retire(0);
  q.reset([&sum](uint64_t id) noexcept { sum += id; });
  q.release_owner();
  return sum + q.max_pieces() + q.geometry().stride;
}

uint64_t srq(Srq& q, std::span<const Sge> into, uint16_t index) noexcept {
  uint64_t sum = q.room() + q.posted() + q.max_pieces() + q.geometry().stride;
  sum += q.post(into[0], 1) && q.post(into, 2) ? 1 : 0;
  q.ring();
  sum += q.wr_id(index) + q.retire(index);
  q.end([&sum](uint64_t id) noexcept { sum += id; });
  q.release_owner();
  return sum;
}

uint64_t inlined(Cq& q, InlineCounters& counters, std::span<std::byte> room) noexcept {
  uint64_t sum = 0;
  sum += for_each_completion(q, 32, counters,
                             [&](const Completion& c, std::span<const std::byte> data) noexcept {
                               sum += c.byte_len + copy_out(data, room);
                             });
  const prm::Cqe* e = q.peek(0);
  return sum + (e != nullptr && has_inline_data(*e) ? inline_data(*e).size() : 0);
}

void arm(Cq& q, uint32_t seen) noexcept {
  q.arm(seen);
}

uint32_t poll(Cq& q, std::span<Completion> out) noexcept {
  return q.poll(out);
}

void ready(const CqGeometry& ring) noexcept {
  preset(ring);
}

uint32_t poll_sent(Cq& q, std::span<Completion> out, Sq& s) noexcept {
  return q.poll(out, s);
}

uint32_t drain(Cq& q, Sq& s) noexcept {
  const Cq::Drained d = q.drain(64);
  if (d.cqes != 0) s.retire(d.wqe_counter);
  if (d.error) s.retire_to(s.posted());
  return d.cqes;
}

uint32_t bytes(Cq& q) noexcept {
  uint32_t sum = 0;
  uint32_t n = 0;
  while (const prm::Cqe* e = q.peek(n)) {
    sum += e->byte_cnt.host();
    n++;
  }
  q.consume(n);
  q.release_owner();
  return sum + q.geometry().cqe_count;
}

uint64_t lost(Sq& s, Cq& q) noexcept {
  uint64_t sum = s.posted() - s.retired();
  s.abandon([&sum](uint64_t id, bool signalled) noexcept { sum += signalled ? id : 0; });
  q.restore_record();
  WqeCursor c{s};
  c.leave();
  c.reload();
  WqeCursor other = c.aside();
  other.signal_last();
  c.resume(other);
  return sum + c.position() + (c.writes(s) ? 1 : 0) + (c.has_pending_fence() ? 1 : 0);
}

void zero(WqeCursor& c) noexcept {
  store_zero(c.segment(1));
}

std::size_t noted(ErrorLog& log, const Completion& c, const Sq& s, const Rq& r,
                  NotedError& out) noexcept {
  log.note_send(c, s.geometry());
  log.note_receive(c, r.geometry());
  return log.read(out) ? out.bytes().size() : 0;
}

bool good(const Completion& c) noexcept {
  return c.ok() && c.of_requester();
}

}  // namespace kilim::inline v1::queue::hot
