// SPDX-License-Identifier: BSD-3-Clause
// Keys whose blocks are signed: the standards' own vectors, what is refused, which errors are told
// of, queues that stop at one.
#include <algorithm>
#include <utility>

#include "case_tables.hh"
#include "sign_fixture.hh"
#include "vhca/tpt/signature_value.hh"

namespace kilim::vhca::test {
namespace signature_ut {
namespace {

uint64_t sum(tpt::SignKind kind, uint64_t seed, const Bytes& data) {
  tpt::RunningSum s{kind, seed};
  // In two pieces, the first of an odd length.
  const std::size_t n = std::min<std::size_t>(data.size(), 3);
  s.add(std::as_bytes(std::span(data)).first(n));
  s.add(std::as_bytes(std::span(data)).subspan(n));
  return s.value();
}
constexpr uint64_t ones32 = 0xffffffff, ones64 = ~uint64_t{0};

Bytes digits() {
  return {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
}
Bytes counting(std::size_t n, bool down = false) {
  Bytes b(n);
  for (std::size_t i = 0; i < n; i++) b[i] = static_cast<uint8_t>(down ? n - 1 - i : i);
  return b;
}

void the_standards_vectors() {
  EQUAL(sum(tpt::SignKind::dif_crc, 0, digits()), 0xd0db);
  EQUAL(sum(tpt::SignKind::crc32, ones32, digits()), 0xcbf43926);
  // RFC 3720, appendix B.4; its digests are in the order of the bytes sent.
  EQUAL(sum(tpt::SignKind::crc32c, ones32, Bytes(32)), 0x8a9136aa);
  EQUAL(sum(tpt::SignKind::crc32c, ones32, Bytes(32, 0xff)), 0x62a8ab43);
  EQUAL(sum(tpt::SignKind::crc32c, ones32, counting(32)), 0x46dd794e);
  EQUAL(sum(tpt::SignKind::crc32c, ones32, counting(32, true)), 0x113fdb5c);
  EQUAL(sum(tpt::SignKind::crc32c, ones32, digits()), 0xe3069283);
  // XP10's polynomial is that of the NVM command set's 64-bit guard: its check value and vectors.
  EQUAL(sum(tpt::SignKind::crc64, ones64, digits()), 0xae8b14860a799888);
  EQUAL(sum(tpt::SignKind::crc64, ones64, Bytes(4096)), 0x6482d367eb22b64e);
  EQUAL(sum(tpt::SignKind::crc64, ones64, Bytes(4096, 0xff)), 0xc0ddba7302eca3ac);
  // RFC 1071, section 3: the sum is ddf2.
  EQUAL(sum(tpt::SignKind::dif_checksum, 0, {0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7}), 0x220d);
}

void no_atomic_reaches_it() {
  Rig rig;
  End e{rig, rig.a, rig.cq_a};
  EQUAL(shown(e), Syndrome::none);
  Wqe add(Opcode::atomic_fa);
  add.raddr(0, e.key).atomic(1, 0).data(e.buffer.at(0), 8, e.plain);
  EQUAL(e.post(add), Syndrome::remote_access);
}

void no_key_lies_over_it() {
  Rig rig;
  End e{rig, rig.a, rig.cq_a};
  EQUAL(shown(e), Syndrome::none);
  const uint32_t outer = rig.make_key(4);
  const prm::Klm k = klm(0, 512, e.key);
  UmrShape shape;
  shape.len = 512;
  EQUAL(e.post(umr_wqe(outer, shape, {&k, 1})), Syndrome::none);
  Wqe w(Opcode::rdma_write);
  EQUAL(e.post(w.raddr(e.buffer.at(0), e.plain).data(0, 512, outer)), Syndrome::local_prot);
}

void psvs_are_checked() {
  Rig rig;
  End e{rig, rig.a, rig.cq_a};
  EQUAL(shown(e), Syndrome::none);
  EQUAL(e.post(set_psv(e.psv.mem ^ 0x40000, crc_in_memory.mem)), Syndrome::local_qp_op);
  Rig other;
  End f{other, other.a, other.cq_a};
  const std::array<std::byte, 16> behind{};
  Wqe longer = set_psv(f.psv.mem, crc_in_memory.mem);
  EQUAL(f.post(longer.raw(behind.data(), behind.size())), Syndrome::local_qp_op);
}

void a_signed_key_is_refused_where_none_may_be() {
  no_atomic_reaches_it();
  no_key_lies_over_it();
  psvs_are_checked();
}

void without_its_psv_a_key_is_of_no_use() {
  Rig rig;
  End e{rig, rig.a, rig.cq_a};
  EQUAL(shown(e), Syndrome::none);
  rig.hca->keys.psvs().destroy(e.psv.mem);
  Wqe w(Opcode::rdma_write);
  EQUAL(e.post(w.raddr(e.buffer.at(0), e.plain).data(0, 512, e.key)), Syndrome::local_prot);
}

// One block in memory under a T10-DIF, and how it is checked.
const Domain dif{.sign = Sign::dif_crc, .block = 512, .ones = false, .app = 0x1234, .ref = 7};
struct DifCheck {
  uint8_t checks = 0;
  uint16_t app_mask = 0xffff;
};
// Whether a block whose signature differs in these bits from the right one is told of.
bool told_of(const DifCheck& c, uint64_t wrong) {
  Rig rig;
  End e{rig, rig.a, rig.cq_a};
  Bytes block(512, 0x33);
  put_signature(dif, signature_of(dif, 0, block.data()) ^ wrong, block);
  std::memcpy(e.arena.data(), block.data(), block.size());
  prm::Bsf b = bsf_of({.mem = dif}, e.psv);
  b.mem.checks = c.checks;
  b.mem.app_mask = be16{c.app_mask};
  const prm::Klm k = klm(e.arena.at(0), 520, e.pieces);
  UmrShape shape;
  shape.len = 520;
  EQUAL(e.post(with_bsf(umr_wqe(e.key, shape, {&k, 1}), b)), Syndrome::none);
  Wqe w(Opcode::rdma_write);
  EQUAL(e.post(w.raddr(e.buffer.at(0), e.plain).data(0, 512, e.key)), Syndrome::none);
  return !e.errors.empty();
}

void tags_of_all_ones_escape() {
  constexpr uint64_t guard = uint64_t{1} << 48;
  const uint64_t app = uint64_t{0xffffu ^ dif.app} << 32, ref = 0xffffffff ^ dif.ref;
  const DifCheck by_app{bsf::app_escape}, by_both{bsf::app_ref_escape};
  CU_ASSERT_TRUE(told_of({}, guard | app | ref));
  CU_ASSERT_TRUE(!told_of({}, 0));
  CU_ASSERT_TRUE(told_of(by_app, guard));
  CU_ASSERT_TRUE(told_of(by_app, guard | ref));
  CU_ASSERT_FALSE(told_of(by_app, guard | app) || told_of(by_app, guard | app | ref));
  CU_ASSERT_TRUE(told_of(by_both, guard | app));
  CU_ASSERT_TRUE(told_of(by_both, guard | ref));
  CU_ASSERT_FALSE(told_of(by_both, guard | app | ref));
}

void an_application_tag_is_compared_under_its_mask() {
  constexpr uint64_t low = uint64_t{1} << 32, high = uint64_t{0x80} << 40;
  const DifCheck masked{0, 0xff00};
  CU_ASSERT_TRUE(told_of({}, low));
  CU_ASSERT_TRUE(told_of({}, high));
  CU_ASSERT_TRUE(told_of(masked, high));
  CU_ASSERT_TRUE(told_of(masked, low | 1));
  CU_ASSERT_TRUE(!told_of(masked, low));
}

void the_first_block_begins_as_its_psv_says() {
  Rig rig;
  End e{rig, rig.a, rig.cq_a};
  const Domain later{.sign = Sign::crc32, .block = 512, .ones = false};
  Domain first = later;
  first.ones = true;
  const prm::Klm k = klm(e.arena.at(0), 1032, e.pieces);
  EQUAL(e.configure({.mem = later}, {&k, 1}, 1032), Syndrome::none);
  EQUAL(e.post(set_psv(e.psv.mem, first)), Syndrome::none);
  const Bytes data(512, 0x44);
  std::memset(e.buffer.data(), 0x44, 1024);
  Wqe w(Opcode::rdma_read);
  EQUAL(e.post(w.raddr(e.buffer.at(0), e.plain).data(0, 1024, e.key)), Syndrome::none);
  const auto* at = reinterpret_cast<const uint8_t*>(e.arena.data());
  EQUAL(get_signature(first, at + 512), signature_of(first, 0, data.data()));
  EQUAL(get_signature(later, at + 1028), signature_of(later, 1, data.data()));
}

void a_bsf_says_how_much_data_there_is() {
  for (uint32_t bytes : {700u, 701u}) {
    Rig rig;
    End e{rig, rig.a, rig.cq_a};
    EQUAL(shown(e), Syndrome::none);
    prm::Bsf b = bsf_of(crc_in_memory, e.psv);
    b.raw_data_size = be32{700};
    const prm::Klm k = klm(e.arena.at(0), 1032, e.pieces);
    UmrShape shape;
    shape.len = 1032;
    EQUAL(e.post(with_bsf(umr_wqe(e.key, shape, {&k, 1}), b)), Syndrome::none);
    Wqe w(Opcode::rdma_write);
    EQUAL(e.post(w.raddr(e.buffer.at(0), e.plain).data(0, bytes, e.key)),
          bytes == 700 ? Syndrome::none : Syndrome::local_prot);
  }
}

// What came first of it is not there any more, or never was.
void the_rest_of_a_signature_alone_is_not_checked() {
  Rig rig;
  End e{rig, rig.a, rig.cq_a};
  const Layout on_wire{.wire = {.sign = Sign::crc32, .block = 512}};
  const prm::Klm k = klm(e.arena.at(0), 1024, e.pieces);
  EQUAL(e.configure(on_wire, {&k, 1}, 1024), Syndrome::none);
  std::memset(e.buffer.data(), 0, 1032);
  auto read = [&](uint64_t at, uint32_t n) {
    Wqe w(Opcode::rdma_read);
    EQUAL(e.post(w.raddr(e.buffer.at(at), e.plain).data(at, n, e.key)), Syndrome::none);
  };
  read(514, 2);
  EQUAL(e.errors.size(), 0);
  read(0, 515);
  read(516 + 514, 2);
  EQUAL(e.errors.size(), 0);
  read(0, 515);
  read(515, 1);
  EQUAL(e.errors.size(), 1);
}

void a_psv_belongs_to_its_domain() {
  Rig rig;
  End e{rig, rig.a, rig.cq_a};
  EQUAL(shown(e), Syndrome::none);
  const Pdn own = std::exchange(rig.pd, *hca::alloc_pd(*rig.hca));
  const uint32_t foreign = e.make_psv();
  rig.pd = own;
  CU_ASSERT_TRUE_FATAL(foreign != 0);
  const prm::Klm k = klm(e.arena.at(0), 516, e.pieces);
  UmrShape shape;
  shape.len = 516;
  Wqe named = with_bsf(umr_wqe(e.key, shape, {&k, 1}), bsf_of(crc_in_memory, {foreign, 0}));
  EQUAL(e.post(named), Syndrome::mw_bind);
  Rig other;
  End f{other, other.a, other.cq_a};
  other.hca->keys.psvs().at(f.psv.mem)->pd = *hca::alloc_pd(*other.hca);
  EQUAL(f.post(set_psv(f.psv.mem, crc_in_memory.mem)), Syndrome::local_qp_op);
}

void a_profile_without_has_none() {
  RigShape s;
  s.profile.signature = false;
  Rig rig{s};
  End e{rig, rig.a, rig.cq_a};
  EQUAL(e.key, 0);
  EQUAL(e.psv.mem, 0);
}

const kilim::test::Case cases[] = {
    {"signed keys take no atomics and lie under no other key",
     a_signed_key_is_refused_where_none_may_be},
    {"a key is of no use without its PSV", without_its_psv_a_key_is_of_no_use},
    {"tags of all ones keep a block from being checked", tags_of_all_ones_escape},
    {"an application tag is compared under its mask",
     an_application_tag_is_compared_under_its_mask},
    {"the first block begins as its PSV says", the_first_block_begins_as_its_psv_says},
    {"a BSF says how much data there is", a_bsf_says_how_much_data_there_is},
    {"the rest of a signature alone is not checked", the_rest_of_a_signature_alone_is_not_checked},
    {"a PSV belongs to its domain", a_psv_belongs_to_its_domain},
    {"a profile without signatures makes neither keys nor PSVs", a_profile_without_has_none},
    {"checksums are those of the standards", the_standards_vectors},
};

}  // namespace
}  // namespace signature_ut
}  // namespace kilim::vhca::test

KILIM_TEST_MAIN(signature) {
  return kilim::test::run_tables(
      "vhca/tpt/signature",
      {kilim::vhca::test::signature_ut::cases, kilim::vhca::test::signature_stop_cases()}, argc,
      argv);
}
