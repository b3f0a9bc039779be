// SPDX-License-Identifier: BSD-3-Clause
// Part of eth_ut. Compressed blocks of completions: their bytes, what a driver reads out of them
// against what it reads without compression, and queues that are full, armed, shared or gone in the
// middle of a block.
#include <random>
#include <set>

#include "eth_fixture.hh"
#include "toeplitz_fixture.hh"
#include "vhca/hca/ports.hh"
#include "vhca/wq/qp_error.hh"

using namespace kilim;
using namespace kilim::test;

namespace compression_ut {
namespace {

using kilim::test::Bytes;

constexpr uint32_t entries = ring_wqes * 2;

std::byte* entry(const RawQueue& q, uint32_t i) {
  return q.cq() + i % entries * 64;
}

uint32_t word(const std::byte* at) {
  be32 w;
  std::memcpy(&w, at, 4);
  return w.host();
}

// A driver that reads as Linux's does (drivers/net/ethernet/mellanox/mlx5/core/en_rx.c,
// mlx5e_decompress_cqes_start(), mlx5e_decompress_cqes_cont(), mlx5e_cqes_update_owner()).
class Reader {
 public:
  Reader(RawQueue& queue, MiniFormat format) : q_(queue), format_(format) {}

  // How its blocks were: their number, the longest one, those that end where the ring does, and
  // beyond it.
  struct Counts {
    uint32_t blocks = 0, longest = 0, at_end = 0, wrapped = 0;
  };
  Counts counts;

  std::vector<prm::Cqe> all() {
    std::vector<prm::Cqe> out;
    for (prm::Cqe c = Rig::poll(q_); opcode(c) != prm::CqeOpcode::invalid; c = Rig::poll(q_)) {
      if (prm::cqe::format_of(c.op_own) == 3)
        block(c, out);
      else
        out.push_back(c);
    }
    return out;
  }

 private:
  void block(prm::Cqe title, std::vector<prm::Cqe>& out) {
    const uint32_t first = q_.cq_ci - 1, count = title.byte_cnt.host();
    CU_ASSERT_FATAL(count >= 2);
    CU_ASSERT_FATAL(count <= entries);
    counts.blocks++;
    counts.longest = std::max(counts.longest, count);
    counts.at_end += (first + count) % entries == 0;
    counts.wrapped += first / entries != (first + count - 1) / entries;
    uint16_t counter = title.wqe_counter.host();
    const std::byte* array = nullptr;
    for (uint32_t i = 0; i < count; i++) {
      if (i == 0) array = entry(q_, first + 1);
      if (i != 0 && i % 8 == 0) array = entry(q_, first + i);
      const std::byte* mini = array + i % 8 * 8;
      prm::Cqe c = title;
      c.byte_cnt = be32{word(mini + 4)};
      c.wqe_counter = be16{counter};
      if (format_ == MiniFormat::hash) c.rx_hash_result = be32{word(mini)};
      if (format_ != MiniFormat::hash) c.checksum = be16{static_cast<uint16_t>(word(mini) >> 16)};
      if (format_ == MiniFormat::checksum_stride)
        EQUAL(c.wqe_counter.host(), static_cast<uint16_t>(word(mini)));
      c.op_own = static_cast<uint8_t>(title.op_own & 0xf0);
      const uint32_t strides = c.byte_cnt.host() >> 16;
      counter = static_cast<uint16_t>(counter + (strides != 0 ? strides : 1));
      out.push_back(c);
    }
    for (uint32_t i = 0; i < count; i++)
      entry(q_, first + i)[63] = static_cast<std::byte>((first + i) / entries & 1);
    q_.cq_ci = first + count;
    record_store(q_.cq_record(), be32{q_.cq_ci & 0xffffff});
  }
  RawQueue& q_;
  MiniFormat format_;
};

// Ten frames alike, of lengths that differ, into the first entries: every byte of them.
void a_block_is_as_drivers_read_it() {
  Rig r;
  RawQueue q = r.queue(0, MiniFormat::checksum);
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  std::vector<uint32_t> sums;
  for (uint32_t i = 0; i < 10; i++) {
    r.receive(q, r.room(i), 2048);
    const Bytes f = make_frame({.tcp = false, .payload = 20 + i});
    uint32_t sum = 0;  // RFC 1071, of the IP packet
    for (std::size_t at = 14; at < f.size(); at += 2) {
      sum += std::to_integer<uint32_t>(f[at]) << 8;
      if (at + 1 < f.size()) sum += std::to_integer<uint32_t>(f[at + 1]);
    }
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    sums.push_back(sum);
    r.far->send(f);
  }
  r.run();
  prm::Cqe title;
  std::memcpy(&title, entry(q, 0), 64);
  EQUAL(title.op_own, 0x2c);  // resp_send, compressed, owner 0
  EQUAL(title.byte_cnt.host(), 10u);
  EQUAL(title.wqe_counter.host(), 0);
  EQUAL(title.hds_ip_ext, 7);
  EQUAL(title.srqn_uidx.host(), 0x700u);
  EQUAL(title.checksum.host(), sums[0]);
  for (uint32_t i = 0; i < 10; i++) {
    const std::byte* mini = entry(q, i < 8 ? 1 : 8) + i % 8 * 8;
    EQUAL(word(mini), sums[i] << 16);
    EQUAL(word(mini + 4), 62 + i);
  }
  for (uint32_t at = 16; at < 64; at += 4) EQUAL(word(entry(q, 8) + at), 0u);
  for (const uint32_t i : {2u, 3u, 4u, 5u, 6u, 7u, 9u, 10u})
    for (uint32_t at = 0; at < 64; at += 4) EQUAL(word(entry(q, i) + at), 0xf0f0f0f0u);
}

// Frames of a few kinds in runs, so that blocks are of all lengths; and what is unlike all.
Bytes some_frame(std::mt19937& random, unsigned& kind) {
  if (random() % 6 == 0) kind = static_cast<unsigned>(random() % 6);
  FrameSpec s{.ipv6 = kind == 1, .tcp = kind == 2, .tags = kind == 3 ? 1 : 0};
  s.payload = random() % 200;
  Bytes f = make_frame(s);
  if (kind == 4) f[24] ^= std::byte{1};  // a bad checksum
  return f;
}

// Completions of random traffic, without what a format loses: the further ones of a block have the
// title's time.
std::vector<Bytes> run(bool straight, MiniFormat format, bool compress, Reader::Counts& counts) {
  Rig::straight = straight;
  Rig r;
  Rig::straight = true;
  RawQueue q = r.queue(0, compress ? format : MiniFormat::none);
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  Reader reader(q, format);
  std::mt19937 random(5);
  unsigned kind = 0;
  std::vector<Bytes> out;
  for (int turn = 0; turn < 300; turn++) {
    const auto posted = [&] { return static_cast<uint16_t>(q.rq_pi - out.size()); };
    for (unsigned long i = random() % 40 + 1; i > 0 && posted() < 60; i--)
      r.receive(q, r.room(i % 16), random() % 64 == 0 ? 40 : 2048);
    for (unsigned i = std::min<unsigned>(30, posted()); i > 0; i--)
      r.far->send(some_frame(random, kind));
    r.run();
    for (prm::Cqe c : reader.all()) {
      c.timestamp = {};
      c.checksum = {};
      c.sop_drop_qpn = be32{c.sop_drop_qpn.host() & 0xff000000};
      c.op_own &= 0xf0;
      Bytes b(sizeof(c));
      std::memcpy(b.data(), &c, sizeof(c));
      out.push_back(b);
    }
  }
  counts = reader.counts;
  return out;
}

void drivers_read_the_same_as_without() {
  for (const MiniFormat format :
       {MiniFormat::hash, MiniFormat::checksum, MiniFormat::checksum_stride}) {
    for (const bool straight : {true, false}) {
      Reader::Counts with, without;
      const auto a = run(straight, format, true, with);
      const auto b = run(straight, format, false, without);
      EQUAL(a.size(), b.size());
      CU_ASSERT(a.size() > 1000 && a == b);
      CU_ASSERT(with.blocks > 100);
      CU_ASSERT(with.longest > 12);
      CU_ASSERT(with.at_end > 3);
      EQUAL(with.wrapped, 0u);
      EQUAL(without.blocks, 0u);
    }
  }
}

// A queue behind a hash, striding or not, whose frames' hashes differ.
void hashes_and_strides_are_in_the_minis() {
  for (const bool striding : {false, true}) {
    Rig r;
    const MiniFormat format = striding ? MiniFormat::checksum_stride : MiniFormat::hash;
    RawQueue q = r.queue(0, format);
    be32* record = q.record() + 8;
    std::memset(q.rq(), 0, 1024);
    RqSpec s{.pd = r.pd, .cq = q.cqn, .buf = va(q.rq()), .record = va(record), .wqes = 16};
    s.wqe_shift = striding ? 5 : 4;
    if (striding) s.log_stride_bytes = 6, s.log_strides = 3;
    const Result<uint32_t> made = create_rq(*r.hca, s, &r.sink);
    CU_ASSERT_FATAL(made.ok());
    const uint32_t rqn = *made;
    EQUAL(modify_rq(*r.hca, rqn, {RqState::reset, RqState::ready}), 0);
    for (uint32_t i = 0; i < 16; i++) {
      const Bytes d = r.pointer(r.room(i), striding ? 512 : 2048);
      std::memcpy(q.rq() + i * (striding ? 32 : 16) + (striding ? 16 : 0), d.data(), 16);
    }
    record_store(record, be32{16});
    TirSpec t;
    t.rqt = *create_rqt(*r.hca, {{rqn}});
    t.ip_version = 4;
    t.l4_protocol = 17;
    t.fields = 15;
    std::copy(std::begin(verification_key), std::end(verification_key), t.key.begin());
    const Result<uint32_t> tir = create_tir(*r.hca, t, &r.sink);
    CU_ASSERT_FATAL(tir.ok());
    CU_ASSERT(create_flow_to_tir(*r.hca, *tir, everything()).ok());
    for (uint32_t i = 0; i < 12; i++) {
      Bytes f = make_frame({.tcp = false, .payload = 40 + i * 10});
      put16(f, l4_of({.tcp = false}), i * 77);
      put16(f, l4_of({.tcp = false}) + 6, 0);  // no checksum
      r.far->send(f);
    }
    r.run();
    Reader reader(q, format);
    const std::vector<prm::Cqe> got = reader.all();
    CU_ASSERT(reader.counts.blocks != 0);
    std::set<uint32_t> hashes;
    uint32_t frames = 0;
    for (const prm::Cqe& c : got) {
      if ((c.byte_cnt.host() & prm::cqe::stride_filler) != 0) continue;
      hashes.insert(c.rx_hash_result.host());
      EQUAL(c.byte_cnt.host() & 0xffff, 82 + frames * 10);
      const uint32_t at = striding ? c.wqe_id.host() : c.wqe_counter.host();
      const std::byte* frame = r.room(at) + (striding ? c.wqe_counter.host() * 64 : 0);
      EQUAL(word(frame + 34) >> 16, frames * 77);
      frames++;
    }
    EQUAL(frames, 12u);
    if (!striding) EQUAL(hashes.size(), 12u);
  }
}

// Entries are never read: what there is room for comes, whole, and then the queue fails.
void a_full_queue_shows_what_came_before() {
  for (const bool straight : {true, false}) {
    Rig::straight = straight;
    Rig r;
    Rig::straight = true;
    RawQueue q = r.queue(0, MiniFormat::hash);
    CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
    const auto arrive = [&](uint32_t frames) {
      for (uint32_t i = 0; i < frames; i++) {
        r.receive(q, r.room(i % 16), 2048);
        r.far->send(make_frame({.tcp = false}));
      }
      r.run();
    };
    for (int i = 0; i < 4; i++) arrive(32);
    CU_ASSERT(r.sink.events.empty());
    arrive(32);
    CU_ASSERT(!r.sink.events.empty() && r.sink.events[0] == wq::event::cq_err);
    Reader reader(q, MiniFormat::hash);
    EQUAL(reader.all().size(), entries);
  }
}

// The block that was open when the ring became full comes before the error, too.
void a_block_that_fills_the_queue_is_written() {
  Rig::straight = false;
  Rig r;
  Rig::straight = true;
  RawQueue q = r.queue(0, MiniFormat::hash);
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  for (int i = 0; i < 2; i++) {
    for (uint32_t k = 0; k < 50; k++) r.receive(q, r.room(k % 16), 2048);
    for (uint32_t k = 0; k < 50; k++) r.far->send(make_frame({}));
    r.run();
  }
  for (uint32_t k = 0; k < 50; k++) r.receive(q, r.room(k % 16), 2048);
  for (uint32_t k = 0; k < 40; k++) r.far->send(make_frame({}));
  r.run();
  Reader reader(q, MiniFormat::hash);
  EQUAL(reader.all().size(), entries);
  CU_ASSERT(!r.sink.events.empty());
}

struct Armed final : EventSink {
  void completion(void*) noexcept override { completions++; }
  void async(uint32_t, void*) noexcept override {}
  int completions = 0;
};

// One event for a block, also where the client was told of an index in the middle of it.
void an_armed_queue_tells_of_a_block() {
  Rig r;
  RawQueue q = r.queue(0, MiniFormat::hash);
  Armed sink;
  r.hca->cqs.at(q.cqn.value())->sink = &sink;
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  const auto arm = [&](uint32_t index, uint32_t sequence) {
    const uint32_t word = sequence << 28 | index;
    record_store(q.cq_record() + 1, be32{word});
    mmio_store64(r.doorbell + prm::uar::cq_doorbell, 1);
  };
  const auto arrive = [&](uint32_t frames) {
    for (uint32_t i = 0; i < frames; i++) r.receive(q, r.room(i), 2048);
    for (uint32_t i = 0; i < frames; i++) r.far->send(make_frame({}));
    r.run();
  };
  arm(0, 0);
  r.run();
  EQUAL(sink.completions, 0);
  arrive(8);
  EQUAL(sink.completions, 1);
  prm::Cqe title;
  std::memcpy(&title, entry(q, 0), 64);
  EQUAL(title.byte_cnt.host(), 8u);
  arm(3, 1);  // it has read three of the eight
  r.run();
  EQUAL(sink.completions, 2);
  arm(8, 2);
  arrive(1);
  EQUAL(sink.completions, 3);
  Reader reader(q, MiniFormat::hash);
  EQUAL(reader.all().size(), 9u);
}

// Sends complete in the same queue: entries keep the order of what happened.
void other_completions_close_a_block() {
  Rig r;
  RawQueue q = r.queue(0, MiniFormat::hash);
  FlowSpec f = everything();
  CU_ASSERT(create_flow(*r.hca, q.qpn, f).ok());
  for (uint32_t i = 0; i < 6; i++) r.receive(q, r.room(i), i == 3 ? 40 : 2048);
  for (uint32_t i = 0; i < 6; i++) r.far->send(make_frame({}));
  r.run();
  Reader reader(q, MiniFormat::hash);
  const std::vector<prm::Cqe> got = reader.all();
  EQUAL_FATAL(got.size(), 6u);
  for (uint32_t i = 0; i < 6; i++) {
    EQUAL(got[i].wqe_counter.host(), i);
    EQUAL(opcode(got[i]), i == 3 ? prm::CqeOpcode::resp_err : recv_opcode);
  }
  EQUAL(reader.counts.blocks, 2u);
}

// A client unmaps its ring while frames come.
void a_ring_that_is_gone_is_an_error() {
  for (const bool straight : {true, false}) {
    Rig::straight = straight;
    Rig r;
    Rig::straight = true;
    RawQueue q = r.queue(0, MiniFormat::hash);
    CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
    for (uint32_t i = 0; i < 6; i++) r.receive(q, r.room(i), 2048);
    EQUAL(mprotect(q.cq(), 8192, PROT_NONE), 0);
    for (uint32_t i = 0; i < 6; i++) r.far->send(make_frame({}));
    r.run();
    EQUAL(mprotect(q.cq(), 8192, PROT_READ | PROT_WRITE), 0);
    CU_ASSERT(!r.sink.events.empty() && r.sink.events[0] == wq::event::cq_err);
    CU_ASSERT(r.hca->context.open_blocks == nullptr);
  }
}

constexpr Case of_compression[] = {
    {"a block is as drivers read it", a_block_is_as_drivers_read_it},
    {"drivers read the same as without compression", drivers_read_the_same_as_without},
    {"hashes and strides are in the minis", hashes_and_strides_are_in_the_minis},
    {"a full queue shows what came before", a_full_queue_shows_what_came_before},
    {"a block that fills the queue is written", a_block_that_fills_the_queue_is_written},
    {"an armed queue tells of a block", an_armed_queue_tells_of_a_block},
    {"other completions close a block", other_completions_close_a_block},
    {"a ring that is gone is an error", a_ring_that_is_gone_is_an_error},
};

}  // namespace
}  // namespace compression_ut

std::span<const Case> kilim::test::compression_cases() {
  return compression_ut::of_compression;
}
