// SPDX-License-Identifier: BSD-3-Clause
// For tests of encrypted keys: BSFs put together by hand, encryption keys made by command, and an
// end of a connection with a key that can be encrypted and signed. Owner: one test case.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "kilim/prm/crypto_seg.hh"
#include "sign_fixture.hh"
#include "xts_reference.hh"

namespace kilim::vhca::test {

namespace crypto = prm::crypto;
using kilim::test::XtsReference;

// How a key is encrypted; unit and keys are the reference's.
struct Encryption {
  uint8_t order = crypto::raw_wire;
  uint32_t dek = 0;
  uint32_t raw_bytes = bsf::any_raw_size;
  XtsReference xts;
  [[nodiscard]] bool encrypts_tx() const {
    return order == crypto::wire_signature || order == crypto::raw_wire;
  }
  [[nodiscard]] bool by_memory() const {
    return order == crypto::memory_signature || order == crypto::raw_wire;
  }
};

inline prm::CryptoBsf crypto_bsf_of(const Encryption& e, bool with_signature) {
  prm::CryptoBsf b{};
  b.size_type = (with_signature ? crypto::with_signature : bsf::size_with_inline) | crypto::type;
  b.order = e.order;
  b.raw_data_size = be32{e.raw_bytes};
  b.unit =
      e.xts.unit == 1u << 20 ? crypto::unit_1_mib : selector(static_cast<uint32_t>(e.xts.unit));
  std::memcpy(b.tweak, e.xts.number.data(), sizeof b.tweak);
  b.dek = be32{e.dek};
  return b;
}

// 0: refused.
inline uint32_t make_dek(Rig& rig, const std::vector<uint8_t>& keys, const char* tag = nullptr) {
  struct {
    prm::CmdInHdr hdr;
    uint8_t reserved[8];
    prm::DekObject object;
  } in{};
  in.hdr.opcode = be16{prm::cmd::create_general_object};
  in.hdr.op_mod = be16{prm::cmd::object_dek};
  in.object.key_size = keys.size() == 32 ? prm::dek::size_128 : prm::dek::size_256;
  in.object.tag_purpose =
      static_cast<uint8_t>(prm::dek::aes_xts | (tag != nullptr ? prm::dek::has_tag : 0));
  in.object.pd = be32{rig.pd.value()};
  std::memcpy(in.object.key, keys.data(), keys.size());
  if (tag != nullptr) std::memcpy(in.object.key + keys.size(), tag, prm::dek::tag_bytes);
  prm::CreateMkeyOut out{};
  (void)hca::command(*rig.hca, std::as_bytes(std::span(&in, 1)),
                     std::as_writable_bytes(std::span(&out, 1)));
  return out.hdr.status == 0 ? out.mkey_index.host() : 0;
}

// What CREATE_MKEY is given for a key of 16 entries.
inline prm::Mkc crypto_mkc(const Rig& rig, bool with_signature) {
  prm::Mkc mkc{};
  mkc.flags =
      be32{prm::mkc::free::at(1u) | prm::mkc::umr_en::at(1u) | prm::mkc::local_read::at(1u) |
           prm::mkc::access_mode_1_0::at(prm::mkc::access_mode_klm)};
  mkc.qpn_mkey = be32{0xffffff00u};
  mkc.flags_pd = be32{rig.pd.value() | bsf_enable};
  mkc.bsf_octword_size = be32{crypto::octowords + (with_signature ? bsf::octowords : 0)};
  mkc.translations_octword_size = be32{16};
  mkc.crypto = be32{prm::mkc::crypto_en::at(1u)};
  return mkc;
}

// An end whose key is encrypted; `signs`: and signed.
struct CryptoEnd : End {
  uint32_t only = 0, both = 0;  // keys

  CryptoEnd(Rig& r, TestQp& q, TestCq& c) : End(r, q, c) {
    only = make_key(false);
    both = make_key(true);
  }
  uint32_t make_key(bool with_signature) {
    Result<tpt::Mkey*> m =
        rig.hca->keys.create_mkey(crypto_mkc(rig, with_signature), {}, rig.hca->config.profile);
    return m ? (*m)->key : 0;
  }
  static Wqe with_bsfs(Wqe w, const prm::Bsf* sign, const prm::CryptoBsf& b) {
    if (sign != nullptr) {
      w = with_bsf(std::move(w), *sign);
    } else {
      w = with_bsf(std::move(w), prm::Bsf{}, bsf_enable, prm::umr::mask_bsf_enable);
      w.bytes.resize(w.bytes.size() - sizeof(prm::Bsf));
    }
    const be16 octowords{
        static_cast<uint16_t>(crypto::octowords + (sign != nullptr ? bsf::octowords : 0))};
    std::memcpy(w.bytes.data() + 16 + 6, &octowords, sizeof(octowords));
    return w.raw(&b, sizeof(b));
  }
  // The key shows these pieces, encrypted so; with a layout: and signed.
  prm::Syndrome encrypt(const Encryption& e, const Layout* l, std::span<const prm::Klm> list,
                        uint64_t bytes) {
    UmrShape shape;
    shape.len = bytes;
    prm::Bsf sign{};
    if (l != nullptr) {
      sign = bsf_of(*l, psv);
      sign.size_sbs = static_cast<uint8_t>((sign.size_sbs & 0x3f) | crypto::with_signature);
    }
    key = l != nullptr ? both : only;
    const prm::Syndrome s = post(with_bsfs(
        umr_wqe(key, shape, list), l != nullptr ? &sign : nullptr, crypto_bsf_of(e, l != nullptr)));
    if (s != prm::Syndrome::none || l == nullptr) return s;
    post(set_psv(psv.mem, l->mem));
    return post(set_psv(psv.wire, l->wire));
  }
};

}  // namespace kilim::vhca::test
