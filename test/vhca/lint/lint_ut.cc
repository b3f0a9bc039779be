// SPDX-License-Identifier: BSD-3-Clause
// Lint mode of the adapter: one seeded mistake a rule, which has to be named; the same WQEs without
// the mistake, of which nothing may be said.
#include <unistd.h>

#include "case_tables.hh"
#include "kilim/prm/data_seg.hh"
#include "lint_fixture.hh"
#include "vhca/hca/hca.hh"

namespace lint_ut {
namespace {

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;
using prm::lint::Rule;

// Changes the UMR of Bench::umr() in one place.
template <typename T>
Wqe with(Wqe w, std::size_t at, T value) {
  std::memcpy(w.bytes.data() + at, &value, sizeof(value));
  return w;
}
constexpr std::size_t umr_at = 16, mkey_at = 64, list_at = 128;

// A mistake of one WQE: put() posts it on queue A of a fresh bench.
struct Seed {
  Rule rule;
  void (*post)(Bench&);
};

// clang-format off
const Seed seeds[] = {
    {Rule::reserved_bits,     [](Bench& b) { b.a.put(with(b.umr(), umr_at + 2, uint8_t{1})); }},
    {Rule::reserved_bits,     [](Bench& b) { Wqe w = b.plain(); w.flags |= 0x10; b.a.put(w); }},
    {Rule::ds_mismatch,       [](Bench& b) { Wqe w = b.plain(); w.inlined({}); w.bytes[48] = std::byte{0x80}; w.bytes[51] = std::byte{60}; b.a.put(w); }},
    {Rule::undefined_opcode,  [](Bench& b) { b.a.put(Wqe(static_cast<Opcode>(0x77))); }},
    {Rule::octowords,         [](Bench& b) { b.a.put(with(b.umr(), umr_at + 4, be16{8})); }},
    {Rule::klm_padding,       [](Bench& b) { Wqe w = with(b.umr(), umr_at + 4, be16{2}); w.bytes.resize(list_at + 32); b.a.put(w); }},
    {Rule::umr_flags,         [](Bench& b) { b.a.put(with(b.umr(), umr_at, uint8_t{0x81})); }},
    {Rule::mkey_mask,         [](Bench& b) { b.a.put(with(b.umr(), umr_at + 8, be64{UmrShape{}.mask | prm::umr::has_translation_offset})); }},
    {Rule::offset_granule,    [](Bench& b) { b.a.put(with(with(b.umr(), umr_at, uint8_t{0x90}), umr_at + 6, be16{2})); }},
    {Rule::klm_too_long,      [](Bench& b) { b.a.put(with(b.umr(), list_at, be32{0x80000001})); }},
    {Rule::key_too_long,      [](Bench& b) { b.a.put(with(b.umr(), mkey_at + 24, be64{257})); }},
    {Rule::self_reference,    [](Bench& b) { b.a.put(with(b.umr(), list_at + 4, be32{b.key})); }},
    {Rule::zero_length,       [](Bench& b) { b.a.put(b.plain().data(b.memory.at(0), 0, b.lkey())); }},
    {Rule::inline_answer,     [](Bench& b) { Wqe w(Opcode::rdma_read); std::byte room[12]{}; w.raddr(b.memory.at(0), b.rkey()).inlined(room); b.a.put(w); }},
    {Rule::unfenced_key,      [](Bench& b) { b.a.put(b.umr()); b.a.put(b.write()); }},
    {Rule::unfenced_umr,      [](Bench& b) { b.a.put(b.umr()); b.a.put(b.plain()); }},
    {Rule::key_in_flight,     [](Bench& b) { b.a.put(b.umr()); b.finish(b.a); b.a.put(b.write()); b.a.put(b.umr()); }},
    {Rule::unmapped_region,   [](Bench& b) { b.a.put(b.plain()); b.memory.unmap(); }},
    {Rule::changed_wqe,       [](Bench& b) { b.a.put(Wqe(Opcode::nop)); b.a.put(b.plain()); b.a.publish(); }},
};
// clang-format on

Wqe by_pointer(Bench& b, uint64_t address, uint32_t bytes) {
  UmrShape shape;
  shape.flags = 0;
  Wqe w = umr_wqe(b.key, shape, {});
  w = with(w, umr_at + 4, be16{4});
  return w.data(address, bytes, b.lkey());
}

// The doorbell has been seen, the second WQE not executed yet.
void change_after_doorbell(Bench& b) {
  b.a.ring(b.uar);
  b.hca->run(1);
  b.a.sq.data()[64 + 40] ^= std::byte{1};
}

void post_seed(Bench& b, const Seed& seed) {
  seed.post(b);
  if (seed.rule == Rule::changed_wqe) change_after_doorbell(b);
}

void each_mistake_is_named() {
  for (const Seed& seed : seeds) {
    Bench b(lint::LintMode::warn);
    post_seed(b, seed);
    b.go(b.a);
    const char* name = prm::lint::row_of(seed.rule).name;
    // Memory is missed twice: when it goes, and by the WQE.
    const uint64_t wanted = seed.rule == Rule::unmapped_region ? 2 : 1;
    if (b.count(seed.rule) != wanted) std::printf("%s: %lu\n", name, b.count(seed.rule));
    EQUAL(b.count(seed.rule), wanted);
    CU_ASSERT(b.journal.count(Journal::Kind::lint) >= 1);
  }
}

// Its queues, keys and regions were there before.
void a_linter_that_comes_late_names_each() {
  for (const Seed& seed : seeds) {
    Bench b(lint::LintMode::off);
    for (int i = 0; i < 256; i++) b.finish((b.a.put(b.plain()), b.a));
    CU_ASSERT_FATAL(b.hca->lint == nullptr);
    b.hca->set_lint(lint::LintMode::warn);
    b.hca->set_lint(lint::LintMode::warn);
    EQUAL(b.findings(), 0);
    post_seed(b, seed);
    b.go(b.a);
    const uint64_t wanted = seed.rule == Rule::unmapped_region ? 2 : 1;
    if (b.count(seed.rule) != wanted) std::printf("%s\n", prm::lint::row_of(seed.rule).name);
    EQUAL(b.count(seed.rule), wanted);
  }
}

// What was announced and not executed is judged when it comes; warnings become errors; then it
// goes, and nobody is watched.
void a_linter_comes_and_goes_amid_work() {
  Bench b(lint::LintMode::off);
  b.cq_b.poll();
  b.b.put(b.plain());
  b.a.put(b.plain().data(b.memory.at(0), 0, b.lkey()));
  b.a.ring(b.uar);
  b.hca->set_lint(lint::LintMode::warn);
  b.go(b.b);
  EQUAL(b.count(Rule::zero_length), 1);
  EQUAL(b.findings(), 1);
  b.hca->set_lint(lint::LintMode::off);
  CU_ASSERT(b.hca->lint == nullptr);
  Bench c(lint::LintMode::warn);
  c.finish((c.a.put(c.plain()), c.a));
  c.hca->set_lint(lint::LintMode::off);
  c.finish((c.a.put(with(c.plain(), 16 + offsetof(prm::RaddrSeg, reserved), uint8_t{1})), c.a));
  EQUAL(c.state(c.a), QpState::rts);
  c.hca->set_lint(lint::LintMode::warn);
  c.hca->set_lint(lint::LintMode::error);
  c.finish((c.a.put(with(c.plain(), 16 + offsetof(prm::RaddrSeg, reserved), uint8_t{1})), c.a));
  EQUAL(c.count(Rule::reserved_bits), 1);
  EQUAL(c.state(c.a), QpState::err);
}

// The completion has the rule's syndrome and the queue is in error.
void a_strict_adapter_fails_the_wqe() {
  for (const Seed& seed : seeds) {
    Bench b(lint::LintMode::error);
    post_seed(b, seed);
    b.go(b.a);
    Syndrome got = Syndrome::none;
    while (std::optional<Completion> c = b.cq_a.poll()) {
      if (got == Syndrome::none) got = c->syndrome;
    }
    // What the device itself refuses has its own syndrome.
    bool refused_anyway = seed.rule == Rule::ds_mismatch;
    if (!refused_anyway) EQUAL(got, prm::lint::row_of(seed.rule).syndrome);
    CU_ASSERT_NOT_EQUAL(got, Syndrome::none);
    EQUAL(b.state(b.a), QpState::err);
  }
}

void lists_by_pointer_are_looked_at() {
  Bench b(lint::LintMode::warn);
  b.a.put(by_pointer(b, b.memory.at(16), 64));
  b.go(b.a);
  EQUAL(b.count(Rule::pointer_alignment), 1);
  EQUAL(b.findings(), 1);
  Bench c(lint::LintMode::warn);
  c.a.put(by_pointer(c, c.memory.at(0), 4));  // entries counted, not bytes
  c.go(c.a);
  EQUAL(c.count(Rule::pointer_bytes), 1);
  EQUAL(c.findings(), 1);
}

void a_stride_that_was_cut_is_named() {
  Bench b(lint::LintMode::warn);
  UmrShape shape;
  shape.len = 140000;
  // 70,000 bytes do not fit into 16 bits.
  prm::Klm entries[2] = {repeat_head(70000, 2, 1),
                         repeat_entry(static_cast<uint16_t>(70000), static_cast<uint16_t>(70000),
                                      b.lkey(), b.memory.at(0))};
  b.a.put(umr_wqe(b.key, shape, entries));
  b.go(b.a);
  EQUAL(b.count(Rule::stride_sum), 1);
  EQUAL(b.findings(), 1);
}

void a_finding_is_a_sentence_with_the_wqe() {
  Bench b(lint::LintMode::warn);
  std::string text = told([&] {
    b.a.put(b.umr());
    b.a.put(b.write());
    b.go(b.a);
  });
  for (const char* part :
       {"kilim-vhca: vhca0: lint: unfenced-key: a key is used or changed behind its UMR",
        "is changed by WQE 0; this WQE needs fence mode 1, 3 or 4 and has 0", "; WQE 3 of queue ",
        " is: RDMA_WRITE index 3 ", "; 0x40 bytes key "}) {
    if (text.find(part) == std::string::npos) std::printf("no '%s' in: %s\n", part, text.c_str());
    CU_ASSERT_NOT_EQUAL(text.find(part), std::string::npos);
  }
}

void warnings_come_less_and_less_often() {
  Bench b(lint::LintMode::warn);
  std::string text = told([&] {
    for (int i = 0; i < 100; i++) {
      b.a.put(with(b.plain(), 16 + offsetof(prm::RaddrSeg, reserved), uint8_t{1}));
      b.finish(b.a);
    }
  });
  EQUAL(b.count(Rule::reserved_bits), 100);
  std::size_t lines = 0;
  for (char c : text) lines += c == '\n' ? 1 : 0;
  EQUAL(lines, 8 + 3);  // 16, 32, 64
  CU_ASSERT_NOT_EQUAL(text.find("; 64 times so far"), std::string::npos);
}

void off_is_off() {
  Bench b(lint::LintMode::off);
  EQUAL(b.hca->lint, nullptr);
  b.a.put(b.umr());
  b.a.put(b.write());
  b.go(b.a);
  EQUAL(b.journal.count(Journal::Kind::lint), 0);
}

void a_reset_queue_starts_anew() {
  Bench b(lint::LintMode::error);
  // The second time the mistake is in the first WQE behind the reset.
  for (uint64_t found = 1; found <= 2; found++) {
    b.a.put(with(b.umr(), umr_at + 2, uint8_t{1}));
    b.go(b.a);
    EQUAL(b.findings(), found);
    EQUAL(b.state(b.a), QpState::err);
    b.to_state(b.a, QpState::reset);
    while (b.cq_a.poll()) {
    }
    b.a.pi = 0;
    b.a.publish();
    b.to_rts(b.a, b.b.qpn);
  }
  EQUAL(b.run_one(b.a, b.umr()).syndrome, Syndrome::none);
  EQUAL(b.run_one(b.a, b.write()).syndrome, Syndrome::none);
  EQUAL(b.findings(), 2);
}

const Case cases[] = {
    {"each seeded mistake is named", each_mistake_is_named},
    {"a linter that comes late names each", a_linter_that_comes_late_names_each},
    {"a linter comes and goes amid work", a_linter_comes_and_goes_amid_work},
    {"a strict adapter fails the WQE with the rule's syndrome", a_strict_adapter_fails_the_wqe},
    {"lists by pointer are looked at", lists_by_pointer_are_looked_at},
    {"a stride that was cut to 16 bits is named", a_stride_that_was_cut_is_named},
    {"a finding is a sentence with the decoded WQE", a_finding_is_a_sentence_with_the_wqe},
    {"warnings come less and less often", warnings_come_less_and_less_often},
    {"off is off", off_is_off},
    {"a queue that was reset starts anew", a_reset_queue_starts_anew},
};

}  // namespace
}  // namespace lint_ut

KILIM_TEST_MAIN(lint) {
  return kilim::test::run_tables("lint", {lint_ut::cases, kilim::vhca::test::lint_queue_cases()},
                                 argc, argv);
}
