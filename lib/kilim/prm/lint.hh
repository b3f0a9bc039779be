// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Send Work Queue", "UMR Work Request Operation". Checks one send WQE without knowing earlier
// WQEs or keys; constexpr, for templates of WQEs. Untrusted bytes. Pure values, any thread.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/base/units.hh"
#include "kilim/prm/av_seg.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/eth_seg.hh"
#include "kilim/prm/lint_rules.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::inline v1::prm::lint {

// The kind of queue pair decides what follows the control segment. datagram: UD; dynamic: DC.
enum class QueueKind : uint8_t { connected, datagram, xrc, raw_packet, dynamic };
inline constexpr uint8_t queue_kinds = 5;

using Bytes = std::span<const std::byte>;

// A copy of the structure at byte `at` of the WQE, inside which it lies. The bytes may be
// unaligned.
template <typename T>
constexpr T segment_at(Bytes wqe, std::size_t at) noexcept {
  std::array<std::byte, sizeof(T)> raw{};
  for (std::size_t i = 0; i < sizeof(T); i++) raw[i] = wqe[at + i];
  return std::bit_cast<T>(raw);
}

// Byte offsets in a UMR WQE.
constexpr std::size_t umr_ctrl_at = sizeof(CtrlSeg);
constexpr std::size_t mkey_at = umr_ctrl_at + sizeof(UmrCtrlSeg);
constexpr std::size_t list_at = mkey_at + sizeof(MkeyContextSeg);

// Bytes of an Ethernet segment with its inline header; 0: it does not fit.
constexpr std::size_t eth_bytes(Bytes w, std::size_t at) noexcept {
  if (at + sizeof(EthSeg) > w.size()) return 0;
  const auto eth = segment_at<EthSeg>(w, at);
  constexpr uint32_t within = sizeof(eth.inline_hdr_start);
  const uint32_t n = eth.inline_hdr_sz.host() & 0x3ff;
  return sizeof(EthSeg) + round_up(n > within ? n - within : 0, octoword_bytes);
}

// Bytes of the address vector (16 without the bit `extended`) or the XRC segment; 0: has neither.
constexpr std::size_t address_bytes(Bytes w, QueueKind kind) noexcept {
  if (kind == QueueKind::xrc) return sizeof(XrcSeg);
  if (kind != QueueKind::datagram && kind != QueueKind::dynamic) return 0;
  constexpr std::size_t flag_at = sizeof(CtrlSeg) + offsetof(AvSeg, dqp);
  const bool cut = flag_at + sizeof(be32) > w.size();
  return cut || segment_at<be32>(w, flag_at).host() >> 31 != 0 ? sizeof(AvSeg) : short_av_bytes;
}

// Byte offset of the remote address segment, if the opcode has one.
constexpr std::size_t remote_at(Bytes w, QueueKind kind) noexcept {
  return sizeof(CtrlSeg) + address_bytes(w, kind);
}

// What an opcode has between the control segment and the data.
struct Head {
  std::size_t bytes = 0;   // of segments other than the address vector
  bool addressed = false;  // an address vector or XRC segment, on queues that have them
  bool remote = false;     // a remote address segment, included in `bytes`
  bool data = false;       // data segments follow
  bool answer = false;     // the data segments are written by a response
};
constexpr Head head_of(Opcode op) noexcept {
  constexpr std::size_t metadata = 16;  // the MMO metadata segment
  switch (op) {
    case Opcode::send:
    case Opcode::send_imm:
    case Opcode::send_inval:
    case Opcode::enhanced_mpsw:
    case Opcode::tso:
      return {0, true, false, true, false};
    case Opcode::rdma_write:
    case Opcode::rdma_write_imm:
      return {sizeof(RaddrSeg), true, true, true, false};
    case Opcode::rdma_read:
      return {sizeof(RaddrSeg), true, true, true, true};
    case Opcode::atomic_cs:
    case Opcode::atomic_fa:
      return {sizeof(RaddrSeg) + sizeof(AtomicSeg), true, true, true, true};
    case Opcode::mmo:
      return {metadata, false, false, true, false};
    default:
      return {};  // the layout is not known, and is not checked
  }
}

// Byte offset of the first data segment; 0: the opcode has none that are known.
constexpr std::size_t data_at(Bytes w, Opcode op, QueueKind kind) noexcept {
  const Head head = head_of(op);
  if (!head.data) return 0;
  const std::size_t at =
      sizeof(CtrlSeg) + (head.addressed ? address_bytes(w, kind) : 0) + head.bytes;
  if (kind != QueueKind::raw_packet) return at;
  const std::size_t eth = eth_bytes(w, at);
  return at + (eth != 0 ? eth : sizeof(EthSeg));
}

namespace detail {

constexpr std::size_t seg = octoword_bytes;

// Every bit that mkey_mask may have, also those of fields that Kilim does not use: size of the
// list, protection domain, remote invalidation, access mode, local read, small fence, relaxed order
// of writes, sixth bit of the page size, relaxed order of reads. MLX5_MKEY_MASK_* of Linux
// include/linux/mlx5/device.h; the access mode (bit 16) is only in src/wqe.h of MLNX_OFED's
// libmlx5, as MLX5_MKEY_MASK_ACCESS_MODE.
inline constexpr uint64_t defined_mask =
    umr::mask_len | umr::mask_page_size | 1ull << 2 | umr::mask_start_addr | 1ull << 7 | 1ull << 8 |
    umr::mask_sig_err | umr::mask_bsf_enable | umr::mask_mkey | umr::mask_qpn | 1ull << 16 |
    1ull << 17 | umr::mask_access | 1ull << 23 | 1ull << 25 | umr::mask_free | 1ull << 42 |
    1ull << 47;
inline constexpr uint8_t defined_flags = umr::inline_list | umr::check_free | umr::check_not_free |
                                         umr::has_translation_offset | umr::check_qpn;

constexpr void expect_zero(Bytes w, std::size_t at, std::size_t bytes, Findings& f) noexcept {
  for (std::size_t i = at; i < at + bytes; i++) {
    if (w[i] == std::byte{0}) continue;
    f.add(Rule::reserved_bits, i / seg, static_cast<uint64_t>(w[i]));
    return;
  }
}

// Checks the reserved bits of the control segment. Stream and immediate are not checked: UCX 1.13
// (uct_ib_mlx5_set_ctrl_seg without SSE4.2) leaves there what was in the ring before.
constexpr void check_control(const CtrlSeg& c, Findings& f) noexcept {
  if (const uint32_t bits = c.qpn_ds.host() & ctrl::reserved_beside_ds; bits != 0)
    f.add(Rule::reserved_bits, 0, bits);
  if (const unsigned bits = c.fm_ce_se & ctrl::reserved_in_fm_ce_se; bits != 0)
    f.add(Rule::reserved_bits, 0, bits);
}

// Checks the data segments from `at` on; returns the offset behind the last. `answer`: see Head.
constexpr std::size_t check_data(Bytes w, std::size_t at, bool answer, Findings& f) noexcept {
  constexpr uint32_t inline_unused = ~(inline_flag | inline_length_mask);
  const std::size_t first = at;
  uint64_t total = 0;
  while (at + seg <= w.size()) {
    const auto d = segment_at<DataSeg>(w, at);
    const uint32_t count = d.byte_count.host();
    if ((count & inline_flag) == 0) {
      if (count == 0) f.add(Rule::zero_length, at / seg, d.lkey.host());
      total += count;
      at += seg;
      continue;
    }
    if ((count & inline_unused) != 0) f.add(Rule::reserved_bits, at / seg, count & inline_unused);
    if (answer) f.add(Rule::inline_answer, at / seg);
    // The only segment may be inline data of 0 bytes, which makes an empty message (UCX,
    // uct_rc_mlx5_txqp_inline_post). Among others such a segment is a 2 GiB length by mistake.
    const bool alone = at == first && at + seg == w.size();
    if (count == inline_flag && !alone) f.add(Rule::empty_inline, at / seg, d.lkey.host());
    at += round_up((count & inline_length_mask) + sizeof(InlineSeg), seg);
  }
  if (total > max_segment_bytes) f.add(Rule::long_message, total);
  return at;
}

constexpr void check_strided(Bytes w, uint32_t octowords, uint64_t length, bool has_length,
                             Findings& f) noexcept {
  const auto head = segment_at<RepeatBlockSeg>(w, list_at);
  const uint32_t entries = head.num_ent.host();
  if (entries + 1 > octowords) return f.add(Rule::octowords, octowords, entries + 1);
  uint64_t sum = 0;
  for (uint32_t i = 1; i <= entries; i++)
    sum += segment_at<RepeatEntSeg>(w, list_at + i * seg).byte_count.host();
  const uint64_t bytes = head.byte_count.host();
  if (sum != bytes) f.add(Rule::stride_sum, bytes, sum);
  const uint64_t all = bytes * head.repeat_count.host();
  if (has_length && length > all) f.add(Rule::key_too_long, length, all);
}

constexpr void check_list(Bytes w, uint32_t octowords, uint64_t length, bool whole,
                          Findings& f) noexcept {
  const uint32_t key = segment_at<CtrlSeg>(w, 0).imm.host();
  uint64_t sum = 0;
  for (uint32_t i = 0; i < octowords; i++) {
    const auto klm = segment_at<Klm>(w, list_at + i * seg);
    const uint64_t bytes = klm.byte_count.host();
    if (bytes == 0 && klm.mkey.host() == 0) continue;
    if (bytes > umr::max_piece_bytes) f.add(Rule::klm_too_long, i, bytes);
    if (klm.mkey.host() >> 8 == key >> 8) f.add(Rule::self_reference, i, klm.mkey.host());
    sum += bytes == 0 ? umr::max_piece_bytes : bytes;
  }
  if (whole && length > sum) f.add(Rule::key_too_long, length, sum);
}

constexpr void check_pointer(Bytes w, uint32_t octowords, Findings& f) noexcept {
  const auto p = segment_at<DataSeg>(w, list_at);
  if (p.addr.host() % umr::list_alignment != 0) f.add(Rule::pointer_alignment, p.addr.host());
  // The kernel writes the bytes of the list, other software 0; no device is known to read it.
  if (p.byte_count.host() != 0 && p.byte_count.host() != octowords * seg)
    f.add(Rule::pointer_bytes, p.byte_count.host(), uint64_t{octowords} * seg, octowords);
}

// Checks the UMR control segment. The mkey context is not checked: libmlx5 leaves there what was in
// the ring before, in all fields that the mask does not name.
constexpr void check_umr_head(Bytes w, const UmrCtrlSeg& c, Findings& f) noexcept {
  expect_zero(w, umr_ctrl_at + 1, sizeof(c.rsvd0), f);
  // Reserved but for the first word behind the mask, the high bits of the translation offset.
  expect_zero(w, umr_ctrl_at + 20, 28, f);
  if (const unsigned bad = c.flags & ~unsigned{defined_flags}; bad != 0)
    f.add(Rule::umr_flags, c.flags, bad);
  if (const uint64_t bad = c.mkey_mask.host() & ~defined_mask; bad != 0)
    f.add(Rule::mkey_mask, c.mkey_mask.host(), bad);
  const bool patches = (c.flags & umr::has_translation_offset) != 0;
  if (patches && c.translation_offset.host() % 4 != 0)
    f.add(Rule::offset_granule, c.translation_offset.host());
}

constexpr void check_umr(Bytes w, Findings& f) noexcept {
  if (w.size() < list_at) return f.add(Rule::ds_mismatch, w.size() / seg, list_at / seg);
  const auto c = segment_at<UmrCtrlSeg>(w, umr_ctrl_at);
  const auto mk = segment_at<MkeyContextSeg>(w, mkey_at);
  check_umr_head(w, c, f);
  const uint32_t octowords = c.klm_octowords.host();
  const bool inlined = (c.flags & umr::inline_list) != 0;
  const bool patches = (c.flags & umr::has_translation_offset) != 0;
  // Without has_translation_offset this word is bsf_octowords: BSFs that follow the list.
  const uint32_t behind = patches ? 0 : c.translation_offset.host();
  const auto held = static_cast<uint32_t>((w.size() - list_at) / seg);
  if (octowords % 4 != 0) f.add(Rule::klm_padding, octowords, round_up(octowords, 4));
  if (!inlined) {
    const uint32_t wanted = (octowords > 0 ? 1 : 0) + behind;
    if (held != wanted)
      return f.add(Rule::ds_mismatch, list_at / seg + held, list_at / seg + wanted);
    if (octowords > 0) check_pointer(w, octowords, f);
    return;
  }
  if (held != octowords + behind) f.add(Rule::octowords, octowords, held - std::min(held, behind));
  const uint32_t there = octowords < held ? octowords : held;
  if (there == 0) return;
  const bool sets_length =
      (c.mkey_mask.host() & umr::mask_len) != 0 && mk.flags_pd.host() >> 31 == 0;
  // A WQE that writes a part of a list does not show the bytes of the whole key.
  const bool whole = sets_length && !(patches && c.translation_offset.host() != 0);
  if (segment_at<Klm>(w, list_at).mkey.host() == repeat_block_op)
    return check_strided(w, there, mk.len.host(), whole, f);
  check_list(w, there, mk.len.host(), whole, f);
}

// Checks the address vector of a DC WQE: it has all 48 bytes, and reserved bits are 0.
constexpr void check_way(Bytes w, Findings& f) noexcept {
  constexpr uint32_t unused = 0x7f000000;  // between `extended` and the DCT number
  const uint32_t target = segment_at<be32>(w, sizeof(CtrlSeg) + offsetof(AvSeg, dqp)).host();
  if (const uint32_t bits = target & unused; bits != 0) f.add(Rule::reserved_bits, 1, bits);
  if (target >> 31 == 0) return f.add(Rule::short_way, 1, target);
  expect_zero(w, sizeof(CtrlSeg) + offsetof(AvSeg, reserved0), sizeof(AvSeg::reserved0), f);
}

constexpr void check_transfer(Bytes w, Opcode op, QueueKind kind, Findings& f) noexcept {
  const Head head = head_of(op);
  if (!head.data) return;
  std::size_t at = data_at(w, op, kind);
  if (at > w.size()) return f.add(Rule::ds_mismatch, w.size() / seg, at / seg);
  if (head.remote) expect_zero(w, remote_at(w, kind) + offsetof(RaddrSeg, reserved), 4, f);
  if (kind == QueueKind::dynamic && head.addressed) check_way(w, f);
  if (op == Opcode::rdma_read && w.size() > max_read_ds * seg)
    f.add(Rule::long_read, w.size() / seg, max_read_ds);
  at = check_data(w, at, head.answer, f);
  if (at != w.size()) f.add(Rule::ds_mismatch, w.size() / seg, (at + seg - 1) / seg);
}

}  // namespace detail

// Checks one send WQE and returns what is wrong with it. `wqe`: as many octowords as its ds field
// says, or all that there are if ds is more; the rest is ignored.
constexpr Findings check_wqe(Bytes wqe, QueueKind kind = QueueKind::connected) noexcept {
  Findings f;
  if (wqe.size() < sizeof(CtrlSeg)) {
    f.add(Rule::ds_mismatch, wqe.size() / octoword_bytes, 1);
    return f;
  }
  const auto ctrl = segment_at<CtrlSeg>(wqe, 0);
  const uint32_t ds = ctrl::ds::get(ctrl);
  const auto opcode = static_cast<uint8_t>(ctrl::opcode::get(ctrl));
  detail::check_control(ctrl, f);
  if (ds == 0 || ds * octoword_bytes > wqe.size()) {
    f.add(Rule::ds_mismatch, ds, wqe.size() / octoword_bytes);
    return f;
  }
  wqe = wqe.first(ds * octoword_bytes);
  if (opcode_name(opcode) == nullptr) {
    f.add(Rule::undefined_opcode, opcode);
  } else if (static_cast<Opcode>(opcode) == Opcode::umr) {
    detail::check_umr(wqe, f);
  } else {
    detail::check_transfer(wqe, static_cast<Opcode>(opcode), kind, f);
  }
  return f;
}

}  // namespace kilim::inline v1::prm::lint
