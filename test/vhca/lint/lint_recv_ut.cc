// SPDX-License-Identifier: BSD-3-Clause
// Lint mode of the adapter, its other side: receive WQEs, keys that a peer uses over the wire, and
// memory that goes away under a region. One seeded mistake a rule; the same without it.
#include <sys/mman.h>

#include "case_tables.hh"
#include "lint_fixture.hh"

namespace lint_recv_ut {
namespace {

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;
using prm::lint::Rule;

// A word of the receive WQE at `place` of B's ring.
void patch_receive(Bench& b, uint32_t place, std::size_t at, be32 value) {
  std::memcpy(b.b.rings.data() + place * 64 + at, &value, sizeof(value));
}

// What is wrong with the one receive WQE that lies on B's ring.
struct RecvSeed {
  Rule rule;
  Syndrome syndrome;  // of the receive in error mode
  void (*spoil)(Bench&);
  bool unreadable = false;  // no card takes it
};

// clang-format off
const RecvSeed recv_seeds[] = {
    {Rule::reserved_bits, Syndrome::local_qp_op,
     [](Bench& b) { b.b.recv(b.memory.at(4096), 128, b.lkey()); patch_receive(b, 0, 0, be32{0x80000080}); }, true},
    {Rule::reserved_bits, Syndrome::local_qp_op,
     [](Bench& b) { b.b.recv(b.memory.at(4096), 128, b.lkey()); patch_receive(b, 0, 16, be32{4}); }},
    {Rule::zero_length, Syndrome::local_length,
     [](Bench& b) { b.b.recv(b.memory.at(4096), 0, b.lkey()); }},
    {Rule::changed_wqe, Syndrome::local_qp_op,
     [](Bench& b) { b.b.recv(b.memory.at(4096), 128, b.lkey()); b.run(); patch_receive(b, 0, 12, be32{static_cast<uint32_t>(b.memory.at(8192))}); }},
};
// clang-format on

void each_mistake_of_a_receive_is_named() {
  for (const RecvSeed& seed : recv_seeds) {
    Bench b(lint::LintMode::warn);
    const std::string text = told([&] {
      seed.spoil(b);
      send(b);
    });
    EQUAL(b.count(seed.rule), 1);
    EQUAL(b.findings(), 1);
    expect(text, prm::lint::row_of(seed.rule).name);
    expect(text, "; receive WQE 0 of queue ");
    expect(text, " is: RECV; ");
    EQUAL(b.state(b.b), seed.unreadable ? QpState::err : QpState::rts);
    Bench strict(lint::LintMode::error);
    seed.spoil(strict);
    send(strict);
    std::optional<Completion> c = strict.cq_b.poll();
    CU_ASSERT_FATAL(c.has_value());
    EQUAL(c->op, prm::CqeOpcode::resp_err);
    EQUAL(c->syndrome, seed.syndrome);
    EQUAL(strict.state(strict.b), QpState::err);
  }
}

void receives_as_they_should_be_are_silent() {
  Bench b(lint::LintMode::error);
  for (int i = 0; i < 40; i++) {
    b.b.recv(b.memory.at(4096), 128, b.lkey());
    send(b);
    std::optional<Completion> c = b.cq_b.poll();
    CU_ASSERT(c && c->syndrome == Syndrome::none);
    CU_ASSERT(b.cq_a.poll().has_value());
  }
  EQUAL(b.findings(), 0);
}

void too_many_receives_are_named() {
  Bench b(lint::LintMode::warn);
  for (int i = 0; i < 16; i++) b.b.recv(b.memory.at(4096), 128, b.lkey());
  b.run();
  EQUAL(b.findings(), 0);
  b.b.recv(b.memory.at(4096), 128, b.lkey());
  b.run();
  EQUAL(b.count(Rule::rq_overrun), 1);
}

// The receives of a queue can complete whenever the peer likes.
void receives_beyond_the_completion_queue_are_named() {
  RigShape shape = linted(lint::LintMode::warn);
  shape.cq_entries = 8;
  Bench b(shape);
  for (int i = 0; i < 8; i++) b.b.recv(b.memory.at(4096), 128, b.lkey());
  b.run();
  EQUAL(b.findings(), 0);
  send(b);
  EQUAL(b.findings(), 0);
  const std::string text = told([&] {
    b.b.recv(b.memory.at(4096), 128, b.lkey());  // the completion has not been read
    b.run();
  });
  EQUAL(b.count(Rule::cq_overrun), 1);
  expect(text, "9 entries for 8 places");
  expect(text, "; receive WQE 8 of queue ");
  Bench c(shape);
  for (int i = 0; i < 8; i++) c.b.recv(c.memory.at(4096), 128, c.lkey());
  send(c);
  CU_ASSERT(c.cq_b.poll().has_value());
  c.b.recv(c.memory.at(4096), 128, c.lkey());
  c.run();
  EQUAL(c.findings(), 0);
}

// A shared queue whose links lead nowhere, or whose reserved bytes are used.
struct SharedBench {
  SharedBench() : b(lint::LintMode::warn) {
    SrqSpec spec;
    spec.pd = b.pd;
    spec.buf = ring.va();
    spec.record = record.va();
    spec.wqes = 8;
    spec.wqe_shift = 6;
    Result<uint32_t> made = hca::create_srq(*b.hca, spec, &b.events);
    CU_ASSERT_FATAL(made.ok());
    srqn = *made;
  }
  ~SharedBench() { hca::destroy_srq(*b.hca, srqn); }
  void post(uint32_t place, uint16_t next, uint8_t reserved = 0) {
    prm::SrqNextSeg link{};
    link.next_wqe_index = be16{next};
    link.reserved1[3] = reserved;
    const prm::DataSeg data{be32{64}, be32{b.lkey()}, be64{b.memory.at(0)}};
    const prm::DataSeg end{be32{0}, be32{prm::list_end_lkey}, be64{0}};
    std::byte* at = ring.data() + std::size_t{place} * 64;
    std::memcpy(at, &link, 16);
    std::memcpy(at + 16, &data, 16);
    std::memcpy(at + 32, &end, 16);
    const be32 head{++posted};
    std::memcpy(record.data(), &head, 4);
    b.run();
  }
  Bench b;
  Pages ring{8 * 64}, record{64};
  uint32_t srqn = 0, posted = 0;
};

void shared_receives_are_followed_by_their_links() {
  SharedBench s;
  s.post(0, 5);
  s.post(5, 2);
  EQUAL(s.b.findings(), 0);
  const std::string text = told([&] { s.post(2, 8); });
  EQUAL(s.b.count(Rule::recv_link), 1);
  EQUAL(s.b.findings(), 1);
  expect(text, "; receive WQE 2 of shared queue ");
  expect(text, " is: RECV next 8; 0x40 bytes key ");
  SharedBench t;
  t.post(0, 1, 7);
  EQUAL(t.b.count(Rule::reserved_bits), 1);
}

// What is mapped there next is not what the key shows.
void memory_that_went_away_is_named_even_if_other_memory_came() {
  Bench b(lint::LintMode::warn);
  const std::string gone = told([&] {
    void* again = ::mmap(b.memory.data() + 8192, 4096, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    EQUAL_FATAL(again, b.memory.data() + 8192);
    heard_of_memory();
    b.run();
  });
  EQUAL(b.count(Rule::unmapped_region), 1);
  expect(gone, "unmapped-region: memory of a registered region was unmapped under it");
  expect(gone, "; seen when it went, before any WQE used it");
  b.finish((b.a.put(b.plain()), b.a));  // other pages of the region
  EQUAL(b.findings(), 1);
  const std::string used = told([&] {
    Wqe w(Opcode::rdma_write);
    b.a.put(w.raddr(b.memory.at(32768), b.rkey()).data(b.memory.at(8192), 64, b.lkey()));
    b.finish(b.a);
  });
  EQUAL(b.count(Rule::unmapped_region), 2);
  expect(used, " is: RDMA_WRITE index ");
}

void a_region_is_looked_at_when_it_ends_and_no_longer() {
  Bench b(lint::LintMode::warn);
  Pages other(8192);
  const MrKeys keys = b.reg(other, rw_access);
  other.unmap();
  EQUAL(hca::dereg_mr(*b.hca, MkeyIndex{keys.lkey.value() >> 8}), 0);
  EQUAL(b.count(Rule::unmapped_region), 1);
  Pages third(8192);
  const MrKeys more = b.reg(third, rw_access);
  EQUAL(hca::dereg_mr(*b.hca, MkeyIndex{more.lkey.value() >> 8}), 0);
  third.unmap();
  b.run();
  EQUAL(b.findings(), 1);
}

const Case cases[] = {
    {"each mistake of a receive WQE is named, and fails it", each_mistake_of_a_receive_is_named},
    {"receives as they should be are silent", receives_as_they_should_be_are_silent},
    {"more receives than the ring holds are named", too_many_receives_are_named},
    {"receives beyond the completion queue are named",
     receives_beyond_the_completion_queue_are_named},
    {"shared receives are followed by their links", shared_receives_are_followed_by_their_links},
    {"memory that went away is named even if other memory came",
     memory_that_went_away_is_named_even_if_other_memory_came},
    {"a region is looked at when it ends and no longer",
     a_region_is_looked_at_when_it_ends_and_no_longer},
};

}  // namespace
}  // namespace lint_recv_ut

KILIM_TEST_MAIN(lint_recv) {
  return kilim::test::run_tables(
      "lint_recv", {lint_recv_ut::cases, kilim::vhca::test::lint_peer_cases()}, argc, argv);
}
