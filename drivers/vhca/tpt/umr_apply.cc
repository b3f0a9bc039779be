// SPDX-License-Identifier: BSD-3-Clause
// PRM: "UMR Work Request Operation". Adapter's lock held. Never allocates; all checks come before
// the first change. The WQE and a list by pointer are untrusted.
#include "vhca/tpt/umr_apply.hh"

#include <algorithm>
#include <cstring>

#include "kilim/detail/base/units.hh"
#include "kilim/prm/bsf_seg.hh"
#include "kilim/prm/crypto_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/umr_seg.hh"
#include "vhca/tpt/key_state.hh"
#include "vhca/tpt/list.hh"

namespace kilim::vhca::tpt {

namespace {

using prm::Syndrome;
namespace umr = prm::umr;

constexpr std::size_t fixed_bytes = sizeof(prm::UmrCtrlSeg) + sizeof(prm::MkeyContextSeg);
constexpr uint64_t known_mask = umr::mask_len | umr::mask_page_size | umr::mask_start_addr |
                                umr::mask_sig_err | umr::mask_bsf_enable | umr::mask_mkey |
                                umr::mask_qpn | umr::mask_access | umr::mask_free;
constexpr uint8_t known_flags = umr::inline_list | umr::check_free | umr::check_not_free |
                                umr::has_translation_offset | umr::check_qpn;

struct Decoded {
  prm::UmrCtrlSeg ctrl;
  prm::MkeyContextSeg mk;
  uint64_t mask = 0;
  uint32_t octowords = 0;
  uint64_t first = 0;                     // of them in the key's list
  std::span<const std::byte> inlined;     // the list, where it is in the WQE
  Segment pointer{};                      // where it is not
  Signature signature;                    // as the key shall have it
  Crypto crypto;                          // so too
  std::span<const std::byte> bsf;         // how the key's blocks are signed; empty: as they were
  std::span<const std::byte> crypto_bsf;  // how its bytes are encrypted; empty: as they were
};

bool has(const Decoded& d, uint8_t flag) noexcept {
  return (d.ctrl.flags & flag) != 0;
}

// Whether the key's blocks are signed from now on.
bool signs(const Decoded& d) noexcept {
  return (d.mask & umr::mask_bsf_enable) != 0 &&
         (d.mk.flags_pd.host() & prm::mkey::bsf_enable) != 0;
}

bool reserves(const prm::UmrCtrlSeg& c) noexcept {
  const auto set = [](uint8_t b) { return b != 0; };
  return std::any_of(std::begin(c.rsvd0), std::end(c.rsvd0), set) ||
         std::any_of(std::begin(c.rsvd1), std::end(c.rsvd1), set);
}

// Reads the fixed part and finds the list.
Verdict decode(const UmrRequest& r, Decoded& d) noexcept {
  if (r.body.size() < fixed_bytes) return {Syndrome::local_qp_op, "UMR WQE too short"};
  std::memcpy(&d.ctrl, r.body.data(), sizeof(d.ctrl));
  if (reserves(d.ctrl)) return {Syndrome::local_qp_op, "a reserved bit of a UMR is set"};
  std::memcpy(&d.mk, r.body.data() + sizeof(d.ctrl), sizeof(d.mk));
  d.mask = d.ctrl.mkey_mask.host();
  d.octowords = d.ctrl.klm_octowords.host();
  std::span<const std::byte> rest = r.body.subspan(fixed_bytes);
  if (has(d, umr::inline_list)) {
    std::size_t bytes = std::size_t{d.octowords} * octoword_bytes;
    if (bytes > rest.size()) return {Syndrome::local_qp_op, "list longer than its WQE"};
    d.inlined = rest.first(bytes);
    rest = rest.subspan(bytes);
  } else if (d.octowords > 0) {
    prm::DataSeg seg;
    if (rest.size() < sizeof(seg)) return {Syndrome::local_qp_op, "no pointer to the list"};
    std::memcpy(&seg, rest.data(), sizeof(seg));
    d.pointer = {seg.addr.host(), uint64_t{d.octowords} * octoword_bytes, seg.lkey.host(), false};
    rest = rest.subspan(sizeof(seg));
  }
  // The word is the size of what follows the list where it is not an offset.
  const bool offset = has(d, umr::has_translation_offset);
  const std::size_t bytes = offset ? 0 : d.ctrl.translation_offset.host() * octoword_bytes;
  if (bytes > rest.size()) return {Syndrome::local_qp_op, "a BSF beyond its WQE"};
  if (bytes < rest.size()) return {Syndrome::local_qp_op, "a UMR WQE longer than its segments"};
  d.bsf = rest;
  return {};
}

Verdict check_features(const Profile& p, const Decoded& d) noexcept {
  if (!p.umr) return {Syndrome::local_qp_op, "the adapter has no UMR"};
  if ((d.ctrl.flags & ~known_flags) != 0) return {Syndrome::mw_bind, "unknown UMR flag"};
  if ((d.mask & ~known_mask) != 0) return {Syndrome::mw_bind, "unknown bit in the mkey mask"};
  if ((d.mask & umr::mask_atomic) != 0 && p.umr_modify_atomic_disabled)
    return {Syndrome::mw_bind, "the atomic right cannot be changed"};
  if ((d.mask & umr::mask_page_size) != 0 && p.umr_modify_entity_size_disabled)
    return {Syndrome::mw_bind, "the entity size cannot be changed"};
  if ((signs(d) || !d.bsf.empty()) && !p.signature && p.crypto_tweak == CryptoTweak::none)
    return {Syndrome::mw_bind, "the adapter has no signature offload"};
  if (!has(d, umr::inline_list) && d.octowords > 0 && !p.umr_ptr_rlkey)
    return {Syndrome::mw_bind, "lists by pointer are for the kernel only"};
  return {};
}

Verdict check_target(const Mkey* m, const UmrRequest& r, const Decoded& d) noexcept {
  // Whoever writes the tag may name the key by its new one already: libmlx5 and the kernel do.
  const bool new_tag = (d.mask & umr::mask_mkey) != 0;
  if (m == nullptr || (!new_tag && m->key != r.key))
    return {Syndrome::mw_bind, hardware::umr_of_no_key, "UMR of no such key"};
  if (m->pd != r.pd) return {Syndrome::mw_bind, "UMR of a key of another domain"};
  if (Verdict v = check_state(*m, KeyOp::umr); !v.ok()) return v;
  if (has(d, umr::check_free)) {
    if (Verdict v = check_state(*m, KeyOp::umr_if_valid); !v.ok()) return v;
  }
  if (has(d, umr::check_not_free)) {
    if (Verdict v = check_state(*m, KeyOp::umr_if_free); !v.ok()) return v;
  }
  if (has(d, umr::check_qpn) && m->qpn != prm::mkey::any_qpn && m->qpn != r.qpn)
    return {Syndrome::mw_bind, "the key belongs to another queue"};
  if ((d.mask & umr::mask_page_size) != 0 &&
      (m->mode != KeyMode::ksm || (d.mk.log_page_size & 31) < 12))
    return {Syndrome::mw_bind, "an entity size that the key cannot have"};
  return {};
}

Verdict check_list_place(const Mkey& m, const Profile& p, Decoded& d) noexcept {
  constexpr uint32_t granule = umr::granule_bytes / octoword_bytes;
  if (has(d, umr::has_translation_offset)) {
    const uint64_t high = d.ctrl.translation_offset_47_16.host();
    if (high != 0 && !p.umr_extended_translation_offset)
      return {Syndrome::mw_bind, "the adapter has no extended translation offset"};
    d.first = high << 16 | d.ctrl.translation_offset.host();
  }
  if (d.octowords == 0) return {};
  if (d.octowords % granule != 0 || d.first % granule != 0)
    return {Syndrome::local_qp_op, hardware::umr_unaligned,
            "a list is written in granules of 64 bytes"};
  if (m.mode == KeyMode::direct || d.first + d.octowords > m.capacity)
    return {Syndrome::mw_bind, hardware::umr_too_long, "more entries than the key holds"};
  if (has(d, umr::inline_list)) return {};
  if (d.pointer.addr % umr::list_alignment != 0)
    return {Syndrome::mw_bind, "a list by pointer lies on 2048 bytes"};
  // The byte count of the pointer is not looked at: drivers write bytes, entries or nothing there.
  return {};
}

// Looks at every entry before any is taken: a list by pointer goes through a small window.
Verdict check_entries(const Mkey& m, const Translator& t, const Profile& p, const UmrRequest& r,
                      const Decoded& d) noexcept {
  if (d.octowords == 0) return {};
  if (has(d, umr::inline_list)) {
    const char* why = list_objection(m, d.inlined, d.first, d.octowords, p);
    return why != nullptr ? Verdict{Syndrome::mw_bind, why} : Verdict{};
  }
  std::byte window[2048];
  uint64_t bytes = uint64_t{d.octowords} * octoword_bytes;
  bool strided = false;
  for (uint64_t done = 0; done < bytes;) {
    uint64_t n = std::min<uint64_t>(bytes - done, sizeof(window));
    Segment s{d.pointer.addr + done, n, d.pointer.key, false};
    Transfer got = gather_bytes(t, {{&s, 1}, {r.pd, r.qpn, prm::mkey::local_read}}, window, n);
    if (!got.ok()) return {Syndrome::local_prot, "the list by pointer cannot be read"};
    const uint64_t at = d.first + done / octoword_bytes;
    const char* why = strided ? nullptr : list_objection(m, {window, n}, at, d.octowords, p);
    if (why != nullptr) return {Syndrome::mw_bind, why};
    prm::Klm head;
    std::memcpy(&head, window, sizeof(head));
    if (at == 0 && head.mkey.host() == prm::repeat_block_op) strided = true;
    done += n;
  }
  return {};
}

// libmlx5, crypto_umr_wqe_finalize(): a key for both has that of signatures first, and may have it
// alone.
void split_bsfs(const Mkey& m, Decoded& d) noexcept {
  if (m.crypto == nullptr) return;
  const std::size_t of_signature = m.signature != nullptr ? sizeof(prm::Bsf) : 0;
  if (d.bsf.size() <= of_signature) return;
  d.crypto_bsf = d.bsf.subspan(of_signature);
  d.bsf = d.bsf.first(of_signature);
}

Verdict check_crypto(const KeyTable& keys, const Mkey& m, const Profile& p, Decoded& d) noexcept {
  if (d.crypto_bsf.empty()) return {};
  constexpr auto none = SignKind::none;
  const Signature& s = d.signature;
  const CryptoBsfForm form{m.signature != nullptr, s.mem.kind != none && s.wire.kind != none};
  if (const char* why = decode_crypto_bsf(d.crypto_bsf, form, p, d.crypto))
    return {Syndrome::mw_bind, why};
  if (!keys.has_dek(d.crypto, m.pd))
    return {Syndrome::mw_bind, "no such encryption key in the key's domain"};
  if (!tag_fits(d.crypto_bsf, *keys.deks().at(d.crypto.dek)))
    return {Syndrome::mw_bind, "the encryption key has another tag"};
  return {};
}

Verdict check_signature(const KeyTable& keys, const Mkey& m, const Profile& p,
                        Decoded& d) noexcept {
  const bool asks = signs(d) || !d.bsf.empty() || (d.mask & umr::mask_sig_err) != 0;
  if (!asks) return {};
  const bool for_crypto = m.crypto != nullptr && d.bsf.empty() && (d.mask & umr::mask_sig_err) == 0;
  if (m.signature == nullptr && for_crypto) return {};
  if (m.signature == nullptr) return {Syndrome::mw_bind, "the key was not made to be signed"};
  d.signature = *m.signature;
  if (!d.bsf.empty()) {
    const auto beside = d.crypto_bsf.empty() ? BesideBsf::nothing : BesideBsf::crypto;
    if (const char* why = decode_bsf(d.bsf, beside, p, d.signature))
      return {Syndrome::mw_bind, why};
    if (!keys.has_psv(d.signature.wire, m.pd) || !keys.has_psv(d.signature.mem, m.pd))
      return {Syndrome::mw_bind, "no such PSV in the key's domain"};
  }
  if (signs(d) && !d.signature.set) return {Syndrome::mw_bind, "nothing says how to sign"};
  return {};
}

void write_signature(Mkey& m, const Decoded& d) noexcept {
  if (!d.crypto_bsf.empty()) *m.crypto = d.crypto;
  if (m.crypto != nullptr && (d.mask & umr::mask_bsf_enable) != 0 && !signs(d))
    m.crypto->set = false;
  if (m.signature == nullptr) return;
  if (!d.bsf.empty()) *m.signature = d.signature;
  if ((d.mask & umr::mask_bsf_enable) != 0) m.signature->enabled = signs(d);
  m.signature->on = m.signature->enabled && m.signature->set;
  // Each new count of errors asks for the next one.
  if ((d.mask & umr::mask_sig_err) != 0) m.signature->armed = true;
}

bool write_list(Mkey& m, const Translator& t, const UmrRequest& r, const Decoded& d) noexcept {
  if (d.octowords == 0) return true;
  auto* to = reinterpret_cast<std::byte*>(m.list.get() + d.first);
  uint64_t bytes = uint64_t{d.octowords} * octoword_bytes;
  m.used = std::max(m.used, static_cast<uint32_t>(d.first + d.octowords));
  if (has(d, umr::inline_list)) {
    std::memcpy(to, d.inlined.data(), bytes);
    return true;
  }
  Segment s{d.pointer.addr, bytes, d.pointer.key, false};
  if (gather_bytes(t, {{&s, 1}, {r.pd, r.qpn, prm::mkey::local_read}}, to, bytes).ok()) return true;
  m.free = true;  // the client took the list away while it was read: half of it is no list
  return false;
}

void write_fields(Mkey& m, const Decoded& d) noexcept {
  // The four bits lie side by side here and there.
  constexpr unsigned shift = 15;
  static_assert(umr::mask_access >> shift == (prm::mkey::local_write | prm::mkey::remote_read |
                                              prm::mkey::remote_write | prm::mkey::atomic));
  const auto rights = static_cast<uint8_t>((d.mask & umr::mask_access) >> shift);
  m.rights = static_cast<uint8_t>((m.rights & ~rights) | (d.mk.access_flags & rights));
  if ((d.mask & umr::mask_free) != 0) m.free = (d.mk.free & prm::mkey::free) != 0;
  if ((d.mask & umr::mask_start_addr) != 0) m.start = d.mk.start_addr.host();
  if ((d.mask & umr::mask_len) != 0) {
    m.len = d.mk.len.host();
    m.length64 = d.mk.flags_pd.host() >> 31 != 0;
  }
  if ((d.mask & umr::mask_qpn) != 0) m.qpn = prm::mkey::qpn::get(d.mk);
  if ((d.mask & umr::mask_mkey) != 0) m.key = m.index() << 8 | prm::mkey::tag::get(d.mk);
  if (d.first == 0 && d.octowords > 0 && m.list[0].mkey.host() == prm::repeat_block_op)
    m.only_klms = false;
  if ((d.mask & umr::mask_page_size) != 0) m.log_entity_size = d.mk.log_page_size & 31;
  m.forget_list();
}

}  // namespace

Verdict umr_apply(const KeyTable& keys, const Translator& t, const Profile& p, const UmrRequest& r,
                  UmrChange& change) noexcept {
  Decoded d;
  Mkey* m = keys.at(r.key >> 8);
  if (Verdict v = decode(r, d); !v.ok()) return v;
  if (Verdict v = check_features(p, d); !v.ok()) return v;
  if (Verdict v = check_target(m, r, d); !v.ok()) return v;
  if (Verdict v = check_list_place(*m, p, d); !v.ok()) return v;
  if (Verdict v = check_entries(*m, t, p, r, d); !v.ok()) return v;
  split_bsfs(*m, d);
  if (Verdict v = check_signature(keys, *m, p, d); !v.ok()) return v;
  if (Verdict v = check_crypto(keys, *m, p, d); !v.ok()) return v;
  if (!write_list(*m, t, r, d)) return {Syndrome::local_prot, "the list by pointer cannot be read"};
  write_fields(*m, d);
  write_signature(*m, d);
  change = {m->key, d.octowords, d.mask, m->len, m->free};
  return {};
}

Verdict invalidate_key(const KeyTable& keys, uint32_t key, Pdn pd, uint32_t qpn,
                       Invalidator by) noexcept {
  const bool local = by == Invalidator::owner;
  const auto refused = [local](const Verdict& v) noexcept -> Verdict {
    return {local ? Syndrome::mw_bind : Syndrome::local_access, v.why};
  };
  Mkey* m = keys.at(key >> 8);
  if (m == nullptr) return refused(protection::no_key);
  if (m->key != key) return refused(protection::tag);
  if (m->pd != pd) return refused(protection::pd);
  const KeyOp op = local ? KeyOp::local_inval : KeyOp::remote_inval;
  if (Verdict v = check_state(*m, op); !v.ok()) return v;
  if (m->qpn != prm::mkey::any_qpn && m->qpn != qpn) return refused(protection::qpn);
  m->free = key_rule(kind_of(*m), op).frees;
  return {};
}

}  // namespace kilim::vhca::tpt
