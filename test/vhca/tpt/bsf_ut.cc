// SPDX-License-Identifier: BSD-3-Clause
// BSFs that no adapter takes: nothing of them reaches the key.
#include "sign_fixture.hh"
#include "ut.hh"

namespace kilim::vhca::test {
namespace bsf_ut {
namespace {

using prm::Syndrome;

using Spoil = void (*)(prm::Bsf&);
struct BadBsf {
  const char* what;
  Spoil spoil;
};
constexpr BadBsf bad_bsfs[] = {
    {"size", [](prm::Bsf& b) { b.size_sbs = 1 << 6; }},
    {"crypto", [](prm::Bsf& b) { b.size_sbs |= 1; }},
    {"transaction", [](prm::Bsf& b) { b.mem_transaction = be32{7}; }},
    {"prologue", [](prm::Bsf& b) { b.init_size = be32{1}; }},
    {"block size", [](prm::Bsf& b) { b.mem_block = 7; }},
    {"no block", [](prm::Bsf& b) { b.mem_block = 0; }},
    {"format", [](prm::Bsf& b) { b.mem_format = be32{0x70u << 24 | bsf::mem_psv::get(b)}; }},
    {"no repeat", [](prm::Bsf& b) { b.mem_format = be32{0x20u << 24 | bsf::mem_psv::get(b)}; }},
    {"psv", [](prm::Bsf& b) { b.mem_format = be32{b.mem_format.host() + 0x5000}; }},
    {"two formats", [](prm::Bsf& b) { b.mem.valid_refresh = be16{bsf::valid}; }},
    {"inline guard",
     [](prm::Bsf& b) { b.wire.valid_refresh = be16{bsf::valid}, b.wire_block = 1; }},
    {"same blocks", [](prm::Bsf& b) { b.size_sbs |= bsf::same_blocks; }},
    {"stray psv", [](prm::Bsf& b) { b.wire_format = be32{1}; }},
};

const Layout dif_in_memory{.mem = {.sign = Sign::dif_crc, .block = 512}};
constexpr BadBsf bad_inlines[] = {
    {"valid", [](prm::Bsf& b) { b.mem.valid_refresh = be16{bsf::valid | 1}; }},
    {"seed", [](prm::Bsf& b) { b.mem.repeat_seed |= 1; }},
    {"checks", [](prm::Bsf& b) { b.mem.checks |= 1 << 7; }},
    {"guard", [](prm::Bsf& b) { b.mem.guard_type = 3; }},
    {"no repeat", [](prm::Bsf& b) { b.mem.repeat_seed = bsf::seed_ones; }},
};

// The key goes on as it was.
void is_refused(const Layout& good, const BadBsf& bad, tpt::SignKind kind) {
  Rig rig;
  End e{rig, rig.a, rig.cq_a};
  EQUAL(e.configure(good, {}, 0), Syndrome::none);
  prm::Bsf b = bsf_of(good, e.psv);
  bad.spoil(b);
  const uint32_t bytes = 512 + good.mem.bytes();
  const prm::Klm k = klm(e.arena.at(0), bytes, e.pieces);
  UmrShape shape;
  shape.len = bytes;
  EQUAL(e.post(with_bsf(umr_wqe(e.key, shape, {&k, 1}), b)), Syndrome::mw_bind);
  const tpt::Signature& kept = *rig.hca->keys.at(e.key >> 8)->signature;
  CU_ASSERT_TRUE(kept.on);
  EQUAL(kept.mem.kind, kind);
  EQUAL(kept.mem.block, 512);
}

void malformed_bsfs_are_refused() {
  for (const BadBsf& bad : bad_bsfs) is_refused(crc_in_memory, bad, tpt::SignKind::crc32);
  for (const BadBsf& bad : bad_inlines) is_refused(dif_in_memory, bad, tpt::SignKind::dif_crc);
}

void a_bsf_beyond_its_wqe_or_its_key_is_refused() {
  Rig rig;
  End e{rig, rig.a, rig.cq_a};
  UmrShape shape;
  Wqe cut = with_bsf(umr_wqe(e.key, shape, {}), bsf_of(crc_in_memory, e.psv));
  cut.bytes.resize(cut.bytes.size() - 16);
  EQUAL(e.post(cut), Syndrome::local_qp_op);
  Rig other;
  End f{other, other.a, other.cq_a};
  const uint32_t plain = other.make_key(4);
  EQUAL(f.post(with_bsf(umr_wqe(plain, shape, {}), bsf_of(crc_in_memory, f.psv))),
        Syndrome::mw_bind);
}

constexpr kilim::test::Case cases[] = {
    {"malformed BSFs are refused and change nothing", malformed_bsfs_are_refused},
    {"a BSF beyond its WQE, or for a key not made for it, is refused",
     a_bsf_beyond_its_wqe_or_its_key_is_refused},
};

}  // namespace
}  // namespace bsf_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(bsf, kilim::vhca::test::bsf_ut::cases)
