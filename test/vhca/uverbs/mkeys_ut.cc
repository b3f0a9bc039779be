// SPDX-License-Identifier: BSD-3-Clause
// CREATE_MKEY: what firmware does not make.
#include <cerrno>
#include <cstdio>
#include <span>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/mkc.hh"
#include "make_key_fixture.hh"
#include "request_fixture.hh"
#include "ut.hh"

namespace {

using namespace kilim::test;
namespace prm = kilim::prm;

void set_entity(prm::CreateMkeyIn& in, uint32_t log) {
  prm::mkc::access_mode_1_0::set(in.mkc, prm::mkc::access_mode_ksm);
  prm::mkc::log_entity_size::set(in.mkc, log);
}

// Each row makes a good command a bad one, or another good one.
struct KeyRow {
  const char* name;
  void (*change)(prm::CreateMkeyIn&);
  bool good;
};
// clang-format off
constexpr KeyRow key_rows[] = {
    {"as it is", [](prm::CreateMkeyIn&) {}, true},
    {"encryption", [](prm::CreateMkeyIn& in) { prm::mkc::crypto_en::set(in.mkc, 1u); }, false},
    {"beside encryption", [](prm::CreateMkeyIn& in) { in.mkc.crypto = kilim::be32{1}; }, false},
    {"bit 31 of the flags", [](prm::CreateMkeyIn& in) { in.mkc.flags |= kilim::be32{1u << 31}; }, false},
    {"bit 17 of the flags", [](prm::CreateMkeyIn& in) { in.mkc.flags |= kilim::be32{1u << 17}; }, false},
    {"relaxed order and small fence", [](prm::CreateMkeyIn& in) { in.mkc.flags |= kilim::be32{5u << 16}; in.mkc.log_page_size |= kilim::be32{1u << 6}; }, true},
    {"third word", [](prm::CreateMkeyIn& in) { in.mkc.reserved_8 = kilim::be32{1}; }, false},
    {"bit 27 beside the domain", [](prm::CreateMkeyIn& in) { in.mkc.flags_pd |= kilim::be32{1u << 27}; }, false},
    {"behind the signature", [](prm::CreateMkeyIn& in) { in.mkc.reserved_24[3] = kilim::be32{1}; }, false},
    {"beside the page size", [](prm::CreateMkeyIn& in) { in.mkc.log_page_size = kilim::be32{1u << 9}; }, false},
    {"a signature's size without one", [](prm::CreateMkeyIn& in) { in.mkc.bsf_octword_size = kilim::be32{4}; }, false},
    {"modified opcode", [](prm::CreateMkeyIn& in) { in.op_mod = kilim::be16{1}; }, false},
    {"a number asked for", [](prm::CreateMkeyIn& in) { in.reserved_8 = kilim::be32{5}; }, false},
    {"behind the context", [](prm::CreateMkeyIn& in) { in.reserved_50[0] = kilim::be32{1}; }, false},
    {"a list as long as it may be", [](prm::CreateMkeyIn& in) { in.mkc.len = kilim::be64{4ull << 31}; }, true},
    {"a longer one", [](prm::CreateMkeyIn& in) { in.mkc.len = kilim::be64{(4ull << 31) + 8}; }, false},
    {"pages as long as they may be", [](prm::CreateMkeyIn& in) { set_entity(in, 12); in.mkc.len = kilim::be64{4 << 12}; }, true},
    {"longer ones", [](prm::CreateMkeyIn& in) { set_entity(in, 12); in.mkc.len = kilim::be64{(4 << 12) + 8}; }, false},
    {"too small ones", [](prm::CreateMkeyIn& in) { set_entity(in, 11); }, false},
    {"up to the end", [](prm::CreateMkeyIn& in) { in.mkc.start_addr = kilim::be64{~0xfffull}; in.mkc.len = kilim::be64{4096}; }, true},
    {"around it", [](prm::CreateMkeyIn& in) { in.mkc.start_addr = kilim::be64{~0xfffull}; in.mkc.len = kilim::be64{4104}; }, false},
    {"odd", [](prm::CreateMkeyIn& in) { in.mkc.start_addr = kilim::be64{4}; in.mkc.len = kilim::be64{4}; }, true},
    {"atomics at an odd start", [](prm::CreateMkeyIn& in) { prm::mkc::atomic::set(in.mkc, 1u); in.mkc.start_addr = kilim::be64{4}; in.mkc.len = kilim::be64{8}; }, false},
    {"atomics to an odd end", [](prm::CreateMkeyIn& in) { prm::mkc::atomic::set(in.mkc, 1u); in.mkc.start_addr = kilim::be64{8}; in.mkc.len = kilim::be64{12}; }, false},
};
// clang-format on

void keys_that_firmware_does_not_make() {
  Client c;
  uint32_t pd, pdn, handle;
  EQUAL_FATAL(c.alloc_pd(pd, &pdn), 0);
  for (const KeyRow& row : key_rows) {
    prm::CreateMkeyIn in{};
    in.opcode = kilim::be16{prm::cmd::create_mkey};
    in.mkc.flags = kilim::be32{prm::mkc::umr_en::at(1u) | prm::mkc::local_read::at(1u) |
                               prm::mkc::access_mode_1_0::at(prm::mkc::access_mode_klm)};
    in.mkc.qpn_mkey = kilim::be32{0xffffff00};
    in.mkc.flags_pd = kilim::be32{pdn};
    in.mkc.translations_octword_size = kilim::be32{4};
    row.change(in);
    uint8_t out[16]{};
    const int rc = create_mkey(c, in, out, handle);
    if (rc != (row.good ? 0 : -EREMOTEIO)) std::printf("\n    %s: %d\n", row.name, rc);
    EQUAL(rc, row.good ? 0 : -EREMOTEIO);
    EQUAL(out[0], row.good ? 0 : 0x03);
  }
}

void entries_of_a_new_key_are_looked_at() {
  Client c;
  uint32_t pd, pdn;
  EQUAL_FATAL(c.alloc_pd(pd, &pdn), 0);
  struct {
    prm::CreateMkeyIn in{};
    prm::Klm entry{};
  } cmd;
  cmd.in.mkc.flags = kilim::be32{prm::mkc::access_mode_1_0::at(prm::mkc::access_mode_klm)};
  cmd.in.mkc.flags_pd = kilim::be32{pdn};
  cmd.in.mkc.translations_octword_size = kilim::be32{4};
  cmd.entry.mkey = kilim::be32{0x1000};
  for (const uint32_t bytes : {0x8000'0000u, 0x8000'0001u}) {
    cmd.entry.byte_count = kilim::be32{bytes};
    const std::span<const std::byte> list = std::as_bytes(std::span(&cmd.entry, 1));
    EQUAL(c.hca->keys.create_mkey(cmd.in.mkc, list, c.hca->config.profile).ok(),
          bytes == 0x8000'0000u);
  }
}

constexpr Case cases[] = {
    {"keys that firmware does not make", keys_that_firmware_does_not_make},
    {"entries of a new key are looked at", entries_of_a_new_key_are_looked_at},
};

}  // namespace

KILIM_UT_MAIN("uverbs: keys by command", cases)
