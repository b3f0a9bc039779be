// SPDX-License-Identifier: BSD-3-Clause
// Bursts over arrays: the test writes what a device would write and reads what one would read.
#include <set>
#include <vector>

#include "burst_fixture.hh"
#include "rows_fixture.hh"
#include "ut.hh"

namespace burst_ut {
namespace {

using namespace kilim;
using namespace kilim::burst;
using pool::Handle;
using test::arena_key;
using test::Bench;
using test::buffers;

uint32_t receive(Bench& b, std::span<Handle> out, RxConfig c = {}) {
  return test::chosen_rx(c, Simd::base).burst(*b.rx, out);
}
uint32_t transmit(Bench& b, std::span<const Handle> in, TxConfig c = {}) {
  return test::chosen_tx(c, Simd::base).burst(*b.tx, in);
}

void refill_fills_the_ring() {
  Bench b;
  EQUAL(rx_refill(*b.rx), 32u);
  EQUAL(b.rx_memory.record.host(), 32u);
  std::set<uint64_t> addresses;
  for (auto& d : b.rx_memory.ring) {
    EQUAL(d.lkey.host(), arena_key.value());
    EQUAL(d.byte_count.host(), 2112u - 128u);
    addresses.insert(d.addr.host());
    auto at = d.addr.host() - reinterpret_cast<uint64_t>(b.memory.data());
    EQUAL(at % 2112, 128u);
  }
  EQUAL(addresses.size(), 32u);
  EQUAL(rx_refill(*b.rx), 0u);
}

// Three times round the ring with bursts of odd sizes; each handle names the buffer that was posted
// at its place, and what is freed comes round again.
void receive_in_order() {
  Bench b;
  rx_refill(*b.rx);
  uint16_t next = 0;
  for (uint32_t round = 0; round < 14; round++) {
    uint32_t sizes[7];
    uint64_t address[7];
    for (uint32_t i = 0; i < 7; i++) {
      sizes[i] = 60 + round * 7 + i;
      address[i] = b.rx_memory.ring[next % 32].addr.host();
      b.rx_memory.cq.write(prm::CqeOpcode::resp_send, next++, sizes[i]);
    }
    Handle out[5];
    EQUAL_FATAL(receive(b, out), 5u);
    Handle rest[5];
    EQUAL_FATAL(receive(b, rest), 2u);
    for (uint32_t i = 0; i < 7; i++) {
      Handle h = i < 5 ? out[i] : rest[i - 5];
      EQUAL(h.length, sizes[i]);
      EQUAL(b.arena.address(h).value(), address[i]);
      CU_ASSERT_FALSE(h.has(Handle::side));
      b.cache->free_one(h);
    }
  }
  EQUAL(b.rx->counters.packets.read(), 98u);
  EQUAL(b.outstanding(), b.rx->rq.posted());
}

void side_record_on_request() {
  Bench b;
  rx_refill(*b.rx);
  prm::Cqe& e = b.rx_memory.cq.write(prm::CqeOpcode::resp_send, 0, 60);
  e.rx_hash_result = be32{0xfeedbeef};
  e.hds_ip_ext = prm::cqe::l3_ok | prm::cqe::l4_ok;
  e.l4_hdr_type_etc = prm::cqe::l3_ipv4 << prm::cqe::l3_type_shift | prm::cqe::l4_udp
                                                                         << prm::cqe::l4_type_shift;
  e.timestamp = be64{77};
  Handle out[4];
  EQUAL_FATAL(receive(b, out, {.side = true, .timestamp = true}), 1u);
  CU_ASSERT_TRUE(out[0].has(Handle::side));
  const pool::SideRecord& r = b.arena.side(out[0]);
  EQUAL(r.rx_hash, 0xfeedbeef);
  EQUAL(r.packet_type, RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4_EXT_UNKNOWN | RTE_PTYPE_L4_UDP);
  EQUAL(r.flags,
        RTE_MBUF_F_RX_RSS_HASH | RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD);
  EQUAL(r.timestamp, 77u);
}

void receive_errors() {
  Bench b;
  rx_refill(*b.rx);
  b.rx_memory.cq.write(prm::CqeOpcode::resp_send, 0, 60);
  b.rx_memory.cq.write_error(prm::CqeOpcode::resp_err, 1, prm::Syndrome::local_length);
  b.rx_memory.cq.write(prm::CqeOpcode::resp_send, 2, 61);
  Handle out[8];
  EQUAL_FATAL(receive(b, out), 2u);
  EQUAL(b.rx->counters.errors.read(), 1u);
  CU_ASSERT_FALSE(b.rx->failed.read());
  for (uint16_t i = 3; i < 20; i++)
    b.rx_memory.cq.write_error(prm::CqeOpcode::resp_err, i, prm::Syndrome::wr_flush);
  Handle more[32];
  EQUAL(receive(b, more), 0u);
  CU_ASSERT_TRUE(b.rx->failed.read());
  EQUAL(b.rx->rq.posted(), 12u);  // a dead queue is not refilled
  EQUAL(b.outstanding(), 12u + 2u);
}

void dry_pool_keeps_receiving() {
  Bench b;
  uint32_t all[buffers];
  EQUAL(b.cache->alloc_indices({all, buffers - 10}), buffers - 10);
  EQUAL(rx_refill(*b.rx), 10u);
  EQUAL(b.rx->counters.no_buffer.read(), 1u);
  b.rx_memory.cq.write(prm::CqeOpcode::resp_send, 0, 60);
  Handle out[4];
  EQUAL(receive(b, out), 1u);
  b.cache->free_indices({all, 100});
  EQUAL(rx_refill(*b.rx), 23u);
}

void one_doorbell_a_burst() {
  Bench b;
  Handle h[5];
  EQUAL_FATAL(b.cache->alloc(h, 100), 5u);
  for (uint16_t i = 0; i < 5; i++) h[i].length = static_cast<uint16_t>(100 + i);
  EQUAL(transmit(b, h), 5u);
  EQUAL(b.tx_memory.record.host(), 5u);
  for (uint32_t i = 0; i < 5; i++) {
    EQUAL(prm::ctrl::wqe_index::get(b.tx_memory.ctrl(i)), i);
    EQUAL(prm::ctrl::opcode::get(b.tx_memory.ctrl(i)), 0x0au);
    EQUAL(b.tx_memory.data(i).byte_count.host(), 100 + i);
    EQUAL(b.tx_memory.data(i).addr.host(), b.arena.address(h[i]).value());
    EQUAL(b.tx_memory.data(i).lkey.host(), arena_key.value());
    // Only the last asks for a completion.
    EQUAL(b.tx_memory.ctrl(i).fm_ce_se,
          i == 4 ? prm::ctrl::cq_update : prm::ctrl::only_first_error);
  }
  uint64_t head;
  std::memcpy(&head, &b.tx_memory.ctrl(4), 8);
  EQUAL(b.tx_memory.doorbell, head);
  EQUAL(b.outstanding(), 5u);
  b.tx_memory.cq.write(prm::CqeOpcode::req, 4);
  EQUAL(test::chosen_tx({}, Simd::base).reclaim(*b.tx), 5u);
  EQUAL(b.tx->counters.completed.read(), 5u);
  EQUAL(b.tx->counters.bytes.read(), 510u);
  EQUAL(b.outstanding(), 0u);
}

// Bursts are accepted until the ring is full; completions of several bursts at once free them all.
void full_ring_returns_short() {
  Bench b;
  uint32_t sent = 0;
  for (int burst = 0; burst < 9; burst++) {
    Handle h[8];
    EQUAL_FATAL(b.cache->alloc(h, 64), 8u);
    uint32_t n = transmit(b, h);
    EQUAL(n, burst < 8 ? 8u : 0u);
    b.cache->free({h + n, 8 - n});
    sent += n;
  }
  EQUAL(sent, 64u);
  EQUAL(tx_room(*b.tx), 0u);
  for (uint16_t i = 0; i < 3; i++)
    b.tx_memory.cq.write(prm::CqeOpcode::req, static_cast<uint16_t>(i * 8 + 7));
  EQUAL(test::chosen_tx({}, Simd::base).reclaim(*b.tx), 24u);
  EQUAL(tx_room(*b.tx), 24u);
  EQUAL(b.outstanding(), 40u);
}

void chains_become_lists() {
  Bench b;
  Handle h[4];
  EQUAL_FATAL(b.cache->alloc(h, 50), 4u);
  h[0].meta |= Handle::more;
  h[1].meta |= Handle::more;
  h[3].meta |= Handle::more;  // never ends: stays with the caller
  EQUAL(transmit(b, h, {.multi_seg = true}), 3u);
  EQUAL(prm::ctrl::ds::get(b.tx_memory.ctrl(0)), 5u);
  for (uint32_t i = 0; i < 3; i++)
    EQUAL(b.tx_memory.data(0, i).addr.host(), b.arena.address(h[i]).value());
  EQUAL(b.tx_memory.record.host(), 2u);
  EQUAL(b.tx->counters.packets.read(), 1u);
  EQUAL(b.tx->counters.bytes.read(), 150u);
  b.tx_memory.cq.write(prm::CqeOpcode::req, 0);
  EQUAL(test::chosen_tx({.multi_seg = true}, Simd::base).reclaim(*b.tx), 3u);
  EQUAL(b.outstanding(), 1u);
}

// 61 pieces, as a WQE of 63 octowords has; one more, and the packet stays with the caller.
void longest_chain() {
  for (const uint32_t pieces : {61u, 62u}) {
    Bench b;
    std::vector<Handle> h(pieces);
    EQUAL_FATAL(b.cache->alloc(h, 50), pieces);
    for (uint32_t i = 0; i + 1 < pieces; i++) h[i].meta |= Handle::more;
    EQUAL(transmit(b, h, {.multi_seg = true}), pieces == 61 ? 61u : 0u);
    if (pieces == 62) continue;
    EQUAL(prm::ctrl::ds::get(b.tx_memory.ctrl(0)), 63u);
    for (uint32_t i = 0; i < pieces; i++)
      EQUAL(b.tx_memory.data(0, i).addr.host(), b.arena.address(h[i]).value());
    EQUAL(b.tx_memory.record.host(), 16u);
  }
}

// The words of `h`, each of which asks for every checksum and a tag.
void ask(Bench& b, std::span<Handle> h, pool::TxWord word) {
  for (Handle& one : h) {
    one.meta |= Handle::offload;
    b.arena.side(one).tx = word;
  }
}
const prm::EthSeg& eth_of(Bench& b, uint32_t block) {
  return reinterpret_cast<const prm::EthSeg&>(*(&b.tx_memory.ctrl(block) + 1));
}

void words_count_as_far_as_the_queue_was_set_up() {
  constexpr pool::TxWord word{.checksums = 0xf0, .tag = pool::VlanTag::service, .tci = 0x1234};
  for (const bool words : {false, true}) {
    Bench b;
    Handle h[3];
    EQUAL_FATAL(b.cache->alloc(h, 100), 3u);
    ask(b, {h, 2}, word);
    b.tx->offload = queue::EthOffload::l3;
    b.tx->offer = {.words = words, .tags = true, .checksums = queue::EthOffload::l4};
    EQUAL(transmit(b, h, {.offloads = true}), 3u);
    for (uint32_t i = 0; i < 3; i++) {
      const bool counts = words && i < 2;
      EQUAL(eth_of(b, i).cs_flags, counts ? 0xc0 : 0x40);
      EQUAL(eth_of(b, i).inline_hdr_sz.host(), counts ? 0x8001 : 0);
    }
    // No other burst looks at them.
    Handle again[1] = {h[0]};
    EQUAL(transmit(b, again), 1u);
    EQUAL(eth_of(b, 3).inline_hdr_sz.host(), 0);
  }
}

// Each stops the burst in front of it: no segmentation on this queue, too much payload, no payload,
// headers of nothing, longer than a WQE.
void packets_that_cannot_be_segmented_stay() {
  struct Row {
    uint32_t max_tso;
    uint16_t headers, length;
    bool sent;
  };
  for (const Row& row :
       {Row{0, 54, 200, false}, Row{100, 54, 155, false}, Row{100, 54, 154, true},
        Row{1000, 54, 54, false}, Row{1000, 54, 20, false}, Row{1000, 0, 200, false},
        Row{1000, 13, 200, false}, Row{1000, 979, 1100, false}}) {
    Bench b;
    Handle h[3];
    EQUAL_FATAL(b.cache->alloc(h, row.length), 3u);
    ask(b, {h + 1, 1}, {.mss = 60, .headers = row.headers});
    b.tx->offer = {.words = true, .checksums = 0, .max_tso = row.max_tso};
    EQUAL(transmit(b, h, {.offloads = true}), row.sent ? 3u : 1u);
    if (!row.sent) continue;
    EQUAL(prm::ctrl::opcode::get(b.tx_memory.ctrl(1)), 0x0eu);
    EQUAL(eth_of(b, 1).cs_flags, 0xc0);  // each frame needs its own
    EQUAL(eth_of(b, 1).mss.host(), 60);
  }
}

void gathered_is_one_segment() {
  Bench b;
  Handle h[4];
  EQUAL_FATAL(b.cache->alloc({h + 1, 3}, 50), 3u);
  h[0] = {7, 100, Handle::key | Handle::more};
  h[1].meta |= Handle::more;
  EQUAL(transmit(b, h, {.gathered = true}), 4u);
  EQUAL(prm::ctrl::ds::get(b.tx_memory.ctrl(0)), 3u);
  EQUAL(b.tx_memory.data(0).lkey.host(), 0x107u);
  EQUAL(b.tx_memory.data(0).addr.host(), 0u);
  EQUAL(b.tx_memory.data(0).byte_count.host(), 100u);
  EQUAL(b.tx_memory.data(1).lkey.host(), arena_key.value());
  EQUAL(b.tx->counters.bytes.read(), 150u);
  b.tx_memory.cq.write(prm::CqeOpcode::req, 1);
  EQUAL(test::chosen_tx({.gathered = true}, Simd::base).reclaim(*b.tx), 4u);
  EQUAL(b.slots.free_count, 1u);
  EQUAL(b.free_slots[0], 7u);
  EQUAL(b.outstanding(), 0u);
  EQUAL(b.headers_back, 1u);  // the piece with one behind it
}

void dead_queue_takes_nothing() {
  Bench b;
  Handle h[6];
  EQUAL_FATAL(b.cache->alloc(h, 50), 6u);
  EQUAL(transmit(b, {h, 2}), 2u);
  EQUAL(transmit(b, {h + 2, 2}), 2u);
  b.tx_memory.cq.write(prm::CqeOpcode::req, 1);
  b.tx_memory.cq.write_error(prm::CqeOpcode::req_err, 2, prm::Syndrome::local_prot);
  b.tx_memory.cq.write_error(prm::CqeOpcode::req_err, 3, prm::Syndrome::wr_flush);
  EQUAL(test::chosen_tx({}, Simd::base).reclaim(*b.tx), 2u);
  EQUAL(transmit(b, {h + 4, 2}), 0u);
  CU_ASSERT_TRUE(b.tx->failed.read());
  CU_ASSERT_TRUE(b.tx->sq.idle());
  EQUAL(b.tx->counters.failures.read(), 1u);
  EQUAL(b.tx->counters.errors.read(), 1u);
  EQUAL(tx_room(*b.tx), 0u);
  SentRing::Done left = b.tx->sent.pop_all();
  EQUAL(left.first.size(), 2u);
  b.cache->free(left.first);
  b.cache->free({h + 4, 2});
  EQUAL(b.outstanding(), 0u);
}

const kilim::test::Case cases[] = {
    {"a refill posts distinct buffers until the ring is full", refill_fills_the_ring},
    {"packets come in order with the buffer that was posted for them", receive_in_order},
    {"side records are written on request", side_record_on_request},
    {"an error completion costs a buffer nothing, a flush ends the queue", receive_errors},
    {"a dry pool is counted and reception goes on", dry_pool_keeps_receiving},
    {"a transmit burst rings once and asks for one completion", one_doorbell_a_burst},
    {"a full ring takes a part, completions of several bursts free them", full_ring_returns_short},
    {"a chain becomes a list of data segments", chains_become_lists},
    {"a packet has as many pieces as its WQE", longest_chain},
    {"words count as far as the queue was set up for them",
     words_count_as_far_as_the_queue_was_set_up},
    {"packets that cannot be segmented stay with the caller",
     packets_that_cannot_be_segmented_stay},
    {"a gathered packet is one data segment under its key", gathered_is_one_segment},
    {"a dead send queue takes nothing", dead_queue_takes_nothing},
};

}  // namespace
}  // namespace burst_ut

KILIM_TEST_SUITE(burst, burst_ut::cases)
