// SPDX-License-Identifier: BSD-3-Clause
// Lint mode of the adapter, its other side: receive WQEs, keys that a peer uses over the wire, and
// memory that goes away under a region. One seeded mistake a rule; the same without it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lint_fixture.hh"
#include "ut.hh"
#include "wire_fixture.hh"

namespace {

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;
using prm::lint::Rule;

constexpr uint8_t small = prm::ctrl::small_fence;

// Standard error in a file while f() runs.
template <typename F>
std::string told(F f) {
  const int file = ::memfd_create("told", 0);
  CU_ASSERT_FATAL(file >= 0);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(file, STDERR_FILENO);
  f();
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  std::string text(100000, '\0');
  const ssize_t n = ::pread(file, text.data(), text.size(), 0);
  ::close(file);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

void expect(const std::string& text, const char* part) {
  if (text.find(part) == std::string::npos) std::printf("no '%s' in: %s\n", part, text.c_str());
  CU_ASSERT_NOT_EQUAL(text.find(part), std::string::npos);
}

// A word of the receive WQE at `place` of B's ring.
void patch_receive(Bench& b, uint32_t place, std::size_t at, be32 value) {
  std::memcpy(b.b.rings.data() + place * 64 + at, &value, sizeof(value));
}

void send(Bench& b) {
  b.a.put(Wqe(Opcode::send).data(b.memory.at(0), 64, b.lkey()));
  b.go(b.a);
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
    Bench b(LintMode::warn);
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
    Bench strict(LintMode::error);
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
  Bench b(LintMode::error);
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
  Bench b(LintMode::warn);
  for (int i = 0; i < 16; i++) b.b.recv(b.memory.at(4096), 128, b.lkey());
  b.run();
  EQUAL(b.findings(), 0);
  b.b.recv(b.memory.at(4096), 128, b.lkey());
  b.run();
  EQUAL(b.count(Rule::rq_overrun), 1);
}

// The receives of a queue can complete whenever the peer likes.
void receives_beyond_the_completion_queue_are_named() {
  RigShape shape = linted(LintMode::warn);
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
  SharedBench() : b(LintMode::warn) {
    SrqSpec spec;
    spec.pd = b.pd;
    spec.buf = ring.va();
    spec.record = record.va();
    spec.wqes = 8;
    spec.wqe_shift = 6;
    Result<uint32_t> made = create_srq(*b.hca, spec, &b.events);
    CU_ASSERT_FATAL(made.ok());
    srqn = *made;
  }
  ~SharedBench() { destroy_srq(*b.hca, srqn); }
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

// Two adapters; the right one has a key of pieces that its own UMR changes and the left one uses.
struct Pair {
  explicit Pair(LintMode mode)
      : w(shape(mode)),
        near_key(w.left.reg(near, rw_access)),
        far_key(w.right.reg(far, rw_access)),
        key(w.right.make_key(8)) {}
  static LinkShape shape(LintMode mode) {
    LinkShape s;
    s.lint = mode;
    return s;
  }
  Wqe umr() {
    UmrShape s;
    s.len = 8192;
    prm::Klm entries[2] = {klm(far.at(0), 4096, far_key.lkey.value()),
                           klm(far.at(8192), 4096, far_key.lkey.value())};
    return umr_wqe(key, s, entries);
  }
  Wqe tell_peer(uint8_t fence) {
    Wqe m(Opcode::send);
    m.data(far.at(0), 16, far_key.lkey.value());
    m.flags = static_cast<uint8_t>(fence);
    return m;
  }
  Wqe access(Opcode op, uint32_t bytes = 64) {
    return Wqe(op).raddr(0, key).data(near.at(0), bytes, near_key.lkey.value());
  }
  void receive() { w.left.a.recv(near.at(16384), 64, near_key.lkey.value()); }
  [[nodiscard]] uint64_t count(Rule r) { return w.right.hca->lint->count(r); }
  [[nodiscard]] uint64_t findings() {
    return w.right.hca->lint->findings() + w.left.hca->lint->findings();
  }
  // On the right, unsignalled: complete is what nobody there can know.
  void weave(const Wqe& m) {
    w.right.a.put(m);
    w.right.a.ring(w.right.uar);
    w.settle();
  }
  Pages near{65536}, far{65536};
  WireRig w;
  MrKeys near_key, far_key;
  uint32_t key;
};

void a_peer_that_was_not_told_is_named() {
  for (Opcode op : {Opcode::rdma_write, Opcode::rdma_read}) {
    Pair p(LintMode::warn);
    p.weave(p.umr().quiet());
    const std::string text = told([&] { CU_ASSERT(p.w.post(p.access(op)).has_value()); });
    EQUAL(p.count(Rule::wire_key), 1);
    EQUAL(p.findings(), 1);
    expect(text, "lint: wire-key: a peer uses a key before");
    expect(text, "; a request of the peer of queue ");
    expect(text, " is: UMR index 0 ");
  }
}

// What the right side does before the peer uses the key, and how that ends.
struct Telling {
  LintMode mode;
  bool signalled;
  std::optional<uint8_t> fence;  // of a message behind the UMR
  uint64_t findings;
};

void a_peer_is_told_behind_a_fence_or_after_the_completion() {
  // A message without a fence is a finding itself: it would go no further in error mode.
  constexpr Telling rows[] = {{LintMode::error, true, std::nullopt, 0},
                              {LintMode::error, false, std::nullopt, 1},
                              {LintMode::warn, false, uint8_t{0}, 1},
                              {LintMode::warn, false, prm::ctrl::answer_fence, 1},
                              {LintMode::error, false, prm::ctrl::fence, 0},
                              {LintMode::error, false, small, 0}};
  for (const Telling& row : rows) {
    for (Opcode op : {Opcode::rdma_write, Opcode::rdma_read}) {
      Pair p(row.mode);
      p.receive();
      p.weave(row.signalled ? p.umr() : p.umr().quiet());
      if (row.fence) p.weave(p.tell_peer(*row.fence));
      EQUAL(p.w.left.cq_a.poll().has_value(), row.fence.has_value());
      std::optional<Completion> c = p.w.post(p.access(op));
      CU_ASSERT_FATAL(c.has_value());
      const bool refused = row.mode == LintMode::error && row.findings != 0;
      EQUAL(c->syndrome, refused ? Syndrome::remote_access : Syndrome::none);
      EQUAL(p.count(Rule::wire_key), row.findings);
      EQUAL(p.count(Rule::unfenced_umr), row.mode == LintMode::warn ? 1 : 0);
    }
  }
}

// Half of a WRITE has come when its key changes.
void a_key_is_not_changed_under_a_peers_request() {
  Pair p(LintMode::warn);
  p.weave(p.umr());
  CU_ASSERT(p.w.right.cq_a.poll().has_value());
  p.w.left.a.put(p.access(Opcode::rdma_write, 8192));
  p.w.left.a.ring(p.w.left.uar);
  for (int i = 0; i < 8 && p.w.right.journal.count(Journal::Kind::translated) == 0; i++) {
    p.w.left.hca->run(1);
    p.w.right.hca->run(1);
  }
  p.w.right.a.put(p.umr());
  p.w.right.a.ring(p.w.right.uar);
  const std::string text = told([&] { p.w.right.hca->run(1); });
  EQUAL(p.count(Rule::wire_in_flight), 1);
  expect(text, "a UMR changes a key that a request of a peer still uses");
  expect(text, " is: UMR index ");
  p.w.settle();
}

// What is mapped there next is not what the key shows.
void memory_that_went_away_is_named_even_if_other_memory_came() {
  Bench b(LintMode::warn);
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
  Bench b(LintMode::warn);
  Pages other(8192);
  const MrKeys keys = b.reg(other, rw_access);
  other.unmap();
  EQUAL(dereg_mr(*b.hca, MkeyIndex{keys.lkey.value() >> 8}), 0);
  EQUAL(b.count(Rule::unmapped_region), 1);
  Pages third(8192);
  const MrKeys more = b.reg(third, rw_access);
  EQUAL(dereg_mr(*b.hca, MkeyIndex{more.lkey.value() >> 8}), 0);
  third.unmap();
  b.run();
  EQUAL(b.findings(), 1);
}

// Of the peer's requests and of receives as well.
void lost_memory_is_named_to_the_wire_and_to_receives() {
  Pair p(LintMode::warn);
  void* again = ::mmap(p.far.data(), 4096, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  EQUAL_FATAL(again, p.far.data());
  heard_of_memory();
  p.w.settle();
  EQUAL(p.count(Rule::unmapped_region), 1);
  Wqe w(Opcode::rdma_write);
  w.raddr(p.far.at(0), p.far_key.rkey.value()).data(p.near.at(0), 64, p.near_key.lkey.value());
  CU_ASSERT(p.w.post(w).has_value());
  EQUAL(p.count(Rule::unmapped_region), 2);
  p.w.right.a.recv(p.far.at(64), 64, p.far_key.lkey.value());
  CU_ASSERT(
      p.w.post(Wqe(Opcode::send).data(p.near.at(0), 64, p.near_key.lkey.value())).has_value());
  EQUAL(p.count(Rule::unmapped_region), 3);
}

const Case cases[] = {
    {"each mistake of a receive WQE is named, and fails it", each_mistake_of_a_receive_is_named},
    {"receives as they should be are silent", receives_as_they_should_be_are_silent},
    {"more receives than the ring holds are named", too_many_receives_are_named},
    {"receives beyond the completion queue are named",
     receives_beyond_the_completion_queue_are_named},
    {"shared receives are followed by their links", shared_receives_are_followed_by_their_links},
    {"a peer that was not told of a key is named", a_peer_that_was_not_told_is_named},
    {"a peer is told behind a fence or after the completion",
     a_peer_is_told_behind_a_fence_or_after_the_completion},
    {"a key is not changed under a peer's request", a_key_is_not_changed_under_a_peers_request},
    {"memory that went away is named even if other memory came",
     memory_that_went_away_is_named_even_if_other_memory_came},
    {"a region is looked at when it ends and no longer",
     a_region_is_looked_at_when_it_ends_and_no_longer},
    {"lost memory is named to the wire and to receives",
     lost_memory_is_named_to_the_wire_and_to_receives},
};

}  // namespace

KILIM_UT_MAIN("lint_recv", cases)
