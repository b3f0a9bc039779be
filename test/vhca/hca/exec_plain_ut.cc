// SPDX-License-Identifier: BSD-3-Clause
// The straight way of plain requests beside the general one: the same random requests on two
// adapters, one of which is kept from the straight way; completions, states, counts and memory must
// be the same. Then what only the straight way can get wrong: old keys, memory that goes, room.
#include <random>

#include "rig.hh"
#include "ut.hh"
#include "vhca/hca/state.hh"

namespace kilim::vhca::test {
namespace {

using prm::CqeOpcode;
using prm::Opcode;
using prm::Syndrome;

constexpr uint32_t region_bytes = 16384;

RigShape shape_of(uint64_t seed, uint64_t fatal_at) {
  RigShape s;
  s.a.sq_wqebbs = 32;
  s.cq_entries = 64;
  s.seed = seed;
  s.fatal_at = fatal_at;
  s.lint = LintMode::off;
  return s;
}

// One adapter with two regions a side and a key that is a list.
struct Side {
  Side(uint64_t seed, bool general)
      : rig(shape_of(seed, general ? ~uint64_t{0} : 0)), src(region_bytes), dst(region_bytes) {
    std::minstd_rand r(static_cast<unsigned>(seed));
    for (std::size_t i = 0; i < region_bytes; i++) src.data()[i] = static_cast<std::byte>(r());
    keys = {rig.reg(src, rw_access).lkey.value(), rig.reg(dst, rw_access).lkey.value(),
            rig.reg(src, access::remote_read).lkey.value(), rig.make_key(4)};
    const UmrShape list{.len = region_bytes};
    const prm::Klm piece = klm(dst.at(0), region_bytes, keys[1]);
    (void)rig.run_one(rig.a, umr_wqe(keys[3], list, {&piece, 1}));
  }
  // How the requests of the last turn went.
  [[nodiscard]] uint64_t work() { return rig.hca->state().work_since_clock; }

  Rig rig;
  Pages src, dst;
  std::array<uint32_t, 4> keys{};
};

// A request as both sides get it: addresses are offsets, keys are places.
struct Ask {
  Opcode opcode = Opcode::rdma_write;
  uint32_t local = 0, remote = 1;
  uint32_t stale = 0;  // added to the local key
  uint64_t from = 0, to = 0;
  uint32_t bytes = 64, segments = 1;
  uint8_t flags = prm::ctrl::cq_update;
  bool inlined = false;
};

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  bool one_in(uint32_t n) { return below(n) == 0; }

  Ask ask() {
    Ask a;
    a.opcode = one_in(4) ? Opcode::rdma_read : Opcode::rdma_write;
    if (one_in(20)) a.opcode = one_in(2) ? Opcode::send : Opcode::rdma_write_imm;
    if (one_in(30)) a.opcode = Opcode::nop;
    a.local = one_in(6) ? below(4) : 0;
    a.remote = one_in(6) ? below(4) : 1;
    a.stale = one_in(200) ? 1 : 0;
    a.bytes = one_in(3) ? below(1u << (1 + below(13))) + 1 : below(80) + 1;
    a.from = below(region_bytes - a.bytes + 1);
    a.to = below(region_bytes - a.bytes + 1);
    if (one_in(4)) a.from = region_bytes - a.bytes;  // to the last byte
    if (one_in(300)) a.to = region_bytes - a.bytes + 1;
    if (one_in(300)) a.bytes = 0;  // 2 GiB
    if (one_in(4)) a.flags = 0;
    if (one_in(10)) a.flags |= prm::ctrl::solicited | prm::ctrl::small_fence;
    if (one_in(12)) a.segments = 2;
    a.inlined = a.opcode == Opcode::rdma_write && one_in(12);
    return a;
  }

 private:
  std::minstd_rand random_;
};

// The key of the region whose memory `place` names; list and read-only keys name the same two.
uint64_t address_of(const Side& s, uint32_t place, uint64_t offset) {
  if (place == 3) return offset;
  return place == 1 ? s.dst.at(offset) : s.src.at(offset);
}

Wqe wqe_of(const Side& s, const Ask& a) {
  Wqe w(a.opcode, 0x1234);
  w.flags = a.flags;
  if (a.opcode == Opcode::nop) return w;
  if (a.opcode != Opcode::send) w.raddr(address_of(s, a.remote, a.to), s.keys[a.remote]);
  if (a.inlined) {
    std::array<std::byte, 20> text{};
    text.fill(std::byte{0x5a});
    return w.inlined(text);
  }
  const uint32_t first = a.segments == 2 ? a.bytes / 2 : a.bytes;
  const uint64_t from = address_of(s, a.local, a.from);
  w.data(from, first, s.keys[a.local] + a.stale);
  if (a.segments == 2) w.data(from + first, a.bytes - first, s.keys[a.local]);
  return w;
}

bool same(const std::optional<Completion>& x, const std::optional<Completion>& y) {
  if (!x || !y) return x.has_value() == y.has_value();
  return x->op == y->op && x->syndrome == y->syndrome && x->wqe_opcode == y->wqe_opcode &&
         x->qpn == y->qpn && x->uidx == y->uidx && x->bytes == y->bytes && x->imm == y->imm &&
         x->rqpn == y->rqpn && x->index == y->index && x->solicited == y->solicited;
}

bool same_completions(TestCq& x, TestCq& y) {
  for (;;) {
    const std::optional<Completion> a = x.poll(), b = y.poll();
    if (!same(a, b)) return false;
    if (!a) return true;
  }
}

bool same_counts(const Journal& x, const Journal& y) {
  bool equal = x.pieces() == y.pieces();
  for (std::size_t k = 0; k < Journal::kinds; k++)
    equal =
        equal && x.count(static_cast<Journal::Kind>(k)) == y.count(static_cast<Journal::Kind>(k));
  return equal;
}

bool same_memory(const Side& x, const Side& y) {
  return std::memcmp(x.src.data(), y.src.data(), region_bytes) == 0 &&
         std::memcmp(x.dst.data(), y.dst.data(), region_bytes) == 0;
}

void begin_again(TestQp& qp, Rig& rig, Qpn peer) {
  (void)rig.to_state(qp, QpState::reset);
  qp.pi = qp.head = 0;
  std::memset(qp.record.data(), 0, 8);
  rig.to_rts(qp, peer);
}

void begin_again(Side& s) {
  begin_again(s.rig.a, s.rig, s.rig.b.qpn);
  begin_again(s.rig.b, s.rig, s.rig.a.qpn);
}

// A doorbell's worth on both, with as many receives as it needs: a wait would be a matter of time.
bool round(Side& plain, Side& general, Dice& dice) {
  const uint32_t n = dice.below(15) + 1;
  for (uint32_t i = 0; i < n; i++) {
    const Ask a = dice.ask();
    const bool receives = a.opcode == Opcode::send || a.opcode == Opcode::rdma_write_imm;
    for (Side* s : {&plain, &general}) {
      if (receives) s->rig.b.recv(s->dst.at(0), region_bytes, s->keys[1]);
      s->rig.a.put(wqe_of(*s, a));
    }
  }
  for (Side* s : {&plain, &general}) {
    s->rig.a.ring(s->rig.uar);
    (void)s->rig.hca->run();
  }
  bool equal = same_completions(plain.rig.cq_a, general.rig.cq_a) &&
               same_completions(plain.rig.cq_b, general.rig.cq_b) &&
               same_counts(plain.rig.journal, general.rig.journal) && same_memory(plain, general);
  for (auto qp : {&Rig::a, &Rig::b})
    equal = equal && plain.rig.state(plain.rig.*qp) == general.rig.state(general.rig.*qp);
  return equal;
}

void both_ways_do_the_same() {
  unsigned straight = 0, refused = 0;
  for (unsigned seed = 1; seed <= 12; seed++) {
    Side plain(seed, false), general(seed, true);
    Dice dice(seed);
    for (unsigned i = 0; i < 1500; i++) {
      CU_ASSERT_FATAL(round(plain, general, dice));
      straight += plain.work() < general.work() ? 1 : 0;
      if (plain.rig.state(plain.rig.a) == QpState::rts && !dice.one_in(8)) continue;
      refused++;
      begin_again(plain);
      begin_again(general);
    }
  }
  CU_ASSERT(straight > 3000 && refused > 300);
}

Wqe write_of(const Side& s, uint32_t bytes = 64) {
  Wqe w(Opcode::rdma_write);
  w.raddr(s.dst.at(0), s.keys[1]).data(s.src.at(0), bytes, s.keys[0]);
  return w;
}

void plain_requests_go_the_straight_way() {
  Side s(1, false);
  for (unsigned i = 0; i < 10; i++) s.rig.a.put(write_of(s));
  Wqe read(Opcode::rdma_read);
  read.raddr(s.src.at(8), s.keys[0]).data(s.dst.at(8), 100, s.keys[1]);
  s.rig.a.put(read);
  s.rig.a.ring(s.rig.uar);
  CU_ASSERT_EQUAL(s.rig.hca->run(), 11);
  CU_ASSERT_EQUAL(s.work(), 11 * plain_work);
  for (unsigned i = 0; i < 10; i++) CU_ASSERT_EQUAL(s.rig.cq_a.poll()->bytes, 0);
  CU_ASSERT_EQUAL(s.rig.cq_a.poll()->bytes, 100);
}

// What is remembered of a key ends with the key, and with its peer's protection domain.
void keys_are_not_remembered_too_long() {
  Side s(2, false);
  CU_ASSERT(s.rig.run_one(s.rig.a, write_of(s)).op == CqeOpcode::req);
  const MrSpec half{s.rig.pd, s.dst.va(), region_bytes / 2, Iova{s.dst.at(0)}, rw_access};
  CU_ASSERT_EQUAL(s.rig.hca->rereg_mr(MkeyIndex{s.keys[1] >> 8}, half), 0);
  Wqe beyond(Opcode::rdma_write);
  beyond.raddr(s.dst.at(region_bytes / 2), s.keys[1]).data(s.src.at(0), 64, s.keys[0]);
  CU_ASSERT(s.rig.run_one(s.rig.a, beyond).syndrome == Syndrome::remote_access);
  begin_again(s);
  CU_ASSERT(s.rig.run_one(s.rig.a, write_of(s)).op == CqeOpcode::req);
  CU_ASSERT_EQUAL(s.rig.hca->dereg_mr(MkeyIndex{s.keys[0] >> 8}), 0);
  CU_ASSERT(s.rig.run_one(s.rig.a, write_of(s)).syndrome == Syndrome::local_prot);
}

// Nor are they another peer's, though the key is the same.
void keys_are_not_remembered_for_another_peer() {
  Side s(7, false);
  CU_ASSERT(s.rig.run_one(s.rig.a, write_of(s)).op == CqeOpcode::req);
  TestQp stranger{QueueShape{}};
  QpSpec spec = s.rig.hca->state().qps.at(s.rig.b.qpn.value())->spec;
  spec.pd = *s.rig.hca->alloc_pd();
  spec.buf = stranger.rings.va();
  spec.sq_buf = stranger.sq.va();
  spec.record = stranger.record.va();
  stranger.qpn = *s.rig.hca->create_qp(spec, &s.rig.events);
  s.rig.to_rts(stranger, s.rig.a.qpn);
  begin_again(s.rig.a, s.rig, stranger.qpn);
  CU_ASSERT(s.rig.run_one(s.rig.a, write_of(s)).syndrome == Syndrome::remote_access);
  CU_ASSERT_EQUAL(s.rig.hca->destroy_qp(stranger.qpn), 0);
}

void post_three(Side& s) {
  for (unsigned i = 0; i < 3; i++) s.rig.a.put(write_of(s));
  s.rig.a.ring(s.rig.uar);
  s.rig.run();
  for (unsigned i = 0; i < 3; i++) CU_ASSERT(s.rig.cq_a.poll()->op == CqeOpcode::req);
}

void an_armed_queue_has_its_event() {
  Side s(8, false);
  s.rig.cq_a.arm(s.rig.uar, false);
  post_three(s);
  CU_ASSERT_EQUAL(s.rig.events.completions, 1);
}

void the_first_request_establishes_the_connection() {
  Side s(9, false);
  (void)s.rig.to_state(s.rig.b, QpState::reset);
  CU_ASSERT(s.rig.to_init(s.rig.b) == 0 && s.rig.to_rtr(s.rig.b, s.rig.a.qpn) == 0);
  post_three(s);
  CU_ASSERT_EQUAL(s.rig.events.of(4), 1);
}

// The right that one kind needs says nothing of the other.
void each_kind_needs_its_own_rights() {
  Side s(3, false);
  Wqe read(Opcode::rdma_read);
  read.raddr(s.src.at(0), s.keys[2]).data(s.dst.at(0), 64, s.keys[1]);
  CU_ASSERT(s.rig.run_one(s.rig.a, read).op == CqeOpcode::req);
  Wqe write(Opcode::rdma_write);
  write.raddr(s.src.at(0), s.keys[2]).data(s.dst.at(0), 64, s.keys[1]);
  CU_ASSERT(s.rig.run_one(s.rig.a, write).syndrome == Syndrome::remote_access);
}

void memory_that_goes_is_found_out() {
  for (bool source : {true, false}) {
    Side s(4, false);
    for (unsigned i = 0; i < 3; i++) s.rig.a.put(write_of(s, 40 + 40 * i));
    (source ? s.src : s.dst).unmap();
    s.rig.a.ring(s.rig.uar);
    s.rig.run();
    const std::optional<Completion> c = s.rig.cq_a.poll();
    CU_ASSERT_FATAL(c.has_value());
    CU_ASSERT(c->syndrome == (source ? Syndrome::local_prot : Syndrome::remote_access));
    CU_ASSERT_EQUAL(s.rig.journal.count(Journal::Kind::fault), 1);
    CU_ASSERT(s.rig.cq_a.poll()->syndrome == Syndrome::wr_flush);
  }
}

void rings_that_go_are_fatal() {
  for (bool queue : {true, false}) {
    Side s(5, false);
    CU_ASSERT(s.rig.run_one(s.rig.a, write_of(s)).op == CqeOpcode::req);
    s.rig.a.put(write_of(s));
    s.rig.a.put(write_of(s));
    (queue ? s.rig.a.sq : s.rig.cq_a.memory).unmap();
    s.rig.a.ring(s.rig.uar);
    s.rig.run();
    CU_ASSERT_EQUAL(s.rig.events.of(1), 1);                // the queue pair is broken
    CU_ASSERT_EQUAL(s.rig.events.of(0), queue ? 0u : 1u);  // the completion queue
    CU_ASSERT(s.rig.state(s.rig.a) == QpState::err);
    // With the ring nothing more was executed; the completion that failed was its WRITE's.
    CU_ASSERT_EQUAL(s.rig.journal.count(Journal::Kind::translated), queue ? 1u : 2u);
  }
}

void a_full_completion_queue_is_an_overrun() {
  Side s(6, false);
  for (unsigned i = 0; i < 3; i++) {
    for (unsigned k = 0; k < 30; k++) s.rig.a.put(write_of(s));
    s.rig.a.ring(s.rig.uar);
    s.rig.run();
  }
  CU_ASSERT_EQUAL(s.rig.events.of(0), 1);
  CU_ASSERT(s.rig.state(s.rig.a) == QpState::err);
  unsigned entries = 0;
  while (s.rig.cq_a.poll()) entries++;
  CU_ASSERT_EQUAL(entries, 64);
}

constexpr kilim::test::Case cases[] = {
    {"both ways do the same", both_ways_do_the_same},
    {"plain requests go the straight way", plain_requests_go_the_straight_way},
    {"keys are not remembered too long", keys_are_not_remembered_too_long},
    {"keys are not remembered for another peer", keys_are_not_remembered_for_another_peer},
    {"an armed queue has its event", an_armed_queue_has_its_event},
    {"the first request establishes the connection", the_first_request_establishes_the_connection},
    {"each kind needs its own rights", each_kind_needs_its_own_rights},
    {"memory that goes is found out", memory_that_goes_is_found_out},
    {"rings that go are fatal", rings_that_go_are_fatal},
    {"a full completion queue is an overrun", a_full_completion_queue_is_an_overrun},
};

}  // namespace
}  // namespace kilim::vhca::test

KILIM_UT_MAIN("vhca/hca/exec_plain", kilim::vhca::test::cases)
