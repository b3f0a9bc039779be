// SPDX-License-Identifier: BSD-3-Clause
// Where a UMR WQE takes its list from and where in the key it puts it: by pointer, in granules,
// beyond 16 bits.
#include <array>
#include <vector>

#include "umr_fixture.hh"
#include "ut.hh"

namespace kilim::vhca::test {
namespace umr_place_ut {
namespace {

namespace umr = prm::umr;

void a_list_by_pointer_may_be_long() {
  UmrBench t;
  Pages lists(65536);
  uint32_t list_key = t.rig.reg(lists, access::local_write).lkey.value();
  uint32_t key = t.rig.make_key(1000);
  for (uint32_t i = 0; i < 1000; i++) {
    prm::Klm k = t.piece(i * 61 % 5000, i % 60 + 1);
    std::memcpy(lists.data() + 2048 + i * 16, &k, sizeof(k));
  }
  uint32_t len = 0;
  for (uint32_t i = 0; i < 1000; i++) len += i % 60 + 1;
  EQUAL(t.post(by_pointer(key, len, lists.at(2048), 1000, list_key)), Syndrome::none);
  EQUAL(t.gather(key, 0, len), Syndrome::none);
  std::size_t at = 0;
  bool all = true;
  for (uint32_t i = 0; i < 1000; at += i % 60 + 1, i++)
    all = all && t.got(at, i * 61 % 5000, i % 60 + 1);
  CU_ASSERT(all);
}

void a_list_by_pointer_lies_on_2048_bytes_in_a_valid_key() {
  struct {
    uint64_t offset;
    bool good_key;
    Syndrome want;
  } rows[] = {{64, true, Syndrome::mw_bind},
              {2048, false, Syndrome::local_prot},
              {8192, true, Syndrome::local_prot}};
  for (const auto& row : rows) {
    UmrBench t;
    Pages lists(8192);
    uint32_t list_key = t.rig.reg(lists, access::local_write).lkey.value();
    uint32_t key = t.rig.make_key(8);
    uint32_t named = row.good_key ? list_key : list_key ^ 1;
    EQUAL(t.post(by_pointer(key, 8, lists.at(row.offset), 4, named)), row.want);
    CU_ASSERT(t.rig.hca->keys.at(key >> 8)->free);
  }
}

void granules_of_a_list_change_alone() {
  UmrBench t;
  uint32_t key = t.rig.make_key(8);
  std::vector<prm::Klm> list;
  for (uint32_t i = 0; i < 8; i++) list.push_back(t.piece(i * 100, 10));
  EQUAL(t.configure(key, 80, list), Syndrome::none);
  std::array<prm::Klm, 4> patch = {t.piece(2000, 10), t.piece(3000, 10), t.piece(4000, 10),
                                   t.piece(5000, 10)};
  UmrShape shape;
  shape.flags = umr::inline_list | umr::has_translation_offset;
  shape.mask = 0;
  shape.offset = 4;
  EQUAL(t.post(umr_wqe(key, shape, patch)), Syndrome::none);
  EQUAL(t.gather(key, 0, 80), Syndrome::none);
  CU_ASSERT(t.got(0, 0, 10));
  CU_ASSERT(t.got(30, 300, 10));
  CU_ASSERT(t.got(40, 2000, 10));
  CU_ASSERT(t.got(70, 5000, 10));
}

// An offset above 16 bits has its high part in a word of its own, where the adapter knows it.
void granules_lie_beyond_16_bits() {
  for (bool extended : {true, false}) {
    RigShape s;
    s.profile.log_max_klm_list_size = 17;
    s.profile.umr_extended_translation_offset = extended;
    UmrBench t(s);
    uint32_t key = t.rig.make_key(70000);
    std::array<prm::Klm, 4> list = {t.piece(2000, 10), t.piece(3000, 10), t.piece(4000, 10),
                                    t.piece(5000, 10)};
    UmrShape shape;
    shape.flags = umr::inline_list | umr::has_translation_offset;
    shape.offset = 8;
    Wqe w = umr_wqe(key, shape, list);
    be32 high{1};
    std::memcpy(w.bytes.data() + 16 + 16, &high, sizeof(high));
    EQUAL(t.post(w), extended ? Syndrome::none : Syndrome::mw_bind);
    const tpt::Mkey& m = *t.rig.hca->keys.at(key >> 8);
    EQUAL(m.used, extended ? 65536u + 12u : 0u);
    EQUAL(m.list[65536 + 8].address.host() == t.src.at(2000), extended);
    EQUAL(m.list[8].address.host(), 0);
  }
}

// DPDK's drivers and the kernel write different things there.
void the_byte_count_of_a_pointer_is_ignored() {
  UmrBench t;
  Pages lists(4096);
  uint32_t list_key = t.rig.reg(lists, access::local_write).lkey.value();
  uint32_t key = t.rig.make_key(8);
  prm::Klm k = t.piece(77, 8);
  std::memcpy(lists.data(), &k, sizeof(k));
  Wqe w = by_pointer(key, 8, lists.at(0), 4, list_key);
  be32 bytes{0};
  std::memcpy(w.bytes.data() + 128, &bytes, sizeof(bytes));
  EQUAL(t.post(w), Syndrome::none);
  EQUAL(t.gather(key, 0, 8), Syndrome::none);
  CU_ASSERT(t.got(0, 77, 8));
}

const kilim::test::Case cases[] = {
    {"a list by pointer may be long", a_list_by_pointer_may_be_long},
    {"a list by pointer lies on 2048 bytes in a valid key",
     a_list_by_pointer_lies_on_2048_bytes_in_a_valid_key},
    {"granules of a list change alone", granules_of_a_list_change_alone},
    {"granules lie beyond 16 bits", granules_lie_beyond_16_bits},
    {"the byte count of a pointer is ignored", the_byte_count_of_a_pointer_is_ignored},
};

}  // namespace
}  // namespace umr_place_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(umr_place, kilim::vhca::test::umr_place_ut::cases)
