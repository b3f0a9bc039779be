// SPDX-License-Identifier: BSD-3-Clause
// Part of lint_recv_ut. Keys that a peer uses over the wire while their owner changes them, and
// memory that is lost under such a request.
#include "lint_fixture.hh"
#include "wire_fixture.hh"

namespace lint_peer_ut {
namespace {

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;
using prm::lint::Rule;

constexpr uint8_t small = prm::ctrl::small_fence;

// Two adapters; the right one has a key of pieces that its own UMR changes and the left one uses.
struct Pair {
  explicit Pair(lint::LintMode mode)
      : w(shape(mode)),
        near_key(w.left.reg(near, rw_access)),
        far_key(w.right.reg(far, rw_access)),
        key(w.right.make_key(8)) {}
  static LinkShape shape(lint::LintMode mode) {
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
  void bind(const Wqe& m) {
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
    Pair p(lint::LintMode::warn);
    p.bind(p.umr().quiet());
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
  lint::LintMode mode;
  bool signalled;
  std::optional<uint8_t> fence;  // of a message behind the UMR
  uint64_t findings;
};

void a_peer_is_told_behind_a_fence_or_after_the_completion() {
  // A message without a fence is a finding itself: it would go no further in error mode.
  constexpr Telling rows[] = {{lint::LintMode::error, true, std::nullopt, 0},
                              {lint::LintMode::error, false, std::nullopt, 1},
                              {lint::LintMode::warn, false, uint8_t{0}, 1},
                              {lint::LintMode::warn, false, prm::ctrl::answer_fence, 1},
                              {lint::LintMode::error, false, prm::ctrl::fence, 0},
                              {lint::LintMode::error, false, small, 0}};
  for (const Telling& row : rows) {
    for (Opcode op : {Opcode::rdma_write, Opcode::rdma_read}) {
      Pair p(row.mode);
      p.receive();
      p.bind(row.signalled ? p.umr() : p.umr().quiet());
      if (row.fence) p.bind(p.tell_peer(*row.fence));
      EQUAL(p.w.left.cq_a.poll().has_value(), row.fence.has_value());
      std::optional<Completion> c = p.w.post(p.access(op));
      CU_ASSERT_FATAL(c.has_value());
      const bool refused = row.mode == lint::LintMode::error && row.findings != 0;
      EQUAL(c->syndrome, refused ? Syndrome::remote_access : Syndrome::none);
      EQUAL(p.count(Rule::wire_key), row.findings);
      EQUAL(p.count(Rule::unfenced_umr), row.mode == lint::LintMode::warn ? 1 : 0);
    }
  }
}

// Half of a WRITE has come when its key changes.
void a_key_is_not_changed_under_a_peers_request() {
  Pair p(lint::LintMode::warn);
  p.bind(p.umr());
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

// Of the peer's requests and of receives as well.
void lost_memory_is_named_to_the_wire_and_to_receives() {
  Pair p(lint::LintMode::warn);
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

constexpr Case of_peers[] = {
    {"a peer that was not told of a key is named", a_peer_that_was_not_told_is_named},
    {"a peer is told behind a fence or after the completion",
     a_peer_is_told_behind_a_fence_or_after_the_completion},
    {"a key is not changed under a peer's request", a_key_is_not_changed_under_a_peers_request},
    {"lost memory is named to the wire and to receives",
     lost_memory_is_named_to_the_wire_and_to_receives},
};

}  // namespace
}  // namespace lint_peer_ut

std::span<const kilim::test::Case> kilim::vhca::test::lint_peer_cases() {
  return lint_peer_ut::of_peers;
}
