// SPDX-License-Identifier: BSD-3-Clause
#include "net/kilim/mbuf_tx.hh"

#include <array>
#include <cerrno>
#include <span>

#include <rte_ethdev.h>
#include <rte_mempool.h>
#include <rte_net.h>

#include "kilim/detail/queue/eth_packet.hh"
#include "kilim/detail/queue/eth_wqe.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "net/kilim/ethdev.hh"
#include "net/kilim/tx_request.hh"

namespace kilim::net {
namespace {

// Every WQE of a burst but the last. If the queue fails, only its first error makes a CQE.
constexpr queue::Wr unsignalled{.flags = queue::WrFlags::only_first_error};
constexpr uint32_t wqe_heads = 2;  // octowords before the data segments

// What the device does not do with the shortest WQE: an offload, or data that lie elsewhere.
constexpr uint64_t no_plain =
    RTE_MBUF_F_TX_OFFLOAD_MASK | RTE_MBUF_F_EXTERNAL | RTE_MBUF_F_INDIRECT;

// Frees `n` packets. All of one mempool, nobody else's and of one mbuf each: as they are.
void free_packets(MbufTx& q, rte_mbuf** from, uint32_t n) noexcept {
  if (q.fast_free && !q.chains)
    rte_mempool_put_bulk(from[0]->pool, reinterpret_cast<void* const*>(from), n);
  else
    rte_pktmbuf_free_bulk(from, n);
}

void free_up_to(MbufTx& q, uint32_t end) noexcept {
  const uint32_t at = q.tail & q.mask, n = end - q.tail;
  const uint32_t to_end = q.mask + 1 - at;
  const uint32_t first = n < to_end ? n : to_end;
  if (first != 0) free_packets(q, q.sent + at, first);
  if (n != first) free_packets(q, q.sent, n - first);
  q.tail = end;
}

[[gnu::noinline, gnu::cold]] void note_error(MbufTx& q) noexcept {
  queue::Completion c[4];
  while (q.cq->poll(c) != 0) {
  }
  q.counts->failures.add(1);
  q.down.set(true);
}

// The frame's start that goes into the WQE: where it lies, or put together in `room`.
using HeaderRoom = std::array<std::byte, queue::max_inlined>;

bool has_keys(MbufTx& q, const rte_mbuf& packet) noexcept {
  for (const rte_mbuf* m = &packet; m != nullptr; m = m->next) {
    const auto at = reinterpret_cast<uint64_t>(m->buf_addr) + m->data_off;
    const uint32_t n = m->data_len;
    if (n != 0 && !q.keys.last().covers(at, n) && !q.keys.find(*m, at, n)) return false;
  }
  return true;
}

enum class Append : uint8_t { done, full, dropped };

// Any packet by a WQE of its own.
[[gnu::noinline]] Append append_packet(MbufTx& q, queue::WqeCursor& c, rte_mbuf& m) noexcept {
  HeaderRoom room;
  TxRequest r;
  if (!read_request(q, m, r)) return Append::dropped;
  if (r.inlined != m.pkt_len && !has_keys(q, m)) return Append::dropped;
  if (r.inlined != 0) {
    const void* at = rte_pktmbuf_read(&m, 0, r.inlined, room.data());
    if (at == nullptr) return Append::dropped;
    r.head.bytes = {static_cast<const std::byte*>(at), r.inlined};
  }
  uint32_t skip = r.inlined;
  const uint32_t pieces = r.inlined == m.pkt_len ? 0 : m.nb_segs;
  const rte_mbuf* segment = &m;
  const Outcome a = queue::eth_packet(
      c, r.head, pieces,
      [&](std::size_t) noexcept {
        const rte_mbuf& s = *segment;
        segment = s.next;
        const uint32_t gone = skip < s.data_len ? skip : s.data_len;
        skip -= gone;
        const queue::Sge none{};
        if (gone == s.data_len) return none;
        const auto at = reinterpret_cast<uint64_t>(s.buf_addr) + s.data_off + gone;
        const auto n = static_cast<uint32_t>(s.data_len - gone);
        if (!q.keys.last().covers(at, n)) (void)q.keys.find(s, at, n);
        return queue::Sge{at, n, q.keys.last().key};
      },
      unsignalled);
  if (a) return Append::done;
  return a.why == Refusal::no_room ? Append::full : Append::dropped;
}

}  // namespace

uint32_t reclaim_mbuf_tx(MbufTx& q) noexcept {
  const queue::Cq::Drained d = q.cq->drain(64);
  if (d.cqes == 0) {
    if (d.error) [[unlikely]]
      note_error(q);
    return 0;
  }
  q.sq->retire(d.wqe_counter);
  const uint32_t before = q.tail;
  q.end_tail += d.cqes;
  free_up_to(q, q.ends[(q.end_tail - 1) & q.end_mask]);
  return q.tail - before;
}

uint32_t empty_mbuf_tx(MbufTx& q) noexcept {
  const uint32_t n = q.head - q.tail;
  free_up_to(q, q.head);
  q.end_tail = q.end_head;
  return n;
}

namespace {

// Flags that say which checksums a packet asks for.
constexpr uint64_t sum_flags =
    RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_L4_MASK | RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IPV6;

constexpr uint8_t sums_of(uint64_t flags) noexcept {
  uint8_t sums = queue::EthOffload::none;
  if ((flags & RTE_MBUF_F_TX_IP_CKSUM) != 0) sums |= queue::EthOffload::l3;
  if ((flags & RTE_MBUF_F_TX_L4_MASK) != 0) sums |= queue::EthOffload::l4;
  return sums;
}

// True: the flags ask for checksums or a tag alone, which the device computes and puts in.
bool is_told_in_place(const MbufTx& q, uint64_t flags) noexcept {
  if ((flags & ~(sum_flags | RTE_MBUF_F_TX_VLAN)) != 0) return false;
  if ((flags & RTE_MBUF_F_TX_L4_MASK) == RTE_MBUF_F_TX_SCTP_CKSUM) return false;
  return (q.checksums || sums_of(flags) == queue::EthOffload::none) &&
         (q.tags || (flags & RTE_MBUF_F_TX_VLAN) == 0);
}

// Packets of one mbuf, from the front, as one WQE: a SEND of one, or an enhanced multi-packet WQE,
// whose first data segment lies where a SEND's does. They ask for nothing, or, where the row asks,
// all for `flags`, which are checksums: the WQE says them once (DPDK mlx5_tx.h,
// mlx5_tx_match_empw()). Returns how many.
template <bool asks>
[[gnu::always_inline]] inline uint32_t append_row(MbufTx& q, queue::WqeCursor& c,
                                                  std::span<rte_mbuf* const> in, uint64_t flags,
                                                  uint64_t& bytes) noexcept {
  const uint32_t octowords = c.row() * 4;
  if (octowords <= wqe_heads) return 0;
  const uint32_t fits = (octowords < prm::max_ds ? octowords : prm::max_ds) - wqe_heads;
  const auto count = static_cast<uint32_t>(in.size());
  uint32_t most = count < fits ? count : fits;
  most = q.most < most ? q.most : most;
  const uint32_t at = q.head & q.mask, to_end = q.mask + 1 - at;
  most = to_end < most ? to_end : most;
  std::byte* to = c.line() + std::size_t{wqe_heads} * octoword_bytes;
  // A packet's place in `sent` is as far from the one in `in` for each: one pointer less to move.
  const uintptr_t apart =
      reinterpret_cast<uintptr_t>(q.sent + at) - reinterpret_cast<uintptr_t>(in.data());
  KeySpan span = q.keys.last();
  // Both bounds of a length by one comparison.
  const uint32_t least = q.plain_least;
  const uint32_t longest = longest_frame(q), lengths = longest < least ? 0 : longest + 1 - least;
  uint64_t sum = 0;
  rte_mbuf* const* from = in.data();
  for (rte_mbuf* const* const end = from + most; from != end; from++, to += octoword_bytes) {
    rte_mbuf* const m = *from;
    const uint32_t length = m->data_len;
    if ((m->ol_flags & no_plain) != (asks ? flags : 0) || m->nb_segs != 1 ||
        length - least >= lengths || (asks && m->pkt_len != length)) [[unlikely]]
      break;
    const uint64_t address = reinterpret_cast<uint64_t>(m->buf_addr) + m->data_off;
    if (address - span.first >= span.bytes) [[unlikely]] {
      if (!q.keys.find(*m, address, length)) break;
      span = q.keys.last();
    }
    queue::store_pointer(to, address, length, span.key);
    *reinterpret_cast<rte_mbuf**>(reinterpret_cast<uintptr_t>(from) + apart) = m;
    sum += length;
  }
  const auto n = static_cast<uint32_t>(from - in.data());
  if (n == 0) return 0;
  bytes += sum;
  const Octowords ds{wqe_heads + n};
  queue::store_eth(c.line() + octoword_bytes, asks ? sums_of(flags) : queue::EthOffload::none);
  c.control(n == 1 ? prm::Opcode::send : prm::Opcode::enhanced_mpsw, ds, unsignalled.flags, 0);
  c.advance(wqebbs_for(ds).value(), 0);
  q.head += n;
  return n;
}

// Packets of one mbuf that each ask for a tag, from the front: a SEND each, into which the device
// puts it, as DPDK's driver sends them (mlx5_tx.h, mlx5_tx_able_to_empw(), "VLAN"). Returns how
// many.
uint32_t append_tagged(MbufTx& q, queue::WqeCursor& c, std::span<rte_mbuf* const> in,
                       uint64_t& bytes) noexcept {
  const uint32_t least = q.plain_least, longest = longest_frame(q);
  uint32_t n = 0;
  for (rte_mbuf* const m : in) {
    const uint64_t flags = m->ol_flags & no_plain;
    const uint32_t length = m->data_len;
    if ((flags & RTE_MBUF_F_TX_VLAN) == 0 || !is_told_in_place(q, flags) || m->nb_segs != 1 ||
        m->pkt_len != length || length < least || length + queue::vlan_tag_bytes > longest)
      break;
    const uint64_t address = reinterpret_cast<uint64_t>(m->buf_addr) + m->data_off;
    if (!q.keys.last().covers(address, length) && !q.keys.find(*m, address, length)) break;
    const queue::Sge frame{address, length, q.keys.last().key};
    if (!queue::eth_send_tagged(c, frame, sums_of(flags), queue::customer_tag(m->vlan_tci),
                                unsignalled))
      break;
    q.sent[q.head++ & q.mask] = m;
    bytes += length;
    n++;
  }
  return n;
}

// False for what append_asking() would look at in vain: chains, and what asks for more or nothing.
bool asks_in_place(const rte_mbuf& m) noexcept {
  const uint64_t flags = m.ol_flags & no_plain;
  return m.nb_segs == 1 && flags != 0 && (flags & ~(sum_flags | RTE_MBUF_F_TX_VLAN)) == 0;
}

// Packets from the front that ask for something and need no look at their bytes; returns how many.
[[gnu::noinline]] uint32_t append_asking(MbufTx& q, queue::WqeCursor& c,
                                         std::span<rte_mbuf* const> in, uint64_t& bytes) noexcept {
  const uint64_t flags = in[0]->ol_flags & no_plain;
  if (!is_told_in_place(q, flags)) return 0;
  if ((flags & RTE_MBUF_F_TX_VLAN) != 0) return append_tagged(q, c, in, bytes);
  return append_row<true>(q, c, in, flags, bytes);
}

// Returns the packets taken; `posted` those of them that have a WQE.
// NOLINTNEXTLINE(readability-function-size): inlined, so what it counts stays in registers
[[gnu::always_inline]] inline uint32_t append_all(MbufTx& q, queue::WqeCursor& c,
                                                  rte_mbuf* const* in, uint32_t count,
                                                  uint64_t& bytes, uint32_t& posted) noexcept {
  uint32_t taken = 0;
  while (taken < count) {
    if (q.min_inline == 0) {
      const std::span<rte_mbuf* const> rest{in + taken, count - taken};
      uint32_t n = append_row<false>(q, c, rest, 0, bytes);
      if (n == 0 && asks_in_place(*rest[0])) n = append_asking(q, c, rest, bytes);
      taken += n;
      posted += n;
      if (n != 0) continue;
    }
    rte_mbuf* const m = in[taken];
    const Append a = append_packet(q, c, *m);
    if (a == Append::full) break;
    taken++;
    if (a == Append::dropped) {
      q.counts->errors.add(1);
      rte_pktmbuf_free(m);
      continue;
    }
    q.chains = q.chains || m->nb_segs != 1;
    q.sent[q.head++ & q.mask] = m;
    bytes += m->pkt_len;
    posted++;
  }
  return taken;
}

[[gnu::always_inline]] inline uint16_t send_mbufs(MbufTx& q, rte_mbuf** in,
                                                  uint16_t want) noexcept {
  const TxVisit visit{q};
  q.keys.refresh();
  if (q.down) [[unlikely]] {
    q.port->recover_tx(q.number);
    if (q.down) return 0;
  }
  reclaim_mbuf_tx(q);
  if (q.end_head - q.end_tail > q.end_mask || q.down) return 0;
  const uint32_t room = q.mask + 1 - (q.head - q.tail);
  const uint32_t count = want < room ? want : room;
  queue::WqeCursor c{*q.sq};
  uint64_t bytes = 0;
  uint32_t posted = 0;
  const uint32_t taken = append_all(q, c, in, count, bytes, posted);
  if (posted == 0) return static_cast<uint16_t>(taken);
  c.signal_last();
  c.commit();
  q.ends[q.end_head++ & q.end_mask] = q.head;
  q.counts->packets.add(posted);
  q.counts->bytes.add(bytes);
  return static_cast<uint16_t>(taken);
}

uint16_t tx_mbufs(void* queue, rte_mbuf** in, uint16_t want) {
  return send_mbufs(*static_cast<MbufTx*>(queue), in, want);
}
uint16_t tx_mbufs_polled(void* queue, rte_mbuf** in, uint16_t want) {
  auto& q = *static_cast<MbufTx*>(queue);
  q.poller.fn(q.poller.context, MbufRx::row);
  return send_mbufs(q, in, want);
}

// Flags that no queue of ours fulfils.
constexpr uint64_t unfulfilled =
    RTE_MBUF_F_TX_OFFLOAD_MASK &
    ~(RTE_MBUF_F_TX_VLAN | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_L4_MASK | RTE_MBUF_F_TX_TCP_SEG |
      RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IPV6);

int refusal_of(const MbufTx& q, const rte_mbuf& m) noexcept {
  const uint64_t l4 = m.ol_flags & RTE_MBUF_F_TX_L4_MASK;
  if ((m.ol_flags & unfulfilled) != 0 || l4 == RTE_MBUF_F_TX_SCTP_CKSUM) return ENOTSUP;
  TxRequest r;
  if (!read_request(q, m, r)) return EINVAL;
  const uint32_t tag = r.head.tag != 0 && r.inlined != 0 ? queue::vlan_tag_bytes : 0;
  const uint32_t pieces = r.inlined == m.pkt_len ? 0 : m.nb_segs;
  return queue::heads_with(r.inlined + tag) + pieces > prm::max_ds ? EINVAL : 0;
}

}  // namespace

MbufBurst select_mbuf_tx(bool polled) noexcept {
  return polled ? tx_mbufs_polled : tx_mbufs;
}

uint16_t prepare_mbuf_tx(void* queue, rte_mbuf** mbufs, uint16_t count) noexcept {
  const auto& q = *static_cast<const MbufTx*>(queue);
  for (uint16_t i = 0; i < count; i++) {
    if (const int why = refusal_of(q, *mbufs[i]); why != 0) {
      rte_errno = why;
      return i;
    }
  }
  return count;
}

}  // namespace kilim::net
