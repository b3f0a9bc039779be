// SPDX-License-Identifier: BSD-3-Clause
// Part of eth_ut. Rows of frames that are alike, in which one is not now and then: what the device
// does four at a time leaves behind what the general way does.
#include "eth_ways_fixture.hh"
#include "vhca/ethernet/four_frames.hh"
#include "vhca/wire/frame_ring.hh"

using namespace kilim;
using namespace kilim::test;

namespace eth_fours_ut {
namespace {

using kilim::test::Bytes;  // not kilim::Bytes, a number

constexpr std::size_t flags_at = 11;

// Of the process, and of no key.
alignas(64) std::array<std::byte, 64> strange;

// A SEND like those before it, or one that is not in something.
void post_alike(Rig& r, RawQueue& q, Random& random, const Bytes& f, std::size_t place) {
  std::byte* at = r.load(8 + place % 16, f);
  prm::EthSeg eth{};
  const unsigned odd = below(random, 60);
  if (odd == 0) eth.cs_flags = prm::eth::l3_csum | prm::eth::l4_csum;
  if (odd == 1) eth.inline_hdr_sz = be16{2};
  const std::size_t bytes = odd == 2 ? f.size() - 1 : f.size();
  const std::byte* from = odd == 3 ? at + 1 : at;
  const std::size_t block = q.sq_pi % ring_wqes;
  r.put(q, 0x0a, eth, r.pointer(from, bytes));
  const uint8_t modes[] = {0, 0, 0, prm::ctrl::cq_update, 1 << 2, 1 << 1, 3 << 5};
  const uint8_t mode = below(random, 6) == 0 ? modes[below(random, 7)] : 0;
  q.sq()[block * 64 + flags_at] = static_cast<std::byte>(mode);
}

// A WQE of many packets that are alike, or nearly.
void post_packets_alike(Rig& r, RawQueue& q, Random& random, const Bytes& f, unsigned n) {
  Bytes segments;
  prm::EthSeg eth{};
  if (below(random, 3) == 0) eth.cs_flags = prm::eth::l3_csum | prm::eth::l4_csum;
  for (unsigned i = 0; i < n; i++) {
    Bytes g = any_like(random, f);
    const Bytes d = r.pointer(r.load(8 + i, g), g.size());
    segments.insert(segments.end(), d.begin(), d.end());
  }
  r.put(q, 0x29, eth, segments);
}

// Something that no row may take: the queue ends with it.
void post_wrong(Rig& r, RawQueue& q, unsigned kind) {
  for (unsigned i = 0; i < 8; i++) {
    const std::size_t block = q.sq_pi % ring_wqes;
    r.put(q, 0x0a, {}, r.pointer(r.room(8), 64));
    std::byte* wqe = q.sq() + block * 64;
    wqe[flags_at] = std::byte{0};
    if (i != 5) continue;
    if (kind == 0) wqe[36] ^= std::byte{1};  // another key
    if (kind == 1) {
      const be64 nowhere{va(strange.data()).value()};  // an address that the key does not have
      std::memcpy(wqe + 40, &nowhere, sizeof nowhere);
    }
    if (kind == 2) wqe[2] ^= std::byte{1};  // the index of another WQE
    if (kind == 3) wqe[6] ^= std::byte{1};  // another queue's number
  }
}

Trace run_alike(bool straight, unsigned seed) {
  Rig::straight = straight;
  Rig r;
  Rig::straight = true;
  Random random(seed);
  RawQueue q = r.queue(0);
  Trace t;
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  const std::size_t lengths[] = {9, 10, 17, 18, 22, 26, 31, 100, 333, 1460};
  for (unsigned turn = 0; turn < 60; turn++) {
    const Bytes f = make_frame({.tcp = false, .payload = lengths[below(random, 10)]});
    const std::size_t most = below(random, 12) == 0 ? 60 : 4096;
    for (unsigned i = below(random, 24); i > 0; i--)
      r.receive(q, r.room(i % 8) + i / 8 * 5000, below(random, 40) == 0 ? 64 : most);
    for (unsigned i = below(random, 24); i > 0; i--) r.far->send(any_like(random, f));
    for (unsigned i = below(random, 24); i > 0; i--) post_alike(r, q, random, f, i);
    if (below(random, 2) == 0) post_packets_alike(r, q, random, f, 1 + below(random, 12));
    if (turn == 55) post_wrong(r, q, seed % 4);
    r.ring(q);
    r.run();
    for (std::size_t i = 0; i < 8; i++) t.received.emplace_back(r.room(i), r.room(i) + 16384);
    for (Bytes b = r.arrived(); !b.empty(); b = r.arrived()) t.frames.push_back(b);
    note_entries(q, t);
  }
  note_counts(r, t);
  return t;
}

void rows_of_alike_frames_leave_the_same() {
  for (unsigned seed = 1; seed <= 8; seed++) {
    const Trace a = run_alike(true, seed), b = run_alike(false, seed);
    EQUAL(a.counts, b.counts);
    EQUAL(a.frames.size(), b.frames.size());
    CU_ASSERT(a.frames == b.frames);
    CU_ASSERT(a.entries == b.entries);
    CU_ASSERT(a.received == b.received);
    CU_ASSERT(a.frames.size() > 500);
    CU_ASSERT(a.entries.size() > 300);
  }
}

// Numbers of receive WQEs go on past a byte, in a ring that is longer.
void numbers_of_receive_wqes_go_past_a_byte() {
  // So many frames that a row of four would go over the number 256.
  constexpr uint32_t wqes = 512, frames = 33, all = 15 * frames;
  Rig r;
  std::byte* ring = r.memory + 8 * RawQueue::bytes;
  RawQueue q = r.queue(0, MiniFormat::none, wqes, ring);
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  for (uint32_t i = 0; i < wqes; i++) {
    const Bytes d = r.pointer(r.room(i % 8), 2048);
    std::memcpy(ring + i * 16, d.data(), 16);
  }
  record_store(q.record() + prm::record_receive, be32{wqes});
  // The completion queue does not begin anew at the number 256.
  for (uint32_t i = 0; i < ring_wqes; i++) r.send(q, r.room(0), 60);
  r.ring(q);
  r.run();
  while (opcode(Rig::poll(q)) != prm::CqeOpcode::invalid) continue;
  const Bytes f = make_frame({.tcp = false, .payload = 26});
  for (uint32_t done = 0; done < all;) {
    for (uint32_t i = 0; i < frames; i++) r.far->send(f);
    r.run();
    for (prm::Cqe c = Rig::poll(q); opcode(c) != prm::CqeOpcode::invalid; c = Rig::poll(q))
      EQUAL_FATAL(c.wqe_counter.host(), done++);
    EQUAL_FATAL(done % frames, 0);
  }
}

// Twelve frames for receive WQEs of which the seventh and on are not for them.
Trace run_refused(bool straight, const std::byte* at, std::size_t bytes) {
  Rig::straight = straight;
  Rig r;
  Rig::straight = true;
  RawQueue q = r.queue(0);
  Trace t;
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  for (unsigned i = 0; i < 12; i++)
    if (i < 6)
      r.receive(q, r.room(i), 2048);
    else
      r.receive(q, at != nullptr ? at : r.room(i), bytes);
  const Bytes f = make_frame({.tcp = false, .payload = 26});
  for (int i = 0; i < 12; i++) r.far->send(f);
  r.run();
  for (std::size_t i = 0; i < 12; i++) t.received.emplace_back(r.room(i), r.room(i) + f.size());
  note_entries(q, t);
  note_counts(r, t);
  return t;
}

void rows_end_before_what_is_refused() {
  CU_ASSERT(run_refused(true, strange.data(), 2048) == run_refused(false, strange.data(), 2048));
  EQUAL(strange[0], std::byte{0});
  const Trace small = run_refused(true, nullptr, 67);
  CU_ASSERT(small == run_refused(false, nullptr, 67));
  EQUAL(small.received[6][0], std::byte{0});
}

// Both sums by the words of a shape, for every length.
void sums_of_a_shape_are_those_of_the_frame() {
  Random random(11);
  unsigned right = 0, wrong = 0, few = 0;
  for (unsigned i = 0; i < 6000; i++) {
    // Every second one as short as those that have a way of their own.
    const unsigned payload = i % 2 == 0 ? 17 + i / 2 % 9 : 12 + i % 300;
    Bytes f = make_frame({.tcp = false, .payload = payload});
    const ethernet::CoveredWords w = ethernet::words_of(ethernet::shape_of_ipv4(f));
    CU_ASSERT_FATAL(w.sixteens != 0);
    f = any_like(random, f);
    f.resize(42 + payload);
    const ethernet::FrameShape s = ethernet::shape_of_ipv4(f);
    if (s.covered != 8 + payload || s.has_sum != 0) continue;
    const bool ok = sums_of_ipv4(f.data(), s) == ethernet::all_sums_ok;
    EQUAL_FATAL(sums_are_right(f.data(), w), ok);
    if (covers_few(s)) {
      EQUAL_FATAL(sums_are_right(f.data(), short_words_of(s)), ok);
      few++;
    }
    right += ok ? 1 : 0;
    wrong += ok ? 0 : 1;
  }
  CU_ASSERT(right > 2000);
  CU_ASSERT(wrong > 50);
  CU_ASSERT(few > 1000);
}

// Four frames behind their lengths are of a shape where each of them is by itself.
void four_records_are_judged_as_their_frames() {
  Random random(3);
  constexpr std::size_t ahead = wire::FrameRing::Reader::length_ahead;
  unsigned all = 0, none = 0;
  for (unsigned i = 0; i < 6000; i++) {
    const Bytes f = make_frame({.tcp = false, .payload = 18 + i % 50});
    const std::size_t step = wire::FrameRing::Reader::step_of(f.size());
    ethernet::SameShape shape;
    shape.remember(f, ethernet::shape_of_ipv4(f));
    Bytes ring(4 * step);
    for (std::byte& b : ring) b = static_cast<std::byte>(random());
    bool same = true;
    for (std::size_t k = 0; k < 4; k++) {
      auto length = static_cast<uint32_t>(f.size());
      Bytes g = f;
      const bool odd = below(random, 8) == 0;
      if (odd) g[below(random, 44)] ^= static_cast<std::byte>(1u << below(random, 8));
      if (below(random, 20) == 0) length ^= 1u << below(random, 32);
      std::memcpy(&ring[k * step], &length, sizeof length);
      std::memcpy(&ring[k * step + ahead], g.data(), g.size());
      same = same && length == f.size() && shape.is_that_of(g);
    }
    EQUAL_FATAL(shape.is_that_of_four(&ring[ahead], step), same);
    (same ? all : none)++;
  }
  CU_ASSERT(all > 1000);
  CU_ASSERT(none > 1000);
}

// Nobody takes frames from the wire until it is full, in the middle of rows that are alike.
Trace run_full(bool straight, bool shared) {
  Rig::straight = straight;
  Rig r;
  Rig::straight = true;
  RawQueue q = r.queue(0);
  Trace t;
  Bytes f = make_frame({.tcp = false, .payload = 5000});
  uint8_t number = 0;
  for (unsigned turn = 0; turn < 30; turn++) {
    for (unsigned i = 0; i < (shared ? 1 : 7); i++) {
      Bytes segments;
      for (unsigned k = 0; k < 7; k++) {
        f[f.size() - 1] = static_cast<std::byte>(++number);
        const Bytes d = r.pointer(r.load((i + k) % 7, f), f.size());
        segments.insert(segments.end(), d.begin(), d.end());
        if (!shared) break;
      }
      r.put(q, shared ? 0x29 : 0x0a, {}, segments);
    }
    r.ring(q);
    r.run();
    // A queue whose WQEs wait for room is not given more.
    const bool waits = turn % 20 == 19;
    for (Bytes b = waits ? r.arrived() : Bytes{}; !b.empty(); b = r.arrived()) {
      t.frames.push_back(b);
      r.run();
    }
    note_entries(q, t);
  }
  r.run();
  for (Bytes b = r.arrived(); !b.empty(); b = r.arrived()) t.frames.push_back(b);
  note_entries(q, t);
  return t;
}

// Fours that are alike, behind fours of another length or key.
Trace run_in_fours(bool straight, bool shared) {
  Rig::straight = straight;
  Rig r;
  Rig::straight = true;
  RawQueue q = r.queue(0);
  Trace t;
  const auto other_key =
      reg_mr(*r.hca, {r.pd, va(r.memory), memory_bytes, Iova{va(r.memory).value()}, 0})->lkey;
  const auto keys = {r.key, other_key};
  for (unsigned turn = 0; turn < 8; turn++) {
    Bytes segments;
    for (unsigned i = 0; i < 12; i++) {
      const unsigned four = turn * 3 + i / 4;
      const Bytes f = make_frame({.tcp = false, .payload = four % 3 == 0 ? 26u : 30u});
      r.key = keys.begin()[four / 2 % 2];
      const Bytes d = r.pointer(r.load(i, f), f.size());
      segments.insert(segments.end(), d.begin(), d.end());
      if (shared) continue;
      const std::size_t block = q.sq_pi % ring_wqes;
      r.put(q, 0x0a, {}, d);
      if (i != 11) q.sq()[block * 64 + flags_at] = std::byte{0};
    }
    if (shared) r.put(q, 0x29, {}, segments);
    r.ring(q);
    r.run();
    for (Bytes b = r.arrived(); !b.empty(); b = r.arrived()) t.frames.push_back(b);
    note_entries(q, t);
  }
  note_counts(r, t);
  return t;
}

void fours_behind_others_are_told_apart() {
  for (const bool shared : {false, true}) {
    const Trace a = run_in_fours(true, shared);
    CU_ASSERT(a == run_in_fours(false, shared));
    EQUAL(a.frames.size(), 96);
  }
}

void rows_end_where_the_wire_is_full() {
  for (const bool shared : {false, true}) {
    const Trace a = run_full(true, shared), b = run_full(false, shared);
    EQUAL(a.frames.size(), b.frames.size());
    CU_ASSERT(a == b);
    CU_ASSERT(a.frames.size() > 100);
  }
}

// Rows of four and single frames in a ring, past its end and where it is full.
void a_ring_keeps_rows_of_four() {
  Random random(5);
  wire::FrameRing ring;
  uint64_t put = 0, taken = 0, full = 0, fours = 0;
  const auto length_of = [](uint64_t n) { return static_cast<uint32_t>(60 + n / 64 % 50 * 180); };
  while (taken < 6000) {
    wire::FrameRing::Writer in(ring);
    for (unsigned i = below(random, 6); i > 0; i--) {
      const uint32_t length = length_of(put);
      const std::size_t step = wire::FrameRing::Writer::step_of(length);
      const bool row = put % 64 <= 60 && below(random, 4) != 0;
      const std::span<std::byte> piece = row ? in.piece(4 * step) : std::span<std::byte>();
      std::byte* to = piece.data() + wire::FrameRing::Writer::length_ahead;
      const bool fits = row ? piece.size() >= 4 * step : in.room(length, to);
      full += fits ? 0 : 1;
      if (!fits && row) continue;
      if (!fits) break;
      for (unsigned k = 0; k < (row ? 4u : 1u); k++) {
        std::memset(to + k * step, static_cast<int>((put + k) & 0xff), length);
        std::memcpy(to + k * step - wire::FrameRing::Writer::length_ahead, &length, sizeof length);
      }
      if (below(random, 4) == 0) continue;  // is not kept
      if (row)
        in.keep_rows(4 * step);
      else
        in.keep();
      put += row ? 4 : 1;
    }
    in.show();
    wire::FrameRing::Reader out(ring);
    for (unsigned i = below(random, 5); i > 0 && taken < put; i--) {
      const std::size_t step = wire::FrameRing::Reader::step_of(length_of(taken));
      const std::byte* row = out.four(length_of(taken), step);
      const std::span<const std::byte> f = out.front();
      if (row == nullptr) {
        EQUAL_FATAL(f.size(), length_of(taken));
        EQUAL_FATAL(f[f.size() - 1], static_cast<std::byte>(taken & 0xff));
        out.pop(f.size());
        taken++;
        continue;
      }
      for (unsigned k = 0; k < 4; k++, taken++, row += step) {
        EQUAL_FATAL(row[0], static_cast<std::byte>(taken & 0xff));
        EQUAL_FATAL(row[length_of(taken) - 1], static_cast<std::byte>(taken & 0xff));
      }
      out.pop_rows(4, step);
      fours++;
    }
    out.release();
  }
  CU_ASSERT(full > 10);
  CU_ASSERT(fours > 500);
}

constexpr Case fours[] = {
    {"rows of alike frames leave the same", rows_of_alike_frames_leave_the_same},
    {"numbers of receive WQEs go past a byte", numbers_of_receive_wqes_go_past_a_byte},
    {"rows end before what is refused", rows_end_before_what_is_refused},
    {"sums of a shape are those of the frame", sums_of_a_shape_are_those_of_the_frame},
    {"four records are judged as their frames", four_records_are_judged_as_their_frames},
    {"fours behind others are told apart", fours_behind_others_are_told_apart},
    {"rows end where the wire is full", rows_end_where_the_wire_is_full},
    {"a ring keeps rows of four", a_ring_keeps_rows_of_four},
};

}  // namespace
}  // namespace eth_fours_ut

std::span<const kilim::test::Case> kilim::test::eth_fours_cases() {
  return eth_fours_ut::fours;
}
