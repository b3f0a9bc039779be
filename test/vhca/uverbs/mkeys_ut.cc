// SPDX-License-Identifier: BSD-3-Clause
// CREATE_MKEY: what firmware does not make.
#include <cerrno>
#include <cstdio>
#include <memory>
#include <span>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/mkc.hh"
#include "make_key_fixture.hh"
#include "request_fixture.hh"
#include "ut.hh"
#include "vhca/hca/objects.hh"

namespace mkeys_ut {
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
  const std::unique_ptr<kilim::vhca::hca::Hca> hca = make_hca();
  const uint32_t pdn = kilim::vhca::hca::alloc_pd(*hca)->value();
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
    EQUAL(hca->keys.create_mkey(cmd.in.mkc, list, hca->config.profile).ok(), bytes == 0x8000'0000u);
  }
}

// A list of its own of so many pieces of 4 KiB, the last of them of `last` bytes; padding between.
void a_key_is_no_longer_than_its_own_list() {
  const std::unique_ptr<kilim::vhca::hca::Hca> hca = make_hca();
  const uint32_t pdn = kilim::vhca::hca::alloc_pd(*hca)->value();
  constexpr uint64_t piece = 4096, gib = uint64_t{1} << 30;
  struct Row {
    const char* name;
    uint64_t len;
    uint32_t last;
    bool whole, good;
  };
  // clang-format off
  constexpr Row rows[] = {
      {"as long", 4 * piece, piece, false, true},
      {"a byte longer", 4 * piece + 1, piece, false, false},
      {"a gigabyte of 16 KiB", gib, piece, false, false},
      {"padding at the end", 3 * piece, 0, false, true},
      {"as long as with a piece in the padding's place", 4 * piece, 0, false, false},
      {"the whole space", gib, piece, true, true},
      {"empty", 0, piece, false, true},
  };
  // clang-format on
  for (const Row& row : rows) {
    prm::Mkc mkc{};
    mkc.flags = kilim::be32{prm::mkc::access_mode_1_0::at(prm::mkc::access_mode_klm)};
    mkc.flags_pd = kilim::be32{pdn};
    mkc.len = kilim::be64{row.len};
    prm::mkc::length64::set(mkc, uint32_t{row.whole});
    mkc.translations_octword_size = kilim::be32{4};
    prm::Klm list[4]{};
    for (prm::Klm& e : list) e = {kilim::be32{piece}, kilim::be32{0x1000}, kilim::be64{0}};
    list[3].byte_count = kilim::be32{row.last};
    if (row.last == 0) list[3].mkey = kilim::be32{0};
    const std::span<const std::byte> bytes = std::as_bytes(std::span(list));
    const bool made = hca->keys.create_mkey(mkc, bytes, hca->config.profile).ok();
    if (made != row.good) std::printf("\n    %s", row.name);
    EQUAL(made, row.good);
    // Without a list of its own a UMR will fill it.
    EQUAL(hca->keys.create_mkey(mkc, {}, hca->config.profile).ok(), true);
  }
}

// An entry of 2 GiB says 0; and a strided list shows all its repetitions.
void long_and_strided_lists() {
  const std::unique_ptr<kilim::vhca::hca::Hca> hca = make_hca();
  const uint32_t pdn = kilim::vhca::hca::alloc_pd(*hca)->value();
  constexpr uint64_t gib = uint64_t{1} << 30;
  prm::Mkc mkc{};
  mkc.flags = kilim::be32{prm::mkc::access_mode_1_0::at(prm::mkc::access_mode_klm)};
  mkc.flags_pd = kilim::be32{pdn};
  mkc.translations_octword_size = kilim::be32{4};
  prm::Klm large[1] = {{kilim::be32{0}, kilim::be32{0x1000}, kilim::be64{0}}};
  struct {
    prm::RepeatBlockSeg head{};
    prm::RepeatEntSeg entry{};
  } strided;
  strided.head = {
      kilim::be32{64}, kilim::be32{prm::repeat_block_op}, kilim::be32{100}, {}, kilim::be16{1}};
  strided.entry.byte_count = kilim::be16{64};
  for (const uint64_t beyond : {0u, 1u}) {
    mkc.len = kilim::be64{2 * gib + beyond};
    EQUAL(hca->keys.create_mkey(mkc, std::as_bytes(std::span(large)), hca->config.profile).ok(),
          beyond == 0);
    mkc.len = kilim::be64{6400 + beyond};
    EQUAL(
        hca->keys.create_mkey(mkc, std::as_bytes(std::span(&strided, 1)), hca->config.profile).ok(),
        beyond == 0);
  }
}

constexpr Case cases[] = {
    {"a key is no longer than its own list", a_key_is_no_longer_than_its_own_list},
    {"long and strided lists", long_and_strided_lists},
    {"keys that firmware does not make", keys_that_firmware_does_not_make},
    {"entries of a new key are looked at", entries_of_a_new_key_are_looked_at},
};

}  // namespace
}  // namespace mkeys_ut

KILIM_TEST_SUITE(mkeys, mkeys_ut::cases)
