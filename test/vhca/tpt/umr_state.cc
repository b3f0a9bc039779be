// SPDX-License-Identifier: BSD-3-Clause
// Part of umr_ut. What a UMR may change of a key and when: tags, masks, free checks, invalidation;
// and what is refused.
#include <vector>

#include "kilim/prm/data_seg.hh"
#include "umr_fixture.hh"

namespace kilim::vhca::test {
namespace umr_state_ut {
namespace {

namespace umr = prm::umr;

void a_new_tag_makes_the_old_key_stale() {
  UmrBench t;
  uint32_t key = t.rig.make_key(4);
  std::array<prm::Klm, 1> list = {t.piece(0, 64)};
  UmrShape shape;
  shape.len = 64;
  shape.tag = 0x5c;
  EQUAL(t.post(umr_wqe(key, shape, list)), Syndrome::none);
  uint32_t renamed = (key & ~0xffu) | 0x5c;
  EQUAL(t.gather(renamed, 0, 64), Syndrome::none);
  EQUAL(t.gather(key, 0, 64), Syndrome::local_prot);
}

// As the kernel registers: the control segment has the key as it will be.
void the_new_tag_may_name_the_key() {
  UmrBench t;
  uint32_t key = t.rig.make_key(4);
  std::array<prm::Klm, 1> list = {t.piece(0, 64)};
  UmrShape shape;
  shape.len = 64;
  EQUAL(t.post(umr_wqe(key + 3, shape, list)), Syndrome::none);
  EQUAL(t.gather(key + 3, 0, 64), Syndrome::none);
  shape.mask &= ~umr::mask_mkey;
  EQUAL(t.post(umr_wqe(key, shape, list)), Syndrome::mw_bind);
}

void only_fields_of_the_mask_change() {
  UmrBench t;
  uint32_t key = t.rig.make_key(4);
  std::array<prm::Klm, 1> list = {t.piece(0, 64)};
  EQUAL(t.configure(key, 64, list), Syndrome::none);
  UmrShape shape;
  shape.mask = umr::mask_remote_write;
  shape.access = 0;
  shape.len = 1;
  shape.free = prm::mkey::free;
  shape.start = 77;
  shape.tag = 9;
  EQUAL(t.post(umr_wqe(key, shape, {})), Syndrome::none);
  const tpt::Mkey& m = *t.rig.hca->keys.at(key >> 8);
  EQUAL(m.key, key);
  EQUAL(m.len, 64);
  EQUAL(m.start, 0);
  CU_ASSERT(!m.free);
  EQUAL(m.rights, prm::mkey::local_read | prm::mkey::local_write | prm::mkey::remote_read);
}

void the_state_of_a_key_is_checked_on_demand() {
  struct {
    bool is_free;
    uint8_t flag;
    Syndrome want;
  } rows[] = {{true, umr::check_free, Syndrome::mw_bind},
              {false, umr::check_free, Syndrome::none},
              {true, umr::check_not_free, Syndrome::none},
              {false, umr::check_not_free, Syndrome::mw_bind}};
  for (const auto& row : rows) {
    UmrBench t;
    uint32_t key = t.rig.make_key(4);
    std::array<prm::Klm, 1> list = {t.piece(0, 64)};
    if (!row.is_free) EQUAL(t.configure(key, 64, list), Syndrome::none);
    UmrShape shape;
    shape.flags |= row.flag;
    shape.len = 64;
    EQUAL(t.post(umr_wqe(key, shape, list)), row.want);
  }
}

// LOCAL_INV as rdma-core writes it: a UMR that frees the key.
void an_invalidated_key_admits_nobody() {
  UmrBench t;
  uint32_t key = t.rig.make_key(4);
  std::array<prm::Klm, 1> list = {t.piece(0, 64)};
  EQUAL(t.configure(key, 64, list), Syndrome::none);
  UmrShape inval;
  inval.flags = umr::inline_list | umr::has_translation_offset | umr::check_qpn;
  inval.mask = umr::mask_free | umr::mask_mkey | umr::mask_qpn;
  inval.free = prm::mkey::free;
  EQUAL(t.post(umr_wqe(key, inval, {})), Syndrome::none);
  EQUAL(t.rig.journal.count(Journal::Kind::invalidate), 1);
  EQUAL(t.gather(key, 0, 64), Syndrome::local_prot);
}

struct Refused {
  const char* name;
  void (*change)(UmrBench&, UmrShape&, std::vector<prm::Klm>&);
  Syndrome want;
};

// clang-format off
const Refused refused[] = {
    {"too many entries", [](UmrBench& t, UmrShape&, std::vector<prm::Klm>& l) { l.resize(12, t.piece(0, 1)); }, Syndrome::mw_bind},
    {"offset behind the list", [](UmrBench&, UmrShape& s, std::vector<prm::Klm>&) { s.flags |= umr::has_translation_offset; s.offset = 8; }, Syndrome::mw_bind},
    {"offset within a granule", [](UmrBench&, UmrShape& s, std::vector<prm::Klm>&) { s.flags |= umr::has_translation_offset; s.offset = 2; }, Syndrome::local_qp_op},
    {"signature descriptors that are not there", [](UmrBench&, UmrShape& s, std::vector<prm::Klm>&) { s.offset = 4; }, Syndrome::local_qp_op},
    {"unknown mask bit", [](UmrBench&, UmrShape& s, std::vector<prm::Klm>&) { s.mask |= umr::mask_sig_err; }, Syndrome::mw_bind},
    {"unknown flag", [](UmrBench&, UmrShape& s, std::vector<prm::Klm>&) { s.flags |= 1; }, Syndrome::mw_bind},
    {"entity size of a KLM key", [](UmrBench&, UmrShape& s, std::vector<prm::Klm>&) { s.mask |= umr::mask_page_size; }, Syndrome::mw_bind},
    {"a piece above 2 GiB", [](UmrBench& t, UmrShape&, std::vector<prm::Klm>& l) { l[0] = t.piece(0, 0x80000001); }, Syndrome::mw_bind},
    {"repeat block without entries", [](UmrBench&, UmrShape&, std::vector<prm::Klm>& l) { l[0] = repeat_head(8, 1, 0); }, Syndrome::mw_bind},
    {"repeat block beyond its list", [](UmrBench&, UmrShape&, std::vector<prm::Klm>& l) { l[0] = repeat_head(8, 1, 4); }, Syndrome::mw_bind},
};

// clang-format on

void a_refused_umr_changes_nothing() {
  for (const Refused& row : refused) {
    UmrBench t;
    uint32_t key = t.rig.make_key(8);
    UmrShape shape;
    std::vector<prm::Klm> list = {t.piece(0, 64)};
    shape.len = 64;
    row.change(t, shape, list);
    Syndrome got = t.post(umr_wqe(key, shape, list));
    if (got != row.want) std::printf("\n    %s: syndrome %d\n", row.name, static_cast<int>(got));
    EQUAL(got, row.want);
    const tpt::Mkey& m = *t.rig.hca->keys.at(key >> 8);
    CU_ASSERT(m.free);
    EQUAL(m.len, 0);
    EQUAL(m.used, 0);
    EQUAL(m.rights, prm::mkey::local_read);
  }
}

void a_umr_is_as_long_as_its_segments() {
  const UmrShape shape{.len = 64};
  const std::array<std::byte, 16> more{};
  for (int what = 0; what < 4; what++) {
    UmrBench b;
    const std::array<prm::Klm, 1> list = {b.piece(0, 64)};
    const uint32_t key = b.rig.make_key(8);
    Wqe w = umr_wqe(key, shape, list);
    if (what == 0) w.raw(more.data(), more.size());
    if (what == 1) w.bytes[16 + offsetof(prm::UmrCtrlSeg, rsvd0)] = std::byte{1};
    if (what == 2) w.bytes[16 + offsetof(prm::UmrCtrlSeg, rsvd1) + 27] = std::byte{1};
    if (what == 3) w.bytes[0] = std::byte{1};  // opcode modifier
    EQUAL(b.post(w), Syndrome::local_qp_op);
    const tpt::Mkey& m = *b.rig.hca->keys.at(key >> 8);
    CU_ASSERT(m.free);
    EQUAL(m.len, 0);
    EQUAL(m.used, 0);
  }
}

void a_profile_can_lack_features() {
  for (int what = 0; what < 5; what++) {
    RigShape s;
    s.profile.repeated_block_disabled = what == 0;
    s.profile.umr_modify_atomic_disabled = what == 1;
    s.profile.umr_ptr_rlkey = what != 2;
    s.profile.umr = what != 3;
    s.profile.max_indirection = what == 4 ? 0 : 4;
    UmrBench t(s);
    uint32_t key = t.rig.make_key(8, what != 3);
    std::array<prm::Klm, 2> strided = {repeat_head(4, 1, 1),
                                       repeat_entry(4, 4, t.lkey, t.src.at(0))};
    std::array<prm::Klm, 1> list = {t.piece(0, 64)};
    UmrShape shape;
    shape.len = 4;
    shape.mask &= ~umr::mask_atomic;
    if (what == 0) EQUAL(t.post(umr_wqe(key, shape, strided)), Syndrome::mw_bind);
    if (what == 1) EQUAL(t.configure(key, 64, list), Syndrome::mw_bind);
    if (what == 2) EQUAL(t.post(by_pointer(key, 8, t.src.at(0), 4, t.lkey)), Syndrome::mw_bind);
    if (what == 3) EQUAL(t.post(umr_wqe(key, shape, list)), Syndrome::local_qp_op);
    if (what == 4) {
      EQUAL(t.post(umr_wqe(key, shape, list)), Syndrome::none);
      EQUAL(t.gather(key, 0, 4), Syndrome::local_prot);
    }
  }
}

void raw_packet_queues_have_no_umr() {
  RigShape s;
  s.a.type = QpType::raw_packet;
  s.connect = false;
  UmrBench t(s);
  uint32_t key = t.rig.make_key(4);
  EQUAL(t.rig.to_init(t.rig.a), 0);
  EQUAL(t.rig.to_rtr(t.rig.a, Qpn{0}), 0);
  EQUAL(t.rig.to_rts_only(t.rig.a), 0);
  std::array<prm::Klm, 1> list = {t.piece(0, 64)};
  EQUAL(t.configure(key, 64, list), Syndrome::local_qp_op);
}

constexpr kilim::test::Case of_states[] = {
    {"a UMR is as long as its segments", a_umr_is_as_long_as_its_segments},
    {"a new tag makes the old key stale", a_new_tag_makes_the_old_key_stale},
    {"the new tag may name the key", the_new_tag_may_name_the_key},
    {"only fields of the mask change", only_fields_of_the_mask_change},
    {"the state of a key is checked on demand", the_state_of_a_key_is_checked_on_demand},
    {"an invalidated key admits nobody", an_invalidated_key_admits_nobody},
    {"a refused UMR changes nothing", a_refused_umr_changes_nothing},
    {"a profile can lack features", a_profile_can_lack_features},
    {"raw packet queues have no UMR", raw_packet_queues_have_no_umr},
};

}  // namespace
}  // namespace umr_state_ut
}  // namespace kilim::vhca::test

std::span<const kilim::test::Case> kilim::vhca::test::umr_state_cases() {
  return umr_state_ut::of_states;
}
