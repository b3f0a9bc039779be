// SPDX-License-Identifier: BSD-3-Clause
// Part of eth_ut. The straight way and the general one do the same: frames, memory, completions and
// counters, for random traffic with everything in it that one of them may leave to the other.
#include <array>
#include <cstdlib>
#include <fstream>

#include <unistd.h>

#include "eth_ways_fixture.hh"
#include "vhca/ethernet/describe.hh"
#include "vhca/wire/frame_ring.hh"

using namespace kilim;
using namespace kilim::test;

namespace eth_ways_ut {
namespace {

using kilim::test::Bytes;  // not kilim::Bytes, a number

// To a station, to a group, or to all.
Bytes any_cast(Random& random) {
  Bytes f = any_frame(random);
  const unsigned kind = below(random, 8);
  if (kind == 0) std::fill(f.begin(), f.begin() + 6, std::byte{0xff});
  if (kind == 1 || kind == 2) f[0] |= std::byte{1};
  return f;
}

// One WQE of one of the forms, with one or many packets.
void post_any(Rig& r, RawQueue& q, Random& random, std::size_t& room) {
  const auto load = [&](const Bytes& f) { return r.load(8 + room++ % 16, f); };
  prm::EthSeg eth{};
  if (below(random, 4) == 0) eth.cs_flags = prm::eth::l3_csum | prm::eth::l4_csum;
  if (below(random, 3) != 0) {
    const Bytes f = any_cast(random);
    return r.put(q, 0x0a, eth, r.pointer(load(f), f.size()));
  }
  Bytes segments;
  for (unsigned i = 1 + below(random, 5); i > 0; i--) {
    const Bytes f = any_cast(random);
    if (f.size() > 100 || below(random, 2) == 0) {
      const Bytes d = r.pointer(load(f), f.size());
      segments.insert(segments.end(), d.begin(), d.end());
      continue;
    }
    Bytes d((4 + f.size() + 15) / 16 * 16);
    const be32 head{0x80000000u | static_cast<uint32_t>(f.size())};
    std::memcpy(d.data(), &head, 4);
    std::memcpy(d.data() + 4, f.data(), f.size());
    segments.insert(segments.end(), d.begin(), d.end());
  }
  r.put(q, 0x29, eth, segments);
}

Trace run_traffic(bool straight, unsigned seed) {
  Rig::straight = straight;
  Rig r;
  Rig::straight = true;
  Random random(seed);
  RawQueue q = r.queue(0);
  Trace t;
  count_casts(*r.hca);
  const uint32_t rule = *create_flow(*r.hca, q.qpn, everything());
  std::size_t room = 0;
  for (int turn = 0; turn < 60; turn++) {
    const unsigned frames = below(random, 8);
    for (unsigned i = below(random, 8); i > 0; i--)
      r.receive(q, r.room(i), below(random, 16) == 0 ? 64 : 4096);
    for (unsigned i = 0; i < frames; i++) r.far->send(any_cast(random));
    for (unsigned i = below(random, 6); i > 0; i--) post_any(r, q, random, room);
    if (turn == 50) EQUAL(destroy_flow(*r.hca, rule), 0);
    r.ring(q);
    r.run();
    for (std::size_t i = 0; i < 8; i++) t.received.emplace_back(r.room(i), r.room(i) + 4096);
    for (Bytes b = r.arrived(); !b.empty(); b = r.arrived()) t.frames.push_back(b);
    note_entries(q, t);
  }
  note_counts(r, t);
  const hca::InterfaceCounters c = interface_counters(*r.hca);
  for (const CastCounters& all : {c.rx, c.tx})
    for (const CastCounters::Cast& one : {all.unicast, all.multicast, all.broadcast})
      t.counts.insert(t.counts.end(), {one.packets, one.bytes});
  const auto sum = [](const CastCounters& all) {
    return all.unicast.packets + all.multicast.packets + all.broadcast.packets;
  };
  EQUAL(sum(c.tx), c.port.tx_packets);
  const PortCounters& p = c.port;
  EQUAL(sum(c.rx),
        p.rx_packets + p.rx_no_rule + p.rx_out_of_buffer + p.rx_too_long + p.rx_queue_down);
  CU_ASSERT(c.tx.multicast.packets > 9);
  CU_ASSERT(c.tx.broadcast.packets > 9);
  CU_ASSERT(c.rx.multicast.packets > 9);
  CU_ASSERT(c.rx.broadcast.packets > 9);
  return t;
}

void both_ways_do_the_same() {
  for (unsigned seed = 1; seed <= 6; seed++) {
    const Trace a = run_traffic(true, seed), b = run_traffic(false, seed);
    EQUAL(a.counts, b.counts);
    EQUAL(a.frames.size(), b.frames.size());
    CU_ASSERT(a.frames == b.frames);
    CU_ASSERT(a.entries == b.entries);
    CU_ASSERT(a.received == b.received);
    CU_ASSERT(a.frames.size() > 100);
    CU_ASSERT(a.entries.size() > 100);
  }
}

// Frames of a capture file, behind its header of 24 bytes, and their bytes.
struct Records {
  uint64_t frames = 0, bytes = 0;
};
Records records_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(24);
  Records all;
  std::array<uint32_t, 4> head{};
  while (file.read(reinterpret_cast<char*>(head.data()), sizeof(head))) {
    all.frames++;
    all.bytes += head[2];
    file.seekg(head[2], std::ios::cur);
  }
  return all;
}

uint64_t lines_with(const char* path, const char* word) {
  std::ifstream file(path);
  uint64_t count = 0;
  for (std::string line; std::getline(file, line);)
    count += line.find(word) != std::string::npos ? 1 : 0;
  return count;
}

// Whoever observes an adapter sees what passes, and changes nothing of it.
void observers_change_nothing() {
  char lines[] = "/tmp/kilim-eth-lines-XXXXXX", frames[] = "/tmp/kilim-eth-frames-XXXXXX";
  for (char* path : {lines, frames}) {
    const int fd = ::mkstemp(path);
    CU_ASSERT_FATAL(fd >= 0);
    ::close(fd);
  }
  for (unsigned seed = 11; seed <= 13; seed++) {
    const Trace alone = run_traffic(true, seed);
    {
      Result<std::unique_ptr<Journal>> journal =
          Journal::open(lines, Journal::Format::text, "vhca0");
      CU_ASSERT_FATAL(journal.ok());
      for (const RigObserver& o :
           {RigObserver{.journal = journal->get()}, RigObserver{.lint = lint::LintMode::warn},
            RigObserver{.tee = std::string("+tee:") + frames}}) {
        Rig::observer = o;
        const Trace observed = run_traffic(true, seed);
        Rig::observer = {};
        EQUAL(observed.counts, alone.counts);
        CU_ASSERT(observed == alone);
      }
    }
    // A line for each frame that left, and a record for each that passed either way.
    const wire::WireCounters& w = alone.wire;
    EQUAL(lines_with(lines, " frame_out "), w.tx_frames);
    const Records seen = records_of(frames);
    EQUAL(seen.frames, w.tx_frames + w.rx_frames);
    EQUAL(seen.bytes, w.tx_bytes + w.rx_bytes);
    CU_ASSERT(w.rx_frames > 100);
    CU_ASSERT_FATAL(::truncate(lines, 0) == 0);
  }
  ::unlink(lines);
  ::unlink(frames);
}

void ipv4_frames_are_described_as_all_are() {
  Random random(7);
  unsigned common = 0;
  for (int i = 0; i < 20000; i++) {
    const Bytes f = any_frame(random);
    prm::Cqe full{};
    const ethernet::FrameWords quick = ethernet::describe_ipv4(f);
    if (quick.ok == 0) continue;
    common++;
    ethernet::describe_frame(f, false, full);
    EQUAL_FATAL(quick.ok, full.hds_ip_ext);
    EQUAL_FATAL(quick.type, full.l4_hdr_type_etc);
  }
  CU_ASSERT(common > 5000);
}

// Two frames of one shape go to one place and are described by the second one's sums alone: what
// differs in anything but sums, addresses of IP and ports has another shape.
void frames_of_one_shape_differ_where_it_does_not_matter() {
  Random random(9);
  unsigned alike = 0, other = 0;
  for (int i = 0; i < 20000; i++) {
    const Bytes f = any_frame(random);
    const ethernet::FrameShape shape = ethernet::shape_of_ipv4(f);
    ethernet::SameShape before;
    before.remember(f, shape);
    EQUAL_FATAL(before.is_that_of(f), shape.covered != 0 && shape.has_sum == 0);
    Bytes g = f;
    if (below(random, 4) == 0 && g.size() > 60) g.resize(g.size() - 1 - below(random, 4));
    for (unsigned n = 1 + below(random, 2); n > 0; n--)
      g[below(random, std::min<unsigned>(44, static_cast<unsigned>(g.size())))] ^=
          static_cast<std::byte>(1u << below(random, 8));
    if (!before.is_that_of(g)) {
      other++;
      continue;
    }
    alike++;
    EQUAL_FATAL(g.size(), f.size());
    EQUAL_FATAL(std::memcmp(f.data(), g.data(), 14), 0);
    EQUAL_FATAL(f[23], g[23]);
    const ethernet::FrameWords all = ethernet::describe_ipv4(g);
    EQUAL_FATAL(all.ok, sums_of_ipv4(g.data(), before.shape()));
    EQUAL_FATAL(all.type, before.shape().type);
  }
  CU_ASSERT(alike > 500);
  CU_ASSERT(other > 5000);
}

// Rows of frames of one shape by both ways, with an MTU that changes under them: what is longer
// than that and two tags comes to no queue, and no rule is asked.
void the_mtu_bounds_what_comes_in() {
  const std::size_t empty = make_frame({.tcp = false}).size() - FrameSpec{}.payload;
  for (const bool straight : {true, false}) {
    Rig::straight = straight;
    Rig r;
    Rig::straight = true;
    RawQueue q = r.queue(0);
    const uint32_t rule = *create_flow(*r.hca, q.qpn, everything());
    for (unsigned i = 0; i < 60; i++) r.receive(q, r.room(i % 8), 4096);
    const auto arrive = [&](std::initializer_list<std::size_t> lengths) {
      for (const std::size_t bytes : lengths)
        r.far->send(make_frame({.tcp = false, .payload = bytes - empty}));
      r.run();
      uint64_t arrived = 0;
      while (opcode(Rig::poll(q)) == recv_opcode) arrived++;
      return arrived;
    };
    const auto dropped = [&] { return eth_port_counters(r.hca->eth, 1).rx_oversize; };
    EQUAL(arrive({1523, 3000, 3000, 3000, 3000, 3000}), 6);
    set_mtu(*r.hca, 1, 1500);
    EQUAL(arrive({1522, 1522, 1522, 1522, 1522, 1522}), 6);
    EQUAL(arrive({1523, 1523, 1523, 1523, 1523, 1523}), 0);
    EQUAL(dropped(), 6);
    set_mtu(*r.hca, 1, 68);
    EQUAL(arrive({90, 90, 91, 90, 90, 90, 91, 91, 91, 1522, 90}), 6);
    EQUAL(dropped(), 11);
    set_mtu(*r.hca, 1, 1500);
    EQUAL(arrive({1522, 91, 90, 1523}), 3);
    EQUAL(r.hca->context.journal->count(Journal::Kind::frame_drop), 12);
    EQUAL(destroy_flow(*r.hca, rule), 0);
    EQUAL(arrive({1523}), 0);
    EQUAL(eth_port_counters(r.hca->eth, 1).rx_no_rule, 0);
    set_mtu(*r.hca, 1, 0);
    EQUAL(arrive({1523}), 0);
    EQUAL(eth_port_counters(r.hca->eth, 1).rx_no_rule, 1);
    EQUAL(dropped(), 13);
    EQUAL(eth_port_counters(r.hca->eth, 1).rx_packets, 21);
  }
}

// A rule that goes takes its memory of frames with it, and a new one of more weight is seen.
void the_last_flow_is_forgotten_with_its_rule() {
  Rig r;
  RawQueue a = r.queue(0), b = r.queue(1);
  FlowSpec f = everything();
  f.priority = 5;
  const uint32_t first = *create_flow(*r.hca, a.qpn, f);
  const Bytes frame = make_frame({});
  const auto goes_to = [&](RawQueue& q) {
    r.receive(a, r.room(0), 2048);
    r.receive(b, r.room(1), 2048);
    for (int i = 0; i < 2; i++) r.far->send(frame);
    r.run();
    return opcode(Rig::poll(q)) == recv_opcode;
  };
  CU_ASSERT(goes_to(a));
  f.priority = 1;
  CU_ASSERT(create_flow(*r.hca, b.qpn, f).ok());
  CU_ASSERT(goes_to(b));
  EQUAL(destroy_flow(*r.hca, first), 0);
  CU_ASSERT(goes_to(b));
}

// A key that went, and one of the same number with another tag, are not the one remembered.
void the_last_key_is_forgotten_when_it_goes() {
  Rig r;
  RawQueue q = r.queue(0);
  r.send(q, r.room(0), 60);
  r.ring(q);
  r.run();
  EQUAL(opcode(Rig::poll(q)), ok_opcode);
  EQUAL(dereg_mr(*r.hca, MkeyIndex{r.key.value() >> 8}), 0);
  r.send(q, r.room(0), 60);
  r.ring(q);
  r.run();
  EQUAL(Rig::syndrome(Rig::poll(q)), 0x04);
}

// Frames of all lengths, put and taken in place in rows of any number, past the end of the ring and
// where it is full: what comes out is what went in.
void a_ring_of_frames_keeps_them_whole() {
  Random random(3);
  wire::FrameRing ring;
  std::vector<std::byte> expected(9022);
  uint64_t put = 0, taken = 0, full = 0, walked = 0;
  const auto length_of = [](uint64_t n) { return static_cast<uint32_t>(14 + n * 7919 % 9009); };
  while (taken < 3000) {
    wire::FrameRing::Writer in(ring);
    const uint64_t kept_from = in.mark();
    walked = put;
    for (unsigned i = below(random, 12); i > 0; i--) {
      std::byte* to = nullptr;
      const bool fits = in.room(length_of(put), to);
      full += fits ? 0 : 1;
      if (!fits) break;
      std::memset(to, static_cast<int>(put & 0xff), length_of(put));
      if (below(random, 4) == 0) continue;  // is not kept
      in.keep();
      put++;
    }
    const auto is_next = [&](std::span<const std::byte> f) {
      EQUAL_FATAL(f.size(), length_of(walked));
      EQUAL_FATAL(f[0], static_cast<std::byte>(walked & 0xff));
      walked++;
    };
    in.each_since(kept_from, is_next);
    EQUAL_FATAL(walked, put);
    in.show();
    wire::FrameRing::Reader out(ring);
    const uint64_t taken_from = out.mark();
    walked = taken;
    for (unsigned i = below(random, 8); i > 0 && taken < put; i--) {
      const std::span<const std::byte> f = out.front();
      EQUAL_FATAL(f.size(), length_of(taken));
      std::fill(expected.begin(), expected.end(), static_cast<std::byte>(taken & 0xff));
      CU_ASSERT_FATAL(std::memcmp(f.data(), expected.data(), f.size()) == 0);
      out.pop(f.size());
      taken++;
    }
    out.each_since(taken_from, is_next);
    EQUAL_FATAL(walked, taken);
    out.release();
  }
  CU_ASSERT(full > 10);
}

constexpr Case ways[] = {
    {"a ring of frames keeps them whole", a_ring_of_frames_keeps_them_whole},
    {"both ways do the same", both_ways_do_the_same},
    {"observers change nothing", observers_change_nothing},
    {"common frames are described as all are", ipv4_frames_are_described_as_all_are},
    {"frames of one shape differ where it does not matter",
     frames_of_one_shape_differ_where_it_does_not_matter},
    {"the MTU bounds what comes in", the_mtu_bounds_what_comes_in},
    {"the last flow is forgotten with its rule", the_last_flow_is_forgotten_with_its_rule},
    {"the last key is forgotten when it goes", the_last_key_is_forgotten_when_it_goes},
};

}  // namespace
}  // namespace eth_ways_ut

std::span<const kilim::test::Case> kilim::test::eth_ways_cases() {
  return eth_ways_ut::ways;
}
