// SPDX-License-Identifier: BSD-3-Clause
// The straight way of plain requests beside the general one: the same random requests on two
// adapters, one of which is kept from the straight way; completions, states, counts and memory must
// be the same. Then what only the straight way can get wrong: old keys, memory that goes, room.
#include "plain_fixture.hh"
#include "ut.hh"

namespace kilim::vhca::test {
namespace plain_ut {
namespace {

using prm::CqeOpcode;

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
  EQUAL(s.rig.hca->run(), 11);
  EQUAL(s.work(), 11 * exec::plain_work);
  for (unsigned i = 0; i < 10; i++) EQUAL(s.rig.cq_a.poll()->bytes, 0);
  EQUAL(s.rig.cq_a.poll()->bytes, 100);
}

// What is remembered of a key ends with the key, and with its peer's protection domain.
void keys_are_not_remembered_too_long() {
  Side s(2, false);
  EQUAL(s.rig.run_one(s.rig.a, write_of(s)).op, CqeOpcode::req);
  const MrSpec half{s.rig.pd, s.dst.va(), region_bytes / 2, Iova{s.dst.at(0)}, rw_access};
  EQUAL(hca::rereg_mr(*s.rig.hca, MkeyIndex{s.keys[1] >> 8}, half), 0);
  Wqe beyond(Opcode::rdma_write);
  beyond.raddr(s.dst.at(region_bytes / 2), s.keys[1]).data(s.src.at(0), 64, s.keys[0]);
  EQUAL(s.rig.run_one(s.rig.a, beyond).syndrome, Syndrome::remote_access);
  begin_again(s);
  EQUAL(s.rig.run_one(s.rig.a, write_of(s)).op, CqeOpcode::req);
  EQUAL(hca::dereg_mr(*s.rig.hca, MkeyIndex{s.keys[0] >> 8}), 0);
  EQUAL(s.rig.run_one(s.rig.a, write_of(s)).syndrome, Syndrome::local_prot);
}

// Nor are they another peer's, though the key is the same.
void keys_are_not_remembered_for_another_peer() {
  Side s(7, false);
  EQUAL(s.rig.run_one(s.rig.a, write_of(s)).op, CqeOpcode::req);
  TestQp stranger{QueueShape{}};
  QpSpec spec = s.rig.hca->qps.at(s.rig.b.qpn.value())->spec;
  spec.pd = *hca::alloc_pd(*s.rig.hca);
  spec.buf = stranger.rings.va();
  spec.sq_buf = stranger.sq.va();
  spec.record = stranger.record.va();
  stranger.qpn = *hca::create_qp(*s.rig.hca, spec, &s.rig.events);
  s.rig.to_rts(stranger, s.rig.a.qpn);
  begin_again(s.rig.a, s.rig, stranger.qpn);
  EQUAL(s.rig.run_one(s.rig.a, write_of(s)).syndrome, Syndrome::remote_access);
  EQUAL(hca::destroy_qp(*s.rig.hca, stranger.qpn), 0);
}

// A key over `count` pieces of the source, all but the last one of `bytes` bytes; the last one is
// of the other region.
Wqe bind_list(const Side& s, uint32_t key, uint32_t count, uint32_t bytes) {
  std::vector<prm::Klm> list;
  for (uint32_t i = 0; i < count - 1; i++)
    list.push_back(klm(s.src.at(uint64_t{i} * 2 * bytes), bytes, s.keys[Side::whole_src]));
  list.push_back(klm(s.dst.at(region_bytes - bytes), bytes, s.keys[Side::whole_dst]));
  const UmrShape shape{.len = uint64_t{count} * bytes, .tag = static_cast<uint8_t>(key)};
  return umr_wqe(s.keys[Side::bound] & ~0xffu, shape, list);
}

void bits_without_a_meaning_are_refused() {
  void (*const changes[])(Wqe&) = {[](Wqe& w) { w.flags |= 0x01; }, [](Wqe& w) { w.flags |= 0x10; },
                                   [](Wqe& w) { w.bytes[0] = std::byte{1}; }};  // opcode modifier
  for (const auto change : changes) {
    Side s(17, false);
    Wqe w = write_of(s, 64);
    change(w);
    const std::byte before = s.dst.data()[0];
    EQUAL(s.rig.run_one(s.rig.a, w).syndrome, Syndrome::local_qp_op);
    EQUAL(s.dst.data()[0], before);
  }
  Side s(17, false);
  Wqe w = write_of(s, 64);
  // A signature, which nobody checks; a stream, which is an initiator's (UCX leaves old bytes
  // there).
  for (const std::size_t unread : {8u, 9u, 10u}) {
    w.bytes[unread] = std::byte{1};
    EQUAL(work_of(s, w), exec::plain_work);
  }
}

// The clock is read again by it.
void long_requests_count_by_their_bytes() {
  Side s(15, false);
  s.rig.a.put(write_of(s, 8000).quiet());
  s.rig.a.put(write_of(s, 64).quiet());
  EQUAL(work_of(s, write_of(s, 5000)), 3 * exec::plain_work + 13000);
}

void bound_requests_go_the_straight_way() {
  Side s(10, false);
  const uint32_t key = s.keys[Side::bound] | 0x11;
  std::memset(s.dst.data() + region_bytes - 300, 0x77, 300);
  Wqe write(Opcode::rdma_write), read(Opcode::rdma_read);
  write.raddr(s.dst.at(100), s.keys[Side::whole_dst]).data(0, 3 * 300, key);
  read.raddr(250, key).data(s.dst.at(2000), 100, s.keys[Side::whole_dst]);
  s.rig.a.put(bind_list(s, key, 3, 300).quiet());
  s.rig.a.put(write.quiet());
  s.rig.a.put(read.quiet());
  EQUAL(work_of(s, Wqe(Opcode::local_inval, key)), 4 * exec::plain_work);
  const std::byte *from = s.src.data(), *to = s.dst.data();
  EQUAL(std::memcmp(to + 100, from, 300), 0);
  EQUAL(std::memcmp(to + 400, from + 600, 300), 0);
  EQUAL(std::memcmp(to + 700, to + region_bytes - 300, 300), 0);
  EQUAL(std::memcmp(to + 2000, from + 250, 50), 0);
  EQUAL(std::memcmp(to + 2050, from + 600, 50), 0);
  EQUAL(s.rig.journal.pieces(), 4 + 3);
}

void many_pieces_go_the_straight_way_too() {
  Side s(11, false);
  const uint32_t key = s.keys[Side::bound + 2];
  for (const uint16_t first : {uint16_t{0}, uint16_t{36}}) {
    std::vector<prm::Klm> list;
    for (uint32_t i = first; i < first + 36u; i++)
      list.push_back(klm(s.src.at(i * 40), 20, s.keys[Side::whole_src]));
    UmrShape shape{.len = 72 * 20, .offset = first};
    shape.flags |= prm::umr::has_translation_offset;
    EQUAL(s.rig.run_one(s.rig.a, umr_wqe(key, shape, list)).op, CqeOpcode::req);
  }
  for (uint32_t pieces : {64, 65, 72}) {
    Wqe write(Opcode::rdma_write);
    write.raddr(s.dst.at(0), s.keys[Side::whole_dst]).data(0, 20 * pieces, key);
    EQUAL(work_of(s, write), exec::plain_work);
    EQUAL(std::memcmp(s.dst.data() + 20 * (pieces - 1), s.src.data() + 40 * (pieces - 1), 20), 0);
  }
}

// What was worked out for one key's length does not serve another one.
void another_key_has_its_own_bounds() {
  Side s(12, false);
  EQUAL(work_of(s, write_of(s)), exec::plain_work);
  for (const uint64_t at : {0, 8000}) {
    Wqe write(Opcode::rdma_write);
    write.raddr(s.dst.at(at), s.keys[Side::half]).data(s.src.at(0), 200, s.keys[Side::whole_src]);
    s.rig.a.put(write);
  }
  s.rig.a.ring(s.rig.uar);
  s.rig.run();
  EQUAL(s.rig.cq_a.poll()->op, CqeOpcode::req);
  EQUAL(s.rig.cq_a.poll()->syndrome, Syndrome::remote_access);
}

// What is remembered of a key below a list ends with that key.
void keys_below_a_list_are_not_remembered_too_long() {
  Side s(13, false);
  const uint32_t key = s.keys[Side::bound];
  Wqe write(Opcode::rdma_write);
  write.raddr(s.dst.at(0), s.keys[Side::whole_dst]).data(0, 400, key);
  EQUAL(s.rig.run_one(s.rig.a, bind_list(s, key, 2, 200)).op, CqeOpcode::req);
  EQUAL(work_of(s, write), exec::plain_work);
  EQUAL(hca::dereg_mr(*s.rig.hca, MkeyIndex{s.keys[Side::whole_src] >> 8}), 0);
  EQUAL(s.rig.run_one(s.rig.a, write).syndrome, Syndrome::local_prot);
}

void bound_memory_that_goes_is_found_out() {
  Side s(14, false);
  const uint32_t key = s.keys[Side::bound];
  EQUAL(s.rig.run_one(s.rig.a, bind_list(s, key, 4, 300)).op, CqeOpcode::req);
  s.src.unmap();
  Wqe write(Opcode::rdma_write);
  write.raddr(s.dst.at(0), s.keys[Side::whole_dst]).data(0, 1200, key);
  EQUAL(s.rig.run_one(s.rig.a, write).syndrome, Syndrome::local_prot);
  EQUAL(s.rig.journal.count(Journal::Kind::fault), 1);
}

void post_three(Side& s) {
  for (unsigned i = 0; i < 3; i++) s.rig.a.put(write_of(s));
  s.rig.a.ring(s.rig.uar);
  s.rig.run();
  for (unsigned i = 0; i < 3; i++) EQUAL(s.rig.cq_a.poll()->op, CqeOpcode::req);
}

void an_armed_queue_has_its_event() {
  Side s(8, false);
  s.rig.cq_a.arm(s.rig.uar, false);
  post_three(s);
  EQUAL(s.rig.events.completions, 1);
}

void the_first_request_establishes_the_connection() {
  Side s(9, false);
  (void)s.rig.to_state(s.rig.b, QpState::reset);
  EQUAL(s.rig.to_init(s.rig.b), 0);
  EQUAL(s.rig.to_rtr(s.rig.b, s.rig.a.qpn), 0);
  post_three(s);
  EQUAL(s.rig.events.of(4), 1);
}

// The right that one kind needs says nothing of the other.
void each_kind_needs_its_own_rights() {
  Side s(3, false);
  Wqe read(Opcode::rdma_read);
  read.raddr(s.src.at(0), s.keys[2]).data(s.dst.at(0), 64, s.keys[1]);
  EQUAL(s.rig.run_one(s.rig.a, read).op, CqeOpcode::req);
  Wqe write(Opcode::rdma_write);
  write.raddr(s.src.at(0), s.keys[2]).data(s.dst.at(0), 64, s.keys[1]);
  EQUAL(s.rig.run_one(s.rig.a, write).syndrome, Syndrome::remote_access);
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
    EQUAL(c->syndrome, source ? Syndrome::local_prot : Syndrome::remote_access);
    EQUAL(s.rig.journal.count(Journal::Kind::fault), 1);
    EQUAL(s.rig.cq_a.poll()->syndrome, Syndrome::wr_flush);
  }
}

void rings_that_go_are_fatal() {
  for (bool queue : {true, false}) {
    Side s(5, false);
    EQUAL(s.rig.run_one(s.rig.a, write_of(s)).op, CqeOpcode::req);
    s.rig.a.put(write_of(s));
    s.rig.a.put(write_of(s));
    (queue ? s.rig.a.sq : s.rig.cq_a.memory).unmap();
    s.rig.a.ring(s.rig.uar);
    s.rig.run();
    EQUAL(s.rig.events.of(1), 1);                // the queue pair is broken
    EQUAL(s.rig.events.of(0), queue ? 0u : 1u);  // the completion queue
    EQUAL(s.rig.state(s.rig.a), QpState::err);
    // With the ring nothing more was executed; the completion that failed was its WRITE's.
    EQUAL(s.rig.journal.count(Journal::Kind::translated), queue ? 1u : 2u);
  }
}

void a_full_completion_queue_is_an_overrun() {
  Side s(6, false);
  for (unsigned i = 0; i < 3; i++) {
    for (unsigned k = 0; k < 30; k++) s.rig.a.put(write_of(s));
    s.rig.a.ring(s.rig.uar);
    s.rig.run();
  }
  EQUAL(s.rig.events.of(0), 1);
  EQUAL(s.rig.state(s.rig.a), QpState::err);
  unsigned entries = 0;
  while (s.rig.cq_a.poll()) entries++;
  EQUAL(entries, 64);
}

constexpr kilim::test::Case cases[] = {
    {"long lists are read as they are", long_lists_are_read_as_they_are},
    {"sends and atomics go the straight way", sends_and_atomics_go_the_straight_way},
    {"the straight way asks what the general way asks",
     the_straight_way_asks_what_the_general_way_asks},
    {"both ways do the same", both_ways_do_the_same},
    {"observers change nothing", observers_change_nothing},
    {"plain requests go the straight way", plain_requests_go_the_straight_way},
    {"keys are not remembered too long", keys_are_not_remembered_too_long},
    {"keys are not remembered for another peer", keys_are_not_remembered_for_another_peer},
    {"bits without a meaning are refused", bits_without_a_meaning_are_refused},
    {"long requests count by their bytes", long_requests_count_by_their_bytes},
    {"bound requests go the straight way", bound_requests_go_the_straight_way},
    {"many pieces go the straight way too", many_pieces_go_the_straight_way_too},
    {"another key has its own bounds", another_key_has_its_own_bounds},
    {"keys below a list are not remembered too long",
     keys_below_a_list_are_not_remembered_too_long},
    {"bound memory that goes is found out", bound_memory_that_goes_is_found_out},
    {"an armed queue has its event", an_armed_queue_has_its_event},
    {"the first request establishes the connection", the_first_request_establishes_the_connection},
    {"each kind needs its own rights", each_kind_needs_its_own_rights},
    {"memory that goes is found out", memory_that_goes_is_found_out},
    {"rings that go are fatal", rings_that_go_are_fatal},
    {"a full completion queue is an overrun", a_full_completion_queue_is_an_overrun},
};

}  // namespace
}  // namespace plain_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(plain, kilim::vhca::test::plain_ut::cases)
