// SPDX-License-Identifier: BSD-3-Clause
// For tests of signed keys: BSFs and SET_PSVs put together by hand, and an end of a connection with
// a key that can be signed. Owner: one test case.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "kilim/prm/bsf_seg.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/mkc.hh"
#include "sign_reference.hh"
#include "ut.hh"
#include "vhca/hca/commands.hh"
#include "vhca/hca/hca.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {

namespace bsf = prm::bsf;
using kilim::test::blocks::bits_of;
using kilim::test::blocks::Bytes;
using kilim::test::blocks::Domain;
using kilim::test::blocks::get_signature;
using kilim::test::blocks::join;
using kilim::test::blocks::Parts;
using kilim::test::blocks::put_signature;
using kilim::test::blocks::Sign;
using kilim::test::blocks::signature_of;
using kilim::test::blocks::split;

inline uint8_t selector(uint32_t block) {
  return block == 512    ? bsf::block_512
         : block == 520  ? bsf::block_520
         : block == 4096 ? bsf::block_4096
         : block == 4160 ? bsf::block_4160
         : block == 4048 ? bsf::block_4048
                         : uint8_t{0};
}
inline void fill_inline(prm::BsfInline& in, const Domain& d) {
  in.valid_refresh = be16{bsf::valid | bsf::refresh};
  in.app_tag = be16{d.app};
  in.ref_tag = be32{d.ref};
  in.guard_type = d.sign == Sign::dif_crc ? bsf::guard_crc : bsf::guard_checksum;
  in.repeat_seed = static_cast<uint8_t>(bsf::repeat_block | (d.ones ? bsf::seed_ones : 0));
  in.checks = d.count_ref ? bsf::count_ref_tag : uint8_t{0};
  in.app_mask = be16{0xffff};
}
inline be32 format_word(const Domain& d, uint32_t psv, prm::BsfInline& in) {
  if (d.sign == Sign::none) return be32{0};
  if (d.dif()) fill_inline(in, d);
  const uint32_t base = d.dif()                  ? 0
                        : d.sign == Sign::crc32  ? bsf::crc32
                        : d.sign == Sign::crc32c ? bsf::crc32c
                                                 : bsf::crc64_xp10;
  const uint32_t format = base == 0 ? 0 : base | bsf::repeat | (d.ones ? 0 : bsf::zero_seed);
  return be32{format << 24 | psv};
}

struct Layout {
  Domain mem, wire;
  bool same = false;
  uint8_t check = 0xff, copy = 0;
};
struct Psvs {
  uint32_t mem, wire;
};
inline prm::Bsf bsf_of(const Layout& l, const Psvs& psv) {
  prm::Bsf b{};
  b.size_sbs = static_cast<uint8_t>(bsf::size_with_inline | (l.same ? bsf::same_blocks : 0));
  b.check_mask = l.check;
  b.mem_block = selector(l.mem.block);
  b.wire_block = l.same ? l.copy : selector(l.wire.block);
  b.raw_data_size = be32{bsf::any_raw_size};
  b.mem_format = format_word(l.mem, psv.mem, b.mem);
  b.wire_format = format_word(l.wire, psv.wire, b.wire);
  return b;
}

inline const Layout crc_in_memory{.mem = {.sign = Sign::crc32, .block = 512},
                                  .check = bsf::guard_bytes};

inline constexpr uint32_t bsf_enable = prm::mkey::bsf_enable;
// Adds a BSF to a UMR WQE and sets the context's bits.
inline Wqe with_bsf(Wqe w, const prm::Bsf& b, uint32_t flags = bsf_enable,
                    uint64_t mask = prm::umr::mask_bsf_enable | prm::umr::mask_sig_err) {
  constexpr std::size_t ctrl = 16, mkey = 64;
  const be16 octowords{bsf::octowords};
  std::memcpy(w.bytes.data() + ctrl + 6, &octowords, sizeof(octowords));
  be64 m;
  std::memcpy(&m, w.bytes.data() + ctrl + 8, sizeof(m));
  m = be64{m.host() | mask};
  std::memcpy(w.bytes.data() + ctrl + 8, &m, sizeof(m));
  const be32 f{flags};
  std::memcpy(w.bytes.data() + mkey + 12, &f, sizeof(f));
  return w.raw(&b, sizeof(b));
}
inline Wqe set_psv(uint32_t psv, const Domain& d) {
  uint64_t v = 0;
  if (d.dif())
    v = uint64_t{d.ones ? 0xffffu : 0u} << 48 | uint64_t{d.app} << 32 | d.ref;
  else if (d.ones)
    v = d.half() ? uint64_t{0xffffffff} << 32 : ~uint64_t{0};
  prm::SetPsvSeg seg{};
  seg.psv = be32{psv};
  seg.signature = be64{v};
  return Wqe(prm::Opcode::set_psv).raw(&seg, sizeof(seg));
}

// One of the two ends of a connection.
struct End {
  Rig& rig;
  TestQp& qp;
  TestCq& cq;
  Pages buffer{262144}, arena{262144};
  uint32_t plain = 0, pieces = 0, key = 0;
  Psvs psv{};
  std::vector<prm::SigErrCqe> errors;

  End(Rig& r, TestQp& q, TestCq& c) : rig(r), qp(q), cq(c) {
    plain = rig.reg(buffer, rw_access).lkey.value();
    pieces = rig.reg(arena, rw_access).lkey.value();
    prm::Mkc mkc{};
    mkc.flags =
        be32{prm::mkc::free::at(1u) | prm::mkc::umr_en::at(1u) | prm::mkc::local_read::at(1u) |
             prm::mkc::access_mode_1_0::at(prm::mkc::access_mode_klm)};
    mkc.qpn_mkey = be32{0xffffff00u};
    mkc.flags_pd = be32{rig.pd.value() | bsf_enable};
    mkc.bsf_octword_size = be32{bsf::octowords};
    mkc.translations_octword_size = be32{16};
    Result<tpt::Mkey*> m = rig.hca->keys.create_mkey(mkc, {}, rig.hca->config.profile);
    key = m ? (*m)->key : 0;
    psv = {make_psv(), make_psv()};
  }
  uint32_t make_psv() {
    prm::CreatePsvIn in{};
    in.hdr.opcode = be16{prm::cmd::create_psv};
    in.count_pd = be32{1u << 28 | rig.pd.value()};
    prm::CreatePsvOut out{};
    (void)hca::command(*rig.hca, std::as_bytes(std::span(&in, 1)),
                       std::as_writable_bytes(std::span(&out, 1)));
    return out.hdr.status == 0 ? out.psv[0].host() : 0;
  }
  // The next completion that is none of a signature.
  std::optional<Completion> wait() {
    for (;;) {
      std::optional<Completion> c = rig.wait(cq);
      if (!c || c->op != prm::CqeOpcode::sig_err) return c;
      take_error();
    }
  }
  void take_error() {
    const std::size_t slot = (cq.ci - 1) & (cq.entries - 1);
    prm::SigErrCqe e;
    std::memcpy(&e, cq.memory.data() + (slot + 1) * cq.entry_bytes - sizeof(e), sizeof(e));
    errors.push_back(e);
  }
  void take_errors() {
    while (std::optional<Completion> c = cq.poll())
      if (c->op == prm::CqeOpcode::sig_err) take_error();
  }
  prm::Syndrome post(const Wqe& w) {
    qp.put(w);
    qp.ring(rig.uar);
    const std::optional<Completion> c = wait();
    return c ? c->syndrome : prm::Syndrome::transport_retry_exc;
  }
  // The key shows `bytes` of the arena in pieces, signed so.
  prm::Syndrome configure(const Layout& l, std::span<const prm::Klm> list, uint64_t bytes) {
    UmrShape shape;
    shape.len = bytes;
    const prm::Syndrome s = post(with_bsf(umr_wqe(key, shape, list), bsf_of(l, psv)));
    if (s != prm::Syndrome::none) return s;
    post(set_psv(psv.mem, l.mem));
    return post(set_psv(psv.wire, l.wire));
  }
};

inline Syndrome shown(End& e) {
  const prm::Klm k = klm(e.arena.at(0), 516, e.pieces);
  return e.configure(crc_in_memory, {&k, 1}, 516);
}

// Of signature_stops.cc.
std::span<const kilim::test::Case> signature_stop_cases();

}  // namespace kilim::vhca::test
