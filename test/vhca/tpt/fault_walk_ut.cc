// SPDX-License-Identifier: BSD-3-Clause
// What the kernel's fault handler finds behind an indirect key, and what happens where it finds
// nothing (Linux odp.c: pagefault_single_data_segment).
#include <vector>

#include "kilim/prm/mkc.hh"
#include "paging_fixture.hh"

namespace kilim::vhca::test {
namespace fault_walk_ut {
namespace {

constexpr uint8_t near_rights = prm::mkey::local_read;
constexpr uint8_t far_rights = prm::mkey::remote_write;

// Regions on demand and a pinned one, lists over them, and requests of both ends.
struct Walked : Bench {
  Walked() { key = reg(m).lkey.value(); }
  uint32_t list(uint32_t mode, uint64_t len, const std::vector<prm::Klm>& entries) {
    prm::Mkc c{};
    c.flags = be32{prm::mkc::local_read::at(1u) | prm::mkc::remote_write::at(1u) |
                   prm::mkc::access_mode_1_0::at(mode)};
    c.qpn_mkey = be32{0xffffff00u};
    c.flags_pd = be32{rig.pd.value()};
    c.len = be64{len};
    c.translations_octword_size = be32{round_up(static_cast<uint32_t>(entries.size()), 4)};
    if (mode == prm::mkc::access_mode_ksm) c.log_page_size = be32{12};
    Result<tpt::Mkey*> made =
        rig.hca->keys.create_mkey(c, std::as_bytes(std::span(entries)), rig.hca->config.profile);
    return made ? (*made)->key : 0;
  }
  uint32_t klms(uint64_t len, const std::vector<prm::Klm>& entries) {
    return list(prm::mkc::access_mode_klm, len, entries);
  }
  Verdict brings(uint32_t of, uint64_t at, uint64_t bytes, uint8_t rights) {
    const tpt::Segment s{at, bytes, of, false};
    const tpt::Access need{rig.pd, prm::mkey::any_qpn, rights, true};
    return tpt::page_in(rig.hca->context.translator, {{&s, 1}, need}, bytes);
  }
  uint64_t faults() { return stat(num_page_faults); }
  Mapping m{16 * page};
  uint32_t key = 0;
};

void entries_of_fixed_size_need_their_length() {
  Walked t;
  const std::vector<prm::Klm> bare = {klm(t.m.at(0), 0, t.key), klm(t.m.at(2 * page), 0, t.key)};
  const std::vector<prm::Klm> full = {klm(t.m.at(0), page, t.key),
                                      klm(t.m.at(2 * page), page, t.key)};
  const uint32_t without = t.list(prm::mkc::access_mode_ksm, 2 * page, bare);
  const uint32_t with = t.list(prm::mkc::access_mode_ksm, 2 * page, full);
  CU_ASSERT_FATAL(without != 0);
  CU_ASSERT_FATAL(with != 0);
  EQUAL(t.brings(without, 0, 2 * page, near_rights), tpt::protection::handler);
  EQUAL(t.faults(), 0);
  EQUAL(t.stat(num_failed_resolutions), 1);
  EQUAL(t.brings(with, 0, 2 * page, near_rights), tpt::protection::page);
  EQUAL(t.faults(), 2);
  EQUAL(t.brings(with, 0, 2 * page, near_rights), Verdict::done());
  // What is there needs no handler.
  EQUAL(t.brings(without, 0, 2 * page, near_rights), Verdict::done());
}

void a_request_over_entries_without_length_fails() {
  Walked t;
  const uint32_t k = t.list(prm::mkc::access_mode_ksm, page, {klm(t.m.at(0), 0, t.key)});
  Wqe w(Opcode::rdma_write);
  w.raddr(t.own.at(0), t.ko.rkey.value()).data(0, 64, k);
  EQUAL(t.rig.run_one(t.rig.a, w).syndrome, Syndrome::local_prot);
}

void a_peer_meets_the_same_page_again() {
  Walked t;
  const uint32_t k = t.list(prm::mkc::access_mode_ksm, page, {klm(t.m.at(0), 0, t.key)});
  for (int i = 0; i < 3; i++) EQUAL(t.brings(k, 0, 64, far_rights), tpt::protection::page);
  EQUAL(t.faults(), 0);
}

void a_strided_list_is_read_as_plain_entries() {
  Walked t;
  const std::vector<prm::Klm> blocks = {repeat_head(64, 4, 1),
                                        repeat_entry(page, 64, t.key, t.m.at(0))};
  const uint32_t k = t.klms(256, blocks);
  CU_ASSERT_FATAL(k != 0);
  // Within a repetition its head stands for a pinned region under key 0x400.
  EQUAL(t.brings(k, 0, 64, near_rights), tpt::protection::page);
  EQUAL(t.faults(), 0);
  EQUAL(t.brings(k, 0, 64, near_rights), tpt::protection::page);
  EQUAL(t.faults(), 0);
  // Beyond it the entry is taken for a long one, and the first of its pages comes.
  EQUAL(t.brings(k, 0, 256, near_rights), tpt::protection::page);
  EQUAL(t.faults(), 1);
  EQUAL(t.brings(k, 0, 64, near_rights), Verdict::done());
  EQUAL(t.brings(k, 0, 256, near_rights), tpt::protection::page);
  // Advice knows no lists and helps.
  EQUAL(t.advise(tpt::Paging::Advice::prefetch_write, true, t.m.at(), 16 * page, t.key), 0);
  EQUAL(t.brings(k, 0, 256, near_rights), Verdict::done());
}

void nothing_is_looked_for_in_front_of_a_pinned_piece() {
  Walked t;
  const prm::Klm paged = klm(t.m.at(0), 100, t.key);
  const prm::Klm pinned = klm(t.own.at(0), 100, t.ko.lkey.value());
  EQUAL(t.brings(t.klms(200, {paged, pinned}), 0, 200, near_rights), tpt::protection::handler);
  EQUAL(t.faults(), 0);
  EQUAL(t.brings(t.klms(200, {pinned, paged}), 0, 200, near_rights), tpt::protection::page);
  EQUAL(t.faults(), 1);
}

void segments_are_served_each_on_its_own() {
  Walked t;
  const uint32_t list = t.klms(100, {klm(t.m.at(0), 100, t.key)});
  const std::array<tpt::Segment, 2> s = {tpt::Segment{t.own.at(0), 100, t.ko.lkey.value(), false},
                                         tpt::Segment{0, 100, list, false}};
  const tpt::Access need{t.rig.pd, prm::mkey::any_qpn, near_rights, true};
  const tpt::Translator& tr = t.rig.hca->context.translator;
  EQUAL(tpt::page_in(tr, {s, need}, 200), tpt::protection::page);
  EQUAL(t.faults(), 1);
  EQUAL(tpt::page_in(tr, {s, need}, 200), Verdict::done());
}

void keys_of_keys_are_followed() {
  Walked t;
  const auto at = [&](uint64_t n, uint32_t bytes) { return klm(t.m.at(n * page), bytes, t.key); };
  const uint32_t a = t.klms(3 * page + 200, {at(0, page), at(1, 2 * page), at(9, 0), at(4, 200)});
  const uint32_t b = t.klms(page + 300, {klm(2 * page + 50, page + 100, a), at(6, 200)});
  CU_ASSERT_FATAL(a != 0);
  CU_ASSERT_FATAL(b != 0);
  // The rest of the third page, 150 bytes of the fifth, 60 of the seventh.
  EQUAL(t.brings(b, 0, page + 160, near_rights), tpt::protection::page);
  EQUAL(t.faults(), 3);
  for (const uint64_t there : {2, 4, 6})
    EQUAL(t.brings(t.key, t.m.at(there * page), 1, near_rights), Verdict::done());
  EQUAL(t.brings(t.key, t.m.at(page), 1, near_rights), tpt::protection::page);
}

const kilim::test::Case cases[] = {
    {"entries of fixed size need their length", entries_of_fixed_size_need_their_length},
    {"a request over entries without length fails", a_request_over_entries_without_length_fails},
    {"a peer meets the same page again", a_peer_meets_the_same_page_again},
    {"a strided list is read as plain entries", a_strided_list_is_read_as_plain_entries},
    {"nothing is looked for in front of a pinned piece",
     nothing_is_looked_for_in_front_of_a_pinned_piece},
    {"segments are served each on its own", segments_are_served_each_on_its_own},
    {"keys of keys are followed", keys_of_keys_are_followed},
};

}  // namespace
}  // namespace fault_walk_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(fault_walk, kilim::vhca::test::fault_walk_ut::cases)
