// SPDX-License-Identifier: BSD-3-Clause
// UMR WQEs form by form: list, start address, interleaved, nested, by pointer, partial, tag change,
// free checks, invalidation; and what is refused.
#include <vector>

#include "case_tables.hh"
#include "umr_fixture.hh"

namespace kilim::vhca::test {
namespace umr_ut {
namespace {

namespace umr = prm::umr;

void a_list_is_gathered_in_order() {
  UmrBench t;
  uint32_t key = t.rig.make_key(8);
  std::array<prm::Klm, 3> list = {t.piece(100, 10), t.piece(5, 1), t.piece(4000, 89)};
  EQUAL(t.configure(key, 100, list), Syndrome::none);
  EQUAL(t.gather(key, 0, 100), Syndrome::none);
  CU_ASSERT(t.got(0, 100, 10));
  CU_ASSERT(t.got(10, 5, 1));
  CU_ASSERT(t.got(11, 4000, 89));
  EQUAL(t.gather(key, 9, 3), Syndrome::none);
  CU_ASSERT(t.got(0, 109, 1));
  CU_ASSERT(t.got(1, 5, 1));
  CU_ASSERT(t.got(2, 4000, 1));
  EQUAL(t.rig.journal.count(Journal::Kind::umr), 1);
  CU_ASSERT(t.rig.journal.pieces() >= 8);
}

void the_key_ends_where_its_length_says() {
  UmrBench t;
  uint32_t key = t.rig.make_key(4);
  std::array<prm::Klm, 1> list = {t.piece(0, 64)};
  EQUAL(t.configure(key, 32, list), Syndrome::none);
  EQUAL(t.gather(key, 0, 32), Syndrome::none);
  EQUAL(t.gather(key, 1, 32), Syndrome::local_prot);
}

void a_list_shorter_than_the_key_has_a_hole() {
  UmrBench t;
  uint32_t key = t.rig.make_key(4);
  std::array<prm::Klm, 1> list = {t.piece(0, 64)};
  EQUAL(t.configure(key, 128, list), Syndrome::none);
  EQUAL(t.gather(key, 0, 65), Syndrome::local_prot);
  EQUAL(t.dst.data()[0], std::byte{0});
}

void a_start_address_moves_the_key() {
  UmrBench t;
  uint32_t key = t.rig.make_key(4);
  std::array<prm::Klm, 2> list = {t.piece(10, 50), t.piece(500, 50)};
  UmrShape shape;
  shape.mask |= umr::mask_start_addr;
  shape.start = 0xfffffffffffff000;
  shape.len = 100;
  EQUAL(t.post(umr_wqe(key, shape, list)), Syndrome::none);
  EQUAL(t.gather(key, shape.start + 40, 20), Syndrome::none);
  CU_ASSERT(t.got(0, 50, 10));
  CU_ASSERT(t.got(10, 500, 10));
  EQUAL(t.gather(key, 0, 20), Syndrome::local_prot);
}

void interleaved_pieces_repeat() {
  UmrBench t;
  uint32_t key = t.rig.make_key(4);
  std::array<prm::Klm, 3> list = {repeat_head(12, 5, 2), repeat_entry(100, 8, t.lkey, t.src.at(0)),
                                  repeat_entry(50, 4, t.lkey, t.src.at(3000))};
  EQUAL(t.configure(key, 60, list), Syndrome::none);
  EQUAL(t.gather(key, 0, 60), Syndrome::none);
  for (std::size_t i = 0; i < 5; i++) {
    CU_ASSERT(t.got(i * 12, i * 100, 8));
    CU_ASSERT(t.got(i * 12 + 8, 3000 + i * 50, 4));
  }
  EQUAL(t.gather(key, 59, 2), Syndrome::local_prot);
}

void repetitions_shorter_than_the_key_have_a_hole() {
  UmrBench t;
  uint32_t key = t.rig.make_key(4);
  std::array<prm::Klm, 2> list = {repeat_head(12, 5, 1),
                                  repeat_entry(100, 12, t.lkey, t.src.at(0))};
  EQUAL(t.configure(key, 72, list), Syndrome::none);
  EQUAL(t.gather(key, 48, 12), Syndrome::none);
  CU_ASSERT(t.got(0, 400, 12));
  EQUAL(t.gather(key, 60, 1), Syndrome::local_prot);
}

// A key for UMRs, of eight entries; 0: refused.
uint32_t other_key(UmrBench& t, uint32_t mode, uint32_t pd) {
  prm::Mkc c{};
  c.flags = be32{prm::mkc::umr_en::at(1u) | prm::mkc::local_read::at(1u) |
                 prm::mkc::access_mode_1_0::at(mode)};
  c.qpn_mkey = be32{0xffffff00u};
  c.flags_pd = be32{pd};
  c.translations_octword_size = be32{8};
  c.log_page_size = be32{prm::mkc::log_entity_size::at(mode == prm::mkc::access_mode_ksm ? 12 : 0)};
  Result<tpt::Mkey*> m = t.rig.hca->keys.create_mkey(c, {}, t.rig.hca->config.profile);
  return m ? (*m)->key : 0;
}

void a_key_of_another_domain_takes_no_umr() {
  UmrBench t;
  const uint32_t key = other_key(t, prm::mkc::access_mode_klm, t.rig.pd.value() + 1);
  CU_ASSERT_FATAL(key != 0);
  std::array<prm::Klm, 1> list = {t.piece(0, 64)};
  EQUAL(t.configure(key, 64, list), Syndrome::mw_bind);
  const tpt::Mkey& m = *t.rig.hca->keys.at(key >> 8);
  EQUAL(m.used, 0);
  EQUAL(m.len, 0);
}

void fixed_entries_end_with_their_list() {
  constexpr uint32_t entity = 4096;
  UmrBench t;
  const uint32_t key = other_key(t, prm::mkc::access_mode_ksm, t.rig.pd.value());
  CU_ASSERT_FATAL(key != 0);
  std::vector<prm::Klm> list;
  for (std::size_t i = 0; i < 4; i++) list.push_back(klm(t.src.at((i ^ 1) * entity), 0, t.lkey));
  EQUAL(t.configure(key, 8 * entity, list), Syndrome::none);
  EQUAL(t.gather(key, 2 * entity - 8, 16), Syndrome::none);
  CU_ASSERT(t.got(0, entity - 8, 8));
  CU_ASSERT(t.got(8, 3 * entity, 8));
  EQUAL(t.gather(key, 4 * entity - 8, 8), Syndrome::none);
  EQUAL(t.gather(key, 4 * entity, 8), Syndrome::local_prot);
}

void keys_nest_as_deep_as_the_profile_says() {
  UmrBench t;
  std::array<uint32_t, 6> keys{};
  for (uint32_t level = 0; level < 6; level++) {
    keys[level] = t.rig.make_key(4);
    std::array<prm::Klm, 1> list = {level == 0 ? t.piece(7, 600)
                                               : klm(1, 600 - level, keys[level - 1])};
    EQUAL(t.configure(keys[level], 600 - level, list), Syndrome::none);
  }
  EQUAL(t.gather(keys[3], 0, 100), Syndrome::none);
  CU_ASSERT(t.got(0, 10, 100));
  EQUAL(t.gather(keys[4], 0, 100), Syndrome::local_prot);
}

void a_key_of_itself_is_refused_when_used() {
  UmrBench t;
  uint32_t key = t.rig.make_key(4);
  std::array<prm::Klm, 1> list = {klm(0, 64, key)};
  EQUAL(t.configure(key, 64, list), Syndrome::none);
  EQUAL(t.gather(key, 0, 64), Syndrome::local_prot);
}

void inner_keys_are_checked_too() {
  UmrBench t;
  uint32_t read_only = t.rig.reg(t.src, 0).lkey.value();
  uint32_t key = t.rig.make_key(4);
  std::array<prm::Klm, 2> list = {t.piece(0, 64), klm(t.src.at(64), 64, read_only)};
  EQUAL(t.configure(key, 128, list), Syndrome::none);
  EQUAL(t.gather(key, 0, 128), Syndrome::none);
  CU_ASSERT(t.got(0, 0, 128));
  std::vector<std::byte> before(t.src.data(), t.src.data() + 128);
  Wqe w(Opcode::rdma_write);
  w.raddr(0, key).data(t.dst.at(9000), 128, t.kd.lkey.value());
  EQUAL(t.post(w), Syndrome::remote_access);
  EQUAL(std::memcmp(before.data(), t.src.data(), 128), 0);
}

const kilim::test::Case cases[] = {
    {"a list is gathered in order", a_list_is_gathered_in_order},
    {"the key ends where its length says", the_key_ends_where_its_length_says},
    {"a list shorter than the key has a hole", a_list_shorter_than_the_key_has_a_hole},
    {"a start address moves the key", a_start_address_moves_the_key},
    {"interleaved pieces repeat", interleaved_pieces_repeat},
    {"repetitions shorter than the key have a hole", repetitions_shorter_than_the_key_have_a_hole},
    {"a key of another domain takes no UMR", a_key_of_another_domain_takes_no_umr},
    {"fixed entries end with their list", fixed_entries_end_with_their_list},
    {"keys nest as deep as the profile says", keys_nest_as_deep_as_the_profile_says},
    {"a key of itself is refused when used", a_key_of_itself_is_refused_when_used},
    {"inner keys are checked too", inner_keys_are_checked_too},
};

}  // namespace
}  // namespace umr_ut
}  // namespace kilim::vhca::test

KILIM_TEST_MAIN(umr) {
  return kilim::test::run_tables(
      "umr", {kilim::vhca::test::umr_ut::cases, kilim::vhca::test::umr_state_cases()}, argc, argv);
}
