// SPDX-License-Identifier: BSD-3-Clause
// Completion modes of a send WQE: which entries it gets when all goes well, when it fails, when it
// is flushed; events that nobody armed the queue for. On each way that requests take.
#include <vector>

#include "ut.hh"
#include "wire_fixture.hh"

namespace kilim::vhca::test {
namespace completion_ut {
namespace {

constexpr uint32_t cq_err = 0;

namespace ce {
constexpr uint8_t errors = prm::ctrl::only_errors, first = prm::ctrl::only_first_error,
                  always = prm::ctrl::cq_update, event = prm::ctrl::cq_update_and_event;
}  // namespace ce
constexpr std::array<uint8_t, 4> modes = {ce::errors, ce::first, ce::always, ce::event};

struct Bench {
  explicit Bench(const RigShape& shape = {}) : rig(shape) { keys = rig.reg(memory, rw_access); }
  [[nodiscard]] Wqe write(uint8_t mode, bool good = true) const {
    Wqe w(Opcode::rdma_write);
    w.raddr(memory.at(2048), good ? keys.rkey.value() : 0xdead00);
    w.data(memory.at(0), 64, keys.lkey.value());
    w.flags = mode;
    return w;
  }
  void post(std::initializer_list<Wqe> list) {
    for (const Wqe& w : list) rig.a.put(w);
    rig.a.ring(rig.uar);
    rig.run();
  }
  // Indexes of the WQEs that have an entry, and what it says.
  using Told = std::vector<std::pair<uint16_t, Syndrome>>;
  Told told() {
    Told all;
    while (std::optional<Completion> c = rig.cq_a.poll()) all.emplace_back(c->index, c->syndrome);
    return all;
  }
  Pages memory{4096};
  Rig rig;
  MrKeys keys{};
};

constexpr auto fine = Syndrome::none, bad_key = Syndrome::remote_access, flush = Syndrome::wr_flush;

void good_requests_complete_in_two_modes() {
  for (lint::LintMode lint : {lint::LintMode::off, lint::LintMode::warn}) {
    Bench t({.lint = lint});
    uint16_t at = 0;
    for (uint8_t mode : modes) {
      Wqe nop(Opcode::nop);
      nop.flags = mode;
      t.post({t.write(mode), nop});
      const Bench::Told both = {{at, fine}, {static_cast<uint16_t>(at + 1), fine}};
      EQUAL(t.told(), mode == ce::always || mode == ce::event ? both : Bench::Told{});
      at = static_cast<uint16_t>(at + 2);
    }
  }
}

void a_flushed_series_is_told_by_its_modes() {
  Bench t;
  t.post({t.write(ce::first), t.write(ce::first, false), t.write(ce::first), t.write(ce::always),
          t.write(ce::errors), t.write(ce::first), t.write(ce::event)});
  EQUAL(t.told(), Bench::Told({{1, bad_key}, {3, flush}, {4, flush}, {6, flush}}));
  t.post({t.write(ce::first), t.write(ce::always)});  // what comes later is flushed too
  EQUAL(t.told(), Bench::Told({{8, flush}}));
}

// A queue that was ended from outside has no request that failed: the first one that is flushed is
// the first error.
void a_queue_that_is_stopped_tells_the_first_one() {
  Bench t;
  for (int life = 0; life < 2; life++) {
    for (int i = 0; i < 3; i++) t.rig.a.put(t.write(ce::first));
    EQUAL(t.rig.to_state(t.rig.a, QpState::err), 0);
    t.rig.a.ring(t.rig.uar);
    t.rig.run();
    EQUAL(t.told(), Bench::Told({{0, flush}}));
    EQUAL(t.rig.to_state(t.rig.a, QpState::reset), 0);
    t.rig.a.pi = 0;
    std::memset(t.rig.a.record.data(), 0, 8);
    t.rig.to_rts(t.rig.a, t.rig.b.qpn);
  }
  t.post({t.write(ce::first), t.write(ce::first, false), t.write(ce::first)});
  EQUAL(t.told(), Bench::Told({{1, bad_key}}));
}

void an_unreliable_queue_tells_again_after_sqe() {
  WireRig link({.queue = {.type = QpType::uc}});
  Rig& rig = link.left;
  Wqe bad(Opcode::send);
  bad.data(0, 64, 0xdead00);
  bad.flags = ce::first;
  for (uint16_t at : std::initializer_list<uint16_t>{0, 3}) {
    for (int i = 0; i < 3; i++) rig.a.put(bad);
    rig.a.ring(rig.uar);
    const std::optional<Completion> c = link.wait(rig.cq_a);
    link.settle();
    CU_ASSERT_FATAL(c.has_value());
    EQUAL(c->index, at);
    EQUAL(c->syndrome, Syndrome::local_prot);
    CU_ASSERT(!rig.cq_a.poll());
    EQUAL(rig.state(rig.a), QpState::sqe);
    QpAttr attr;
    attr.state = QpState::rts;
    EQUAL(hca::modify_qp(*rig.hca, rig.a.qpn, attr, qp_mask::state), 0);
  }
  EQUAL(rig.to_state(rig.a, QpState::err), 0);
  for (int i = 0; i < 3; i++) rig.a.put(bad);
  rig.a.ring(rig.uar);
  const std::optional<Completion> c = link.wait(rig.cq_a);
  CU_ASSERT(c.has_value() && c->index == 6 && c->syndrome == flush && !rig.cq_a.poll());
}

// What a driver relies on that gives its queue an entry for each signalled WQE and one for an
// error.
void a_small_queue_holds_a_long_series() {
  RigShape shape;
  shape.cq_entries = 4;
  shape.lint = lint::LintMode::off;
  Bench t(shape);
  for (int i = 0; i < 60; i++) t.rig.a.put(t.write(ce::first, i != 7));
  t.rig.a.put(t.write(ce::always));
  t.rig.a.ring(t.rig.uar);
  t.rig.run();
  EQUAL(t.told(), Bench::Told({{7, bad_key}, {60, flush}}));
  EQUAL(t.rig.events.of(cq_err), 0);
}

void an_entry_brings_an_event_unasked() {
  for (lint::LintMode lint : {lint::LintMode::off, lint::LintMode::warn}) {
    Bench t({.lint = lint});
    Events& e = t.rig.events;
    t.post({t.write(ce::event)});
    EQUAL(e.completions, 1);
    t.post({t.write(ce::event), t.write(ce::always), t.write(ce::event)});
    EQUAL(e.completions, 3);
    Wqe nop(Opcode::nop);
    nop.flags = ce::event;
    t.post({nop});
    EQUAL(e.completions, 4);
    t.post({t.write(ce::always), t.write(ce::first), t.write(ce::errors)});
    EQUAL(e.completions, 4);
    EQUAL(t.told().size(), 6);
    // A failing one too, and one that is flushed.
    t.post({t.write(ce::event, false), t.write(ce::event)});
    EQUAL(e.completions, 6);
    EQUAL(t.told().size(), 2);
  }
}

void one_that_is_armed_hears_once() {
  Bench t;
  Events& e = t.rig.events;
  t.rig.cq_a.arm(t.rig.uar, false);
  t.post({t.write(ce::event)});
  EQUAL(e.completions, 1);
  t.post({t.write(ce::always)});  // it was armed for one
  EQUAL(e.completions, 1);
  EQUAL(t.told().size(), 2);
  // Armed for what is solicited: the event comes, the wish stays.
  t.rig.cq_a.arm(t.rig.uar, true);
  t.post({t.write(ce::event)});
  EQUAL(e.completions, 2);
  t.post({t.write(ce::errors, false)});
  EQUAL(e.completions, 3);
}

// An answer, or an acknowledgement, that came over the wire.
void the_wire_keeps_the_modes() {
  WireRig link;
  Pages mine(4096), theirs(4096);
  const MrKeys own = link.left.reg(mine, rw_access), far = link.right.reg(theirs, rw_access);
  auto post = [&](Opcode op, uint8_t mode, uint32_t rkey) {
    Wqe w(op);
    w.raddr(theirs.at(0), rkey).data(mine.at(0), 64, own.lkey.value());
    w.flags = mode;
    link.left.a.put(w);
  };
  for (Opcode op : {Opcode::rdma_write, Opcode::rdma_read})
    for (uint8_t mode : modes) post(op, mode, far.rkey.value());
  link.left.a.ring(link.left.uar);
  for (uint16_t at : std::initializer_list<uint16_t>{2, 3, 6, 7}) {
    const std::optional<Completion> c = link.wait(link.left.cq_a);
    CU_ASSERT_FATAL(c.has_value());
    EQUAL(c->index, at);
    EQUAL(c->syndrome, fine);
  }
  EQUAL(link.left.events.completions, 2);
  for (int i = 0; i < 3; i++) post(Opcode::rdma_write, ce::first, 0xdead00);
  post(Opcode::rdma_write, ce::always, far.rkey.value());
  link.left.a.ring(link.left.uar);
  for (auto [at, syndrome] : Bench::Told{{8, bad_key}, {11, flush}}) {
    const std::optional<Completion> c = link.wait(link.left.cq_a);
    CU_ASSERT_FATAL(c.has_value());
    EQUAL(c->index, at);
    EQUAL(c->syndrome, syndrome);
  }
}

const kilim::test::Case cases[] = {
    {"good requests complete in two modes", good_requests_complete_in_two_modes},
    {"a flushed series is told by its modes", a_flushed_series_is_told_by_its_modes},
    {"a queue that is stopped tells the first one", a_queue_that_is_stopped_tells_the_first_one},
    {"an unreliable queue tells again after SQE", an_unreliable_queue_tells_again_after_sqe},
    {"a small completion queue holds a long series", a_small_queue_holds_a_long_series},
    {"an entry brings an event unasked", an_entry_brings_an_event_unasked},
    {"a completion queue that is armed hears once", one_that_is_armed_hears_once},
    {"the wire keeps the modes", the_wire_keeps_the_modes},
};

}  // namespace
}  // namespace completion_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(completion, kilim::vhca::test::completion_ut::cases)
