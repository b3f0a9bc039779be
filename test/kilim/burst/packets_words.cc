// SPDX-License-Identifier: BSD-3-Clause
// Bursts of packets of which some ask for checksums or a tag, over rings that wrap: each WQE says
// what the words of its packets say, in the order of the packets; those that share a WQE ask for
// the same (DPDK mlx5_tx.h, mlx5_tx_match_empw()). Test only, one thread.
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "burst_fixture.hh"
#include "forms_cases.hh"
#include "kilim/detail/queue/eth_packet.hh"
#include "rows_fixture.hh"
#include "ut.hh"

namespace packets_words_ut {
namespace {

using namespace kilim;
using namespace kilim::burst;
using pool::Handle;
using pool::TxWord;
using pool::VlanTag;
using test::Bench;

constexpr uint8_t l3 = queue::EthOffload::l3, l4 = queue::EthOffload::l4;
constexpr TxWord none{}, segmented{.mss = 100, .headers = 54};
constexpr TxWord words[] = {none,
                            {.checksums = l3 | l4},
                            {.checksums = l4},
                            {.checksums = l3, .tci = 0x777},  // no tag: the TCI is nothing
                            {.checksums = l4, .tag = VlanTag::customer, .tci = 0x2345},
                            {.tag = VlanTag::service, .tci = 0xfedc}};

// A queue whose offer is one row of the test, and what it sent.
class Asking {
 public:
  Asking(const TxVariant& v, const TxOffer& offer, uint32_t side_piece)
      : b_(side_piece), variant_(v) {
    b_.tx->offer = offer;
    b_.tx->offload = offload;
  }
  void round() {
    std::array<Handle, 47> in;
    const uint32_t got = b_.cache->alloc(std::span(in).first(1 + below(in.size())), 1);
    const bool all_alike = below(4) == 0;
    const TxWord common = words[1 + below(std::size(words) - 1)];
    for (Handle& h : std::span(in).first(got)) fill(h, all_alike ? common : random_word());
    const uint32_t first = b_.tx->sq.posted();
    const uint32_t sent = variant_.burst(*b_.tx, std::span(in).first(got));
    EQUAL_FATAL(sent, expected(std::span(in).first(got)));
    if (sent != 0) compare(first, std::span(in).first(sent));
    b_.cache->free({&in[sent], got - sent});
  }
  void finish() {
    (void)variant_.reclaim(*b_.tx);
    EQUAL(b_.outstanding(), 0u);
    EQUAL(b_.tx->counters.bytes.read(), bytes_);
    const bool in_rows = b_.tx->offer.words && b_.arena.side_piece() == 0;
    if (variant_.config.multi_packet && in_rows) CU_ASSERT_TRUE(longest_ > 30);
  }

 private:
  static constexpr uint8_t offload = l3;

  uint32_t below(std::size_t n) { return static_cast<uint32_t>(random_() % n); }
  TxWord random_word() {
    if (below(60) == 0) return segmented;
    return below(2) == 0 ? last_ : last_ = words[below(std::size(words))];
  }
  void fill(Handle& h, TxWord word) {
    h.length = static_cast<uint16_t>(below(80) == 0 ? 0 : 64 + below(1400));
    h.meta = pool::meta_at(below(500));
    b_.arena.side(h).tx = word;
    if (word != none || below(8) == 0) h.meta |= Handle::offload;
  }
  // What counts of a packet's word.
  [[nodiscard]] TxWord word_of(Handle h) const {
    const bool asks = b_.tx->offer.words && h.has(Handle::offload);
    return asks ? b_.arena.side(h).tx : none;
  }
  [[nodiscard]] uint32_t expected(std::span<const Handle> in) const {
    const auto stops = [this](Handle h) { return h.length == 0 || word_of(h).mss != 0; };
    return static_cast<uint32_t>(std::ranges::find_if(in, stops) - in.begin());
  }

  void compare(uint32_t first, std::span<const Handle> sent) {
    uint32_t at = first, last = first;
    for (std::size_t done = 0; done < sent.size(); at += blocks_) {
      last = at;
      const prm::CtrlSeg& ctrl = b_.tx_memory.ctrl(at);
      const uint32_t ds = prm::ctrl::ds::get(ctrl);
      const bool many = prm::ctrl::opcode::get(ctrl) == 0x29u;
      EQUAL_FATAL(many, many && variant_.config.multi_packet);
      EQUAL_FATAL(ctrl.opmod_idx_opcode.host(), (at & 0xffff) << 8 | (many ? 0x29u : 0x0au));
      blocks_ = (ds + 3) / 4;
      if (!many) {
        compare_one(at, ds, sent[done++]);
        continue;
      }
      longest_ = std::max(longest_, ds - 2);
      for (uint32_t i = 0; i < ds - 2; i++) {
        CU_ASSERT_TRUE_FATAL(done < sent.size());
        EQUAL_FATAL(word_of(sent[done]).tag == VlanTag::none, true);
        compare_head(at, sent[done], 0, 0);
        compare_data(b_.tx_memory.data(at, i), sent[done++], 0);
      }
    }
    EQUAL_FATAL(b_.tx->sq.posted(), at);
    EQUAL_FATAL(b_.tx_memory.ctrl(last).fm_ce_se, prm::ctrl::cq_update);
    b_.tx_memory.cq.write(prm::CqeOpcode::req, static_cast<uint16_t>(last));
  }
  void compare_one(uint32_t at, uint32_t ds, Handle h) {
    const TxWord w = word_of(h);
    if (w.tag == VlanTag::none || b_.tx->offer.tags) {
      EQUAL_FATAL(ds, 3u);
      const uint32_t kind = w.tag == VlanTag::none      ? 0u
                            : w.tag == VlanTag::service ? 0x8001u
                                                        : 0x8000u;
      compare_head(at, h, kind, kind != 0 ? w.tci : 0);
      return compare_data(b_.tx_memory.data(at), h, 0);
    }
    // The tag lies among the bytes that are inlined: 14, of which two are in the segment.
    EQUAL_FATAL(ds, 4u);
    const auto* inlined = reinterpret_cast<const std::byte*>(&b_.tx_memory.data(at));
    const std::byte* frame = b_.arena.data(h);
    be16 start;
    std::memcpy(&start, frame, sizeof start);
    compare_head(at, h, 18, start.host());
    EQUAL(std::memcmp(inlined, frame + 2, 10), 0);
    be16 tci;
    std::memcpy(&tci, inlined + 12, sizeof tci);
    EQUAL(tci.host(), w.tci);
    compare_data(b_.tx_memory.data(at, 1), h, 14);
  }
  void compare_head(uint32_t at, Handle h, uint32_t size, uint32_t start) {
    const auto& eth = reinterpret_cast<const prm::EthSeg&>(*(&b_.tx_memory.ctrl(at) + 1));
    EQUAL_FATAL(eth.cs_flags, offload | (word_of(h).checksums & b_.tx->offer.checksums));
    be16 started;
    std::memcpy(&started, eth.inline_hdr_start, sizeof started);
    EQUAL_FATAL(eth.inline_hdr_sz.host(), size);
    EQUAL_FATAL(started.host(), start);
    EQUAL_FATAL(eth.swp_outer_l4 | eth.swp_outer_l3 | eth.swp_inner_l4 | eth.swp_inner_l3, 0);
    EQUAL_FATAL(eth.mss.host(), 0);
    EQUAL_FATAL(eth.swp_flags, 0);
    EQUAL_FATAL(eth.rsvd2.host(), 0);
  }
  void compare_data(const prm::DataSeg& data, Handle h, uint32_t inlined) {
    EQUAL_FATAL(data.byte_count.host(), h.length - inlined);
    EQUAL_FATAL(data.lkey.host(), test::arena_key.value());
    EQUAL_FATAL(data.addr.host(), b_.arena.address(h).value() + inlined);
    bytes_ += h.length;
  }

  Bench b_;
  const TxVariant& variant_;
  std::mt19937_64 random_{11};
  TxWord last_;
  uint64_t bytes_ = 0;
  uint32_t blocks_ = 0, longest_ = 0;
};

// Packets of several pieces, of which some are empty, and packets under a key, of which some ask,
// as far as the variant has them: each has a WQE of its own, in order, over the ends of both rings,
// and its buffers and its key come back.
class Chains {
 public:
  explicit Chains(const TxVariant& v)
      : variant_(v), b_(0, v.config.two_pools ? header_buffers : 0) {
    for (uint32_t i = 0; i < b_.keys.size(); i++) keys_.push_back(i);
    if (v.config.offloads)
      b_.tx->offer = {.words = true, .tags = true, .checksums = uint8_t{l3 | l4}};
  }
  void round() {
    reclaim();
    std::vector<Handle> in;
    std::vector<std::size_t> pieces;  // handles of each packet
    while (in.size() < 60 && make_packet(in)) pieces.push_back(in.size() - taken(pieces));
    const uint32_t first = b_.tx->sq.posted(), room = b_.tx->sq.credits().value();
    const uint32_t held = static_cast<uint32_t>(b_.tx->sent.room());
    const uint32_t sent = variant_.burst(*b_.tx, in);
    uint32_t at = first;
    std::size_t done = 0;
    for (std::size_t i = 0; i < pieces.size() && done < sent; done += pieces[i++])
      at = compare(at, std::span(in).subspan(done, pieces[i]));
    EQUAL_FATAL(done, sent);
    EQUAL_FATAL(b_.tx->sq.posted(), at);
    // What did not leave had no room.
    if (sent < in.size()) CU_ASSERT_TRUE_FATAL(room - (at - first) < 12 || held - sent < 45);
    for (const Handle h : std::span(in).subspan(sent)) give_back(h);
    if (at != first) ends_.push_back(static_cast<uint16_t>(last_));
    while (!ends_.empty() && (below(3) != 0 || ends_.size() > 2)) complete();
  }
  void finish() {
    while (!ends_.empty()) complete();
    reclaim();
    EQUAL(b_.outstanding(), 0u);
    if (b_.header_pool) EQUAL(b_.header_pool->available(), header_buffers);
    EQUAL(keys_.size(), b_.keys.size());
    EQUAL(b_.tx->counters.bytes.read(), bytes_);
    EQUAL(b_.tx->counters.packets.read(), packets_);
    CU_ASSERT_TRUE(packets_ > 1000);
    EQUAL(under_key_ > 100, variant_.config.gathered);
    EQUAL(asked_ > 100, variant_.config.offloads);
  }

 private:
  static constexpr uint32_t header_buffers = 60;

  uint32_t below(std::size_t n) { return static_cast<uint32_t>(random_() % n); }
  static std::size_t taken(std::span<const std::size_t> pieces) {
    return std::accumulate(pieces.begin(), pieces.end(), std::size_t{0});
  }
  void reclaim() {
    (void)variant_.reclaim(*b_.tx);
    while (b_.slots.free_count != 0) keys_.push_back(b_.free_slots[--b_.slots.free_count]);
  }
  void give_back(Handle h) {
    if (h.has(Handle::key)) return keys_.push_back(h.index);
    const bool head = b_.header_pool && b_.header_pool->has(h.index);
    (head ? b_.headers : b_.cache)->free_one(h);
  }
  // The buffer of one piece; the first ones are from the pool of headers.
  bool add_piece(std::vector<Handle>& in, bool first) {
    const bool head = b_.header_pool && first && below(4) != 0;
    Handle h;
    // Pieces behind a key go back to the cache of headers, which may be of the same pool.
    const bool got = (head ? b_.headers : b_.cache)->alloc({&h, 1}, 1) == 1;
    if (!got && (b_.header_pool || b_.headers->alloc({&h, 1}, 1) != 1)) return false;
    h.length = static_cast<uint16_t>(below(30) == 0 ? 0 : 1 + below(1400));
    h.meta = pool::meta_at(below(500)) | Handle::more;
    in.push_back(h);
    return true;
  }
  // Appends a packet; false: there is no buffer for it.
  bool make_packet(std::vector<Handle>& in) {
    const TxConfig c = variant_.config;
    const std::size_t begin = in.size();
    const bool keyed = c.gathered && !keys_.empty() && below(3) == 0;
    uint32_t n = 1 + below(c.multi_seg || keyed ? (below(8) == 0 ? 40 : 5) : 1);
    if (keyed) {
      in.push_back({keys_.back(), 0, Handle::key | Handle::more});
      keys_.pop_back();
    }
    const std::size_t pieces_at = in.size();
    while (n > 0 && add_piece(in, in.size() == pieces_at)) n--;
    if (in.size() == pieces_at) {
      for (; in.size() > begin; in.pop_back()) give_back(in.back());
      return false;
    }
    in.back().length = 60;  // not all of them are empty
    in.back().meta &= static_cast<uint16_t>(~Handle::more);
    uint32_t bytes = 0;
    for (const Handle h : std::span(in).subspan(pieces_at)) bytes += h.length;
    if (keyed) in[begin].length = static_cast<uint16_t>(bytes);
    if (c.offloads && below(2) == 0) {
      b_.arena.side(in[begin]).tx = words[below(std::size(words))];
      in[begin].meta |= Handle::offload;
    }
    return true;
  }
  // The WQE at `at`; returns the next one's place.
  uint32_t compare(uint32_t at, std::span<const Handle> packet) {
    uint32_t ds = 2;
    if (packet[0].has(Handle::key)) {
      const prm::DataSeg& data = b_.tx_memory.data(at % test::TxMemory::blocks, ds++ - 2);
      EQUAL_FATAL(data.byte_count.host(), uint32_t{packet[0].length});
      EQUAL_FATAL(data.lkey.host(), b_.keys[packet[0].index].value());
      EQUAL_FATAL(data.addr.host(), 0u);
      bytes_ += packet[0].length;
      under_key_++;
      packet = {};
    }
    for (const Handle h : packet) {
      bytes_ += h.length;
      if (h.length == 0) continue;
      const prm::DataSeg& data = b_.tx_memory.data(at % test::TxMemory::blocks, ds++ - 2);
      EQUAL_FATAL(data.byte_count.host(), uint32_t{h.length});
      EQUAL_FATAL(data.lkey.host(), test::arena_key.value());
      EQUAL_FATAL(data.addr.host(), b_.arena.address(h).value());
    }
    const prm::CtrlSeg& ctrl = b_.tx_memory.ctrl(at);
    EQUAL_FATAL(ctrl.opmod_idx_opcode.host(), (at & 0xffff) << 8 | 0x0au);
    EQUAL_FATAL(ctrl.qpn_ds.host(), 0x123u << 8 | ds);
    const bool asks = !packet.empty() && packet[0].has(Handle::offload);
    compare_word(reinterpret_cast<const prm::EthSeg&>(*(&ctrl + 1)),
                 asks ? b_.arena.side(packet[0]).tx : none);
    packets_++;
    asked_ += asks;
    last_ = at;
    return at + (ds + 3) / 4;
  }
  static void compare_word(const prm::EthSeg& eth, TxWord w) {
    const uint32_t tags[] = {0, 0x8000, 0x8001};
    const auto tag = static_cast<std::size_t>(w.tag == VlanTag::none      ? 0
                                              : w.tag == VlanTag::service ? 2
                                                                          : 1);
    EQUAL_FATAL(eth.cs_flags, w.checksums);
    EQUAL_FATAL(eth.inline_hdr_sz.host(), tags[tag]);
    be16 started;
    std::memcpy(&started, eth.inline_hdr_start, sizeof started);
    EQUAL_FATAL(started.host(), tag != 0 ? w.tci : 0);
  }
  void complete() {
    b_.tx_memory.cq.write(prm::CqeOpcode::req, ends_.front());
    ends_.erase(ends_.begin());
  }

  const TxVariant& variant_;
  Bench b_;
  std::mt19937_64 random_{13};
  std::vector<uint16_t> ends_;
  std::vector<uint32_t> keys_;  // slots that no packet has
  uint64_t bytes_ = 0, packets_ = 0, under_key_ = 0, asked_ = 0;
  uint32_t last_ = 0;
};

void pieces_of_packets_are_in_their_wqes() {
  CU_ASSERT_TRUE_FATAL(test::start_eal());
  uint32_t visited = 0;
  for (const TxVariant& v : test::compiled().tx) {
    if (v.needs > widest_simd() || test::sends_one_buffer(v.config)) continue;
    Chains c(v);
    for (uint32_t i = 0; i < 1000; i++) c.round();
    c.finish();
    visited++;
  }
  EQUAL(visited, test::several_buffers_rows * test::kinds_of_vectors());
}

void words_of_packets_are_in_their_wqes() {
  CU_ASSERT_TRUE_FATAL(test::start_eal());
  constexpr TxOffer offers[] = {{},
                                {.words = true, .tags = true, .checksums = l3 | l4},
                                {.words = true, .tags = true, .checksums = l3},
                                {.words = true, .tags = false, .checksums = l4}};
  for (const TxVariant& v : test::compiled().tx) {
    if (v.needs > widest_simd() || v.config.multi_seg || !v.config.offloads) continue;
    for (const TxOffer& offer : offers) {
      for (const uint32_t side_piece : {0u, 64u}) {
        Asking a(v, offer, side_piece);
        for (uint32_t i = 0; i < 500; i++) a.round();
        a.finish();
      }
    }
  }
}

const kilim::test::Case cases[] = {
    {"WQEs say what the words of their packets say", words_of_packets_are_in_their_wqes},
    {"WQEs have the pieces and keys of their packets, in every variant of them",
     pieces_of_packets_are_in_their_wqes},
};

}  // namespace
}  // namespace packets_words_ut

std::span<const kilim::test::Case> kilim::test::words_cases() {
  return packets_words_ut::cases;
}
