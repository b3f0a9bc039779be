// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Byte Stream Format", "Protection Signature Value". Binds a key to a view whose blocks carry
// signatures (T10-DIF or a CRC): which ones lie in memory, which travel on the wire, what the
// device checks. Users of the key address bytes as they are on the wire. Read with
// doc/guides/umr.md. Owner: the queue's worker. Never allocates, blocks or logs.
#pragma once

#include <cstdint>
#include <cstring>

#include "kilim/detail/mr/mkey_source.hh"
#include "kilim/detail/umr/umr_wqe.hh"
#include "kilim/prm/bsf_seg.hh"
#include "kilim/prm/cqe.hh"

namespace kilim::inline v1::umr {

// What is behind each block: nothing, a T10-DIF whose guard is a CRC-16 or an IP checksum, or a
// CRC.
enum class SignKind : uint8_t { none, t10dif_crc, t10dif_checksum, crc32, crc32c, crc64_xp10 };
// Bytes of data in a block.
enum class SignBlock : uint8_t {
  bytes_512 = prm::bsf::block_512,
  bytes_520 = prm::bsf::block_520,
  bytes_4048 = prm::bsf::block_4048,
  bytes_4096 = prm::bsf::block_4096,
  bytes_4160 = prm::bsf::block_4160,
};

// When the device skips the check of a T10-DIF.
enum class SignEscape : uint8_t {
  never = 0,
  app = prm::bsf::app_escape,          // its application tag is all ones
  app_ref = prm::bsf::app_ref_escape,  // and its reference tag too
};

// How blocks are signed in one place: in memory, or on the wire.
struct SignDomain {
  SignKind kind = SignKind::none;
  SignBlock block = SignBlock::bytes_512;
  bool ones = true;  // the checksum starts with all ones, else with 0
  // T10-DIF:
  uint16_t app_tag = 0;
  uint32_t ref_tag = 0;
  bool count_ref = false;  // the reference tag counts blocks
  SignEscape escape = SignEscape::never;

  // True: the signature is a T10-DIF.
  [[nodiscard]] constexpr bool dif() const noexcept {
    return kind == SignKind::t10dif_crc || kind == SignKind::t10dif_checksum;
  }
  friend constexpr bool operator==(const SignDomain&, const SignDomain&) noexcept = default;
};

// A mask of a signature's bytes; bit 7 is the most significant byte.
struct SignMask {
  static constexpr uint8_t guard = prm::bsf::guard_bytes;
  static constexpr uint8_t app_tag = prm::bsf::app_tag_bytes;
  static constexpr uint8_t ref_tag = prm::bsf::ref_tag_bytes;
  static constexpr uint8_t crc32 = guard | app_tag;
  static constexpr uint8_t all = 0xff;
};

// How a key's blocks are signed in memory and on the wire, and what the device does in between.
struct SignRule {
  SignDomain memory, wire;
  uint8_t check =
      SignMask::all;      // bytes checked on arrival: from memory when sending, else from the wire
  bool has_copy = false;  // `copy` counts; else every byte that both domains have in common
  uint8_t copy = 0;       // bytes copied from the arriving signature instead of computed
};

namespace detail {
constexpr bool same_blocks(const SignDomain& a, const SignDomain& b) noexcept {
  return a.kind != SignKind::none && a.block == b.block && (a.dif() ? b.dif() : a.kind == b.kind);
}
constexpr uint8_t same_bytes(const SignDomain& a, const SignDomain& b) noexcept {
  if (!a.dif()) return a.kind == SignKind::crc64_xp10 ? SignMask::all : SignMask::crc32;
  return static_cast<uint8_t>((a.kind == b.kind && a.ones == b.ones ? SignMask::guard : 0) |
                              (a.app_tag == b.app_tag ? SignMask::app_tag : 0) |
                              (a.ref_tag == b.ref_tag ? SignMask::ref_tag : 0));
}

constexpr uint32_t format_of(const SignDomain& d) noexcept {
  uint32_t base = 0;
  if (d.kind == SignKind::crc32) base = prm::bsf::crc32;
  if (d.kind == SignKind::crc32c) base = prm::bsf::crc32c;
  if (d.kind == SignKind::crc64_xp10) base = prm::bsf::crc64_xp10;
  if (base == 0) return 0;
  return base | prm::bsf::repeat | (d.ones ? 0u : uint32_t{prm::bsf::zero_seed});
}

constexpr prm::BsfInline inline_of(const SignDomain& d) noexcept {
  prm::BsfInline in{};
  if (!d.dif()) return in;
  in.valid_refresh = be16{prm::bsf::valid | prm::bsf::refresh};
  in.app_tag = be16{d.app_tag};
  in.ref_tag = be32{d.ref_tag};
  in.guard_type = d.kind == SignKind::t10dif_crc ? prm::bsf::guard_crc : prm::bsf::guard_checksum;
  in.repeat_seed =
      static_cast<uint8_t>(prm::bsf::repeat_block | (d.ones ? prm::bsf::seed_ones : 0));
  in.checks = static_cast<uint8_t>((d.count_ref ? prm::bsf::count_ref_tag : 0) |
                                   static_cast<uint8_t>(d.escape));
  in.app_mask = be16{0xffff};
  return in;
}

// The transient signature that SET_PSV gives the domain.
constexpr uint64_t first_value(const SignDomain& d) noexcept {
  if (d.dif()) return (d.ones ? uint64_t{0xffff} << 48 : 0) | uint64_t{d.app_tag} << 32 | d.ref_tag;
  if (!d.ones) return 0;
  return d.kind == SignKind::crc64_xp10 ? ~uint64_t{0} : uint64_t{0xffffffff} << 32;
}
}  // namespace detail

// A key made with mr::MkeyRequest::sign, and the counter of its signature errors.
struct SignedKey {
  uint32_t memory_psv = 0, wire_psv = 0;
  uint8_t errors = 1;
  bool arm = true;  // the next UMR enables reporting of the next error

  static constexpr SignedKey of(const mr::IndirectMkey& key) noexcept {
    return {key.memory_psv, key.wire_psv};
  }
  // Called when an error of the key has been read.
  constexpr void note_error() noexcept {
    errors++;
    arm = true;
  }
};

// The BSF of a rule, as the UMR carries it.
constexpr prm::Bsf bsf_of(const SignRule& r, const SignedKey& key) noexcept {
  prm::Bsf b{};
  const bool same = detail::same_blocks(r.memory, r.wire);
  b.size_sbs =
      static_cast<uint8_t>(prm::bsf::size_with_inline | (same ? prm::bsf::same_blocks : 0));
  b.check_mask = r.check;
  b.raw_data_size = be32{prm::bsf::any_raw_size};
  if (r.memory.kind != SignKind::none) {
    b.mem_block = static_cast<uint8_t>(r.memory.block);
    b.mem_format = be32{detail::format_of(r.memory) << 24 | key.memory_psv};
    b.mem = detail::inline_of(r.memory);
  }
  if (r.wire.kind != SignKind::none) {
    b.wire_block = static_cast<uint8_t>(r.wire.block);
    if (same) b.wire_block = r.has_copy ? r.copy : detail::same_bytes(r.memory, r.wire);
    b.wire_format = be32{detail::format_of(r.wire) << 24 | key.wire_psv};
    b.wire = detail::inline_of(r.wire);
  }
  return b;
}

// Entries of the longest inline list beside a BSF.
inline constexpr uint32_t max_signed_klms = max_inline_klms - prm::bsf::octowords;

namespace detail {
[[gnu::always_inline]] inline void set_psv(queue::WqeCursor& c, uint32_t psv, const SignDomain& d,
                                           const UmrWr& wr) noexcept {
  c.control(prm::Opcode::set_psv, Octowords{2}, wr.flags, 0);
  store_words(c.line() + 16, be64{uint64_t{psv} << 32}, be64{first_value(d)});
  queue::store_zero(c.line() + 32);
  queue::store_zero(c.line() + 48);
  c.fence_next_user();
  c.advance(1, wr.id);
}

constexpr uint32_t signed_flags(const SignedKey& k) noexcept {
  return prm::mkey::bsf_enable | (k.arm && (k.errors & 1) != 0 ? prm::mkey::sig_err_count : 0);
}
}  // namespace detail

// How a key is to be signed.
struct Signing {
  const SignRule& rule;
  SignedKey& key;

  [[nodiscard]] bool memory() const noexcept { return rule.memory.kind != SignKind::none; }
  [[nodiscard]] bool wire() const noexcept { return rule.wire.kind != SignKind::none; }
};

namespace detail {
[[gnu::always_inline]] inline Outcome check_signed(const queue::WqeCursor& c, const ListRequest& r,
                                                   const View& view, const Signing& s,
                                                   uint32_t wqebbs) noexcept {
  if (!s.memory() && !s.wire()) return {Refusal::unsigned_rule, 0, 0};
  if (s.rule.has_copy && !same_blocks(s.rule.memory, s.rule.wire))
    return {Refusal::copies_nothing, s.rule.copy, 0};
  if (view.count > r.max_entries) return {Refusal::over_key, view.count, r.max_entries};
  if (view.count > max_signed_klms) return {Refusal::too_many_inline, view.count, max_signed_klms};
  return check_inline(c, r, view.count, wqebbs + (s.memory() ? 1 : 0) + (s.wire() ? 1 : 0));
}

// Appends a SET_PSV for each signed domain behind the UMR; the last one has flags and id of `wr`.
[[gnu::always_inline]] inline void append_psvs(queue::WqeCursor& c, const Signing& s,
                                               const UmrWr& wr) noexcept {
  constexpr auto fence = prm::ctrl::fence_mask;
  const UmrWr last{.id = wr.id, .flags = static_cast<uint8_t>(wr.flags & ~fence)};
  const UmrWr quiet{.id = wr.id, .flags = prm::ctrl::with_mode(last.flags, queue::WrFlags::none)};
  if (s.memory()) set_psv(c, s.key.memory_psv, s.rule.memory, s.wire() ? quiet : last);
  if (s.wire()) set_psv(c, s.key.wire_psv, s.rule.wire, last);
}
}  // namespace detail

// Appends a UMR that gives the key the view with signed blocks, and a SET_PSV for each signed
// domain; flags and wr id are those of the last WQE. The key is usable as after umr_list().
// Refused: unsigned_rule, copies_nothing, and the reasons of umr_list().
[[gnu::always_inline]] inline Outcome umr_signed(queue::WqeCursor& c, const ListRequest& r,
                                                 const View& view, const Signing& s,
                                                 const UmrWr& wr) noexcept {
  const uint32_t octowords = klm_octowords(view.count);
  const uint32_t wqebbs = 3 + octowords / klms_per_line;
  if (const Outcome o = detail::check_signed(c, r, view, s, wqebbs); !o.ok()) [[unlikely]]
    return o.why == Refusal::empty ? why_empty(view, o.limit) : o;
  detail::WrapBuffer wrap;
  std::byte* const wqe = detail::place(c, wqebbs, wrap);
  store_klm_lines(wqe + 2 * wqebb_bytes, view.pieces, view.count);
  const prm::Bsf bsf = bsf_of(s.rule, s.key);
  std::memcpy(wqe + std::size_t{wqebbs - 1} * wqebb_bytes, &bsf, sizeof(bsf));
  detail::store_umr_ctrl(
      wqe, {.flags = static_cast<uint8_t>(prm::umr::inline_list | r.checks),
            .octowords = octowords,
            .mask = r.mask() | prm::umr::mask_bsf_enable | (s.key.arm ? prm::umr::mask_sig_err : 0),
            .offset = prm::bsf::octowords});
  detail::MkeyWords words = detail::mkey_words(r, view.length);
  words.flags = detail::signed_flags(s.key);
  detail::store_mkey(wqe + wqebb_bytes, words);
  detail::put(c, wqe, wqebbs);
  c.control(prm::Opcode::umr, Octowords{umr_head_octowords + octowords + prm::bsf::octowords},
            prm::ctrl::with_mode(wr.flags, queue::WrFlags::none), r.key.value());
  c.fence_next_user();
  c.advance(wqebbs, wr.id);
  s.key.arm = false;
  detail::append_psvs(c, s, wr);
  return {};
}

// A signature error, as its CQE reports it.
struct SignError {
  enum class Part : uint8_t { guard, app_tag, ref_tag };
  uint32_t key = 0;  // with its tag at that time
  Part part = Part::guard;
  bool on_wire = false;   // the block came from the wire, else from memory
  uint64_t expected = 0;  // the value in the block
  uint64_t actual = 0;    // the value computed from the data or given by the rule
  uint64_t offset = 0;    // bytes from the start of its domain to the block
};

// Decodes a CQE with opcode sig_err, before it is consumed. The rule's SignKind gives the guard's
// width.
inline SignError sign_error(const prm::Cqe& cqe, const SignRule& rule) noexcept {
  const auto& e = reinterpret_cast<const prm::SigErrCqe&>(cqe);
  SignError s;
  s.key = e.mkey.host();
  s.on_wire = e.domain == prm::sig_err::wire;
  s.offset = e.offset.host();
  s.expected = uint64_t{e.expected_high.host()} << 32 | e.expected_low.host();
  s.actual = uint64_t{e.actual_high.host()} << 32 | e.actual_low.host();
  const SignDomain& d = s.on_wire ? rule.wire : rule.memory;
  unsigned shift = d.dif() ? 48 : d.kind == SignKind::crc64_xp10 ? 0 : 32;
  uint64_t mask = ~uint64_t{0};
  if ((e.syndrome.host() & prm::sig_err::guard) == 0) {
    const bool ref = (e.syndrome.host() & prm::sig_err::ref_tag) != 0;
    s.part = ref ? SignError::Part::ref_tag : SignError::Part::app_tag;
    shift = ref ? 0 : 32;
    mask = ref ? 0xffffffff : 0xffff;
  }
  s.expected = s.expected >> shift & mask;
  s.actual = s.actual >> shift & mask;
  return s;
}

}  // namespace kilim::inline v1::umr
