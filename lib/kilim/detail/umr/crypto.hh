// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Byte Stream Format" of type crypto. Binds a key to a view whose bytes are encrypted with
// AES-XTS, in memory or on the wire; with signatures where the key was made for both. Users of the
// key address bytes as they are on the wire. Read with doc/guides/umr.md. Owner: the queue's
// worker. Never allocates, blocks or logs.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "kilim/detail/umr/signature.hh"
#include "kilim/detail/umr/umr_wqe.hh"
#include "kilim/prm/bsf_seg.hh"
#include "kilim/prm/crypto_seg.hh"

namespace kilim::inline v1::umr {

// Bytes of a data unit: the tweak grows by one behind each.
enum class CryptoUnit : uint8_t {
  bytes_512 = prm::bsf::block_512,
  bytes_520 = prm::bsf::block_520,
  bytes_4048 = prm::bsf::block_4048,
  bytes_4096 = prm::bsf::block_4096,
  bytes_4160 = prm::bsf::block_4160,
  mib_1 = prm::crypto::unit_1_mib,
};

// Which of the two holds the encrypted bytes: what is sent is encrypted, or decrypted, on its way.
enum class CryptoPlace : uint8_t { wire, memory };
// Whether what is sent is signed before it is encrypted or decrypted, or afterwards. Without
// signatures both are the same.
enum class CryptoOrder : uint8_t { sign_first, sign_last };

// How a key's bytes are encrypted. Data are whole units; of the last one whole blocks of 16 bytes
// are enough, if the rest of it has as many at least.
struct CryptoRule {
  uint32_t dek = 0;  // number of the encryption key's object, of the same protection domain
  CryptoPlace encrypted = CryptoPlace::wire;
  CryptoOrder order = CryptoOrder::sign_first;
  CryptoUnit unit = CryptoUnit::bytes_512;
  // The first unit's number, its lowest byte first; turned over where the device wants it so
  // (hca_cap::aes_xts_multi_block_be_tweak).
  std::array<uint8_t, 16> tweak{};
  bool big_endian_tweak = false;
  std::array<uint8_t, 8> keytag{};  // that of the encryption key, if it was made with one
};

namespace detail {
// The device cannot do a raw order with signatures in both domains.
constexpr uint8_t order_of(const CryptoRule& r) noexcept {
  const bool last = r.order == CryptoOrder::sign_last;
  if (r.encrypted == CryptoPlace::wire)
    return last ? prm::crypto::raw_wire : prm::crypto::wire_signature;
  return last ? prm::crypto::memory_signature : prm::crypto::raw_memory;
}
}  // namespace detail

// The BSF of a rule, as the UMR carries it: alone, or behind that of signatures.
constexpr prm::CryptoBsf crypto_bsf_of(const CryptoRule& r, bool with_signature) noexcept {
  prm::CryptoBsf b{};
  b.size_type = static_cast<uint8_t>(
      (with_signature ? prm::crypto::with_signature : prm::bsf::size_with_inline) |
      prm::crypto::type);
  b.order = detail::order_of(r);
  b.raw_data_size = be32{prm::bsf::any_raw_size};
  b.unit = static_cast<uint8_t>(r.unit);
  for (std::size_t i = 0; i < r.tweak.size(); i++)
    b.tweak[i] = r.big_endian_tweak ? r.tweak[r.tweak.size() - 1 - i] : r.tweak[i];
  b.dek = be32{r.dek & 0xffffff};
  for (std::size_t i = 0; i < r.keytag.size(); i++) b.keytag[i] = r.keytag[i];
  return b;
}

// Entries of the longest inline list beside the BSF, and beside both.
inline constexpr uint32_t max_crypto_klms = max_inline_klms - prm::crypto::octowords;
inline constexpr uint32_t max_signed_crypto_klms = max_signed_klms - prm::crypto::octowords;

namespace detail {
// The BSFs of a UMR; `sign` is null where the key is encrypted only.
struct CryptoWords {
  const CryptoRule& rule;
  const Signing* sign;
  [[nodiscard]] uint32_t octowords() const noexcept {
    return prm::crypto::octowords + (sign != nullptr ? prm::bsf::octowords : 0);
  }
};

[[gnu::always_inline]] inline void append_crypto(queue::WqeCursor& c, const ListRequest& r,
                                                 const View& view, const CryptoWords& words,
                                                 const UmrWr& wr) noexcept {
  const uint32_t octowords = klm_octowords(view.count);
  const uint32_t head = 2 + octowords / klms_per_line;
  const uint32_t wqebbs = head + words.octowords() / klms_per_line;
  const bool arms = words.sign != nullptr && words.sign->key.arm;
  WrapBuffer wrap;
  std::byte* const wqe = place(c, wqebbs, wrap);
  std::byte* bsf = wqe + std::size_t{head} * wqebb_bytes;
  store_klm_lines(wqe + 2 * wqebb_bytes, view.pieces, view.count);
  MkeyWords mkey = mkey_words(r, view.length);
  mkey.flags = prm::mkey::bsf_enable;
  if (words.sign != nullptr) {
    prm::Bsf b = bsf_of(words.sign->rule, words.sign->key);
    b.size_sbs = static_cast<uint8_t>(b.size_sbs | prm::crypto::with_signature);
    std::memcpy(bsf, &b, sizeof(b));
    bsf += wqebb_bytes;
    mkey.flags = signed_flags(words.sign->key);
  }
  const prm::CryptoBsf b = crypto_bsf_of(words.rule, words.sign != nullptr);
  std::memcpy(bsf, &b, sizeof(b));
  store_umr_ctrl(
      wqe, {.flags = static_cast<uint8_t>(prm::umr::inline_list | r.checks),
            .octowords = octowords,
            .mask = r.mask() | prm::umr::mask_bsf_enable | (arms ? prm::umr::mask_sig_err : 0),
            .offset = words.octowords()});
  store_mkey(wqe + wqebb_bytes, mkey);
  put(c, wqe, wqebbs);
  c.control(prm::Opcode::umr, Octowords{umr_head_octowords + octowords + words.octowords()},
            wr.flags, r.key.value());
  c.fence_next_user();
  c.advance(wqebbs, wr.id);
}

[[gnu::always_inline]] inline Outcome check_signed_crypto(const queue::WqeCursor& c,
                                                          const ListRequest& r, const View& view,
                                                          const CryptoWords& words) noexcept {
  const bool raw = order_of(words.rule) >= prm::crypto::raw_wire;
  if (raw && words.sign->memory() && words.sign->wire()) return {Refusal::raw_crypto, 0, 0};
  if (view.count > max_signed_crypto_klms && view.count <= r.max_entries)
    return {Refusal::too_many_inline, view.count, max_signed_crypto_klms};
  return check_signed(c, r, view, *words.sign,
                      2 + (klm_octowords(view.count) + words.octowords()) / klms_per_line);
}
}  // namespace detail

// Appends a UMR that gives the key, made with mr::MkeyRequest::encrypt, the view with encrypted
// bytes. The key is usable as after umr_list(). Refused: the reasons of umr_list().
[[gnu::always_inline]] inline Outcome umr_crypto(queue::WqeCursor& c, const ListRequest& r,
                                                 const View& view, const CryptoRule& rule,
                                                 const UmrWr& wr) noexcept {
  const detail::CryptoWords words{rule, nullptr};
  if (view.count > max_crypto_klms && view.count <= r.max_entries) [[unlikely]]
    return {Refusal::too_many_inline, view.count, max_crypto_klms};
  const uint32_t wqebbs = 2 + (klm_octowords(view.count) + words.octowords()) / klms_per_line;
  if (const Outcome o = check_inline(c, r, view.count, wqebbs); !o.ok()) [[unlikely]]
    return o.why == Refusal::empty ? why_empty(view, o.limit) : o;
  detail::append_crypto(c, r, view, words, wr);
  return {};
}

// Encrypts signed blocks, for a key that was made for both, with a SET_PSV for each signed domain
// as in umr_signed(). Refused: raw_crypto, and the reasons of umr_signed().
// NOLINTNEXTLINE(readability-function-size): the parameters of umr_signed(), and the rule
[[gnu::always_inline]] inline Outcome umr_signed_crypto(queue::WqeCursor& c, const ListRequest& r,
                                                        const View& view, const Signing& s,
                                                        const CryptoRule& rule,
                                                        const UmrWr& wr) noexcept {
  const detail::CryptoWords words{rule, &s};
  if (const Outcome o = detail::check_signed_crypto(c, r, view, words); !o.ok()) [[unlikely]]
    return o.why == Refusal::empty ? why_empty(view, o.limit) : o;
  UmrWr first = wr;
  first.flags = prm::ctrl::with_mode(wr.flags, queue::WrFlags::none);
  detail::append_crypto(c, r, view, words, first);
  s.key.arm = false;
  detail::append_psvs(c, s, wr);
  return {};
}

}  // namespace kilim::inline v1::umr
