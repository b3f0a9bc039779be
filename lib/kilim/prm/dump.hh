// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Send Work Queue". Prints a send WQE as text, segment by segment, and a linter's finding as
// a sentence with its numbers. The bytes are untrusted. Never allocates. Any thread.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kilim/prm/lint.hh"
#include "kilim/prm/text.hh"

namespace kilim::inline v1::prm {

namespace detail {

inline void dump_control(Text& t, const CtrlSeg& c) noexcept {
  const char* name = opcode_name(static_cast<uint8_t>(ctrl::opcode::get(c)));
  t.put(name != nullptr ? name : "undefined opcode");
  if (name == nullptr) t.put(' ').hex(ctrl::opcode::get(c));
  t.put(" index ").dec(ctrl::wqe_index::get(c));
  t.put(" queue ").hex(ctrl::qpn::get(c)).put(" ds ").dec(ctrl::ds::get(c));
  t.put(" fence ").dec(c.fm_ce_se >> 5u);
  constexpr const char* modes[] = {"", " first error only", " signalled", " signalled with event"};
  t.put(modes[ctrl::completion_mode(c.fm_ce_se) >> 2]);
  if ((c.fm_ce_se & ctrl::solicited) != 0) t.put(" solicited");
  t.put(" imm ").hex(c.imm.host());
}

inline void dump_klms(Text& t, lint::Bytes w, std::size_t at) noexcept {
  for (uint32_t i = 0; at + sizeof(Klm) <= w.size(); at += sizeof(Klm), i++) {
    const auto k = lint::segment_at<Klm>(w, at);
    const bool padding = k.byte_count.host() == 0 && k.mkey.host() == 0 && k.address.host() == 0;
    if (padding) continue;
    t.put("; [").dec(i).put("] ").hex(k.byte_count.host()).put(" bytes key ").hex(k.mkey.host());
    t.put(" at ").hex(k.address.host());
  }
}

inline void dump_umr(Text& t, lint::Bytes w) noexcept {
  if (w.size() < lint::list_at) return;
  const auto c = lint::segment_at<UmrCtrlSeg>(w, lint::umr_ctrl_at);
  const auto m = lint::segment_at<MkeyContextSeg>(w, lint::mkey_at);
  t.put("; umr flags ").hex(c.flags).put(" octowords ").dec(c.klm_octowords.host());
  t.put(" offset ").dec(c.translation_offset.host()).put(" mask ").hex(c.mkey_mask.host());
  t.put("; key free ").hex(m.free).put(" access ").hex(m.access_flags);
  t.put(" qpn_tag ").hex(m.qpn_mkey.host()).put(" start ").hex(m.start_addr.host());
  t.put(" length ").hex(m.len.host());
  dump_klms(t, w, lint::list_at);
}

inline void dump_data(Text& t, lint::Bytes w, std::size_t at) noexcept {
  while (at + sizeof(DataSeg) <= w.size()) {
    const auto d = lint::segment_at<DataSeg>(w, at);
    const uint32_t n = d.byte_count.host();
    if ((n & inline_flag) != 0) {
      t.put("; inline ").dec(n & inline_length_mask).put(" bytes");
      at += round_up((n & inline_length_mask) + sizeof(InlineSeg), octoword_bytes);
      continue;
    }
    t.put("; ").hex(n).put(" bytes key ").hex(d.lkey.host()).put(" at ").hex(d.addr.host());
    at += sizeof(DataSeg);
  }
}

inline void dump_hex(Text& t, std::span<const uint8_t> bytes) noexcept {
  constexpr std::string_view digits = "0123456789abcdef";
  for (const uint8_t byte : bytes) t.put(digits[byte >> 4]).put(digits[byte & 15]);
}

// The address vector of a UD or DC WQE. A short one ends before the MAC, so it is copied to a whole
// one of zeroes first.
inline void dump_av(Text& t, lint::Bytes w, bool dynamic) noexcept {
  const std::size_t bytes = w.size() - sizeof(CtrlSeg);
  std::array<std::byte, sizeof(AvSeg)> padded{};
  std::copy_n(w.begin() + sizeof(CtrlSeg), std::min(bytes, padded.size()), padded.begin());
  const auto to = std::bit_cast<AvSeg>(padded);
  const bool whole = av::extended::get(to) != 0;
  t.put(dynamic ? "; to target " : "; to queue ").hex(av::qpn::get(to));
  t.put(" key ").hex(dynamic ? av::dc_key(to) : to.qkey.host());
  t.put(" sl ").dec(to.stat_rate_sl & 15).put(" rlid ").hex(to.rlid.host());
  if (!whole) {
    t.put(" short");
  } else {
    t.put(" at GID ");
    dump_hex(t, to.rgid);
    t.put(" from ").dec(av::gid_index::get(to)).put(" MAC ");
    dump_hex(t, to.rmac);
    t.put(" hops ").dec(to.hop_limit).put(" class ").hex(to.tclass);
    t.put(" flow ").hex(av::flow_label::get(to));
  }
  if (dynamic) t.put(" stream ").dec(ctrl::stream_of(lint::segment_at<CtrlSeg>(w, 0)));
}

inline void dump_way(Text& t, lint::Bytes w, lint::QueueKind kind) noexcept {
  const std::size_t bytes = lint::address_bytes(w, kind);
  if (bytes == 0 || w.size() < sizeof(CtrlSeg) + bytes) return;
  if (kind != lint::QueueKind::xrc) return dump_av(t, w, kind == lint::QueueKind::dynamic);
  const auto to = lint::segment_at<XrcSeg>(w, sizeof(CtrlSeg));
  t.put("; to shared queue ").hex(to.srqn.host());
}

inline void dump_transfer(Text& t, lint::Bytes w, Opcode op, lint::QueueKind kind) noexcept {
  const lint::Head head = lint::head_of(op);
  if (!head.data) return;
  if (head.addressed) dump_way(t, w, kind);
  const std::size_t remote = lint::remote_at(w, kind);
  if (head.remote && remote + sizeof(RaddrSeg) <= w.size()) {
    const auto r = lint::segment_at<RaddrSeg>(w, remote);
    t.put("; remote key ").hex(r.rkey.host()).put(" at ").hex(r.raddr.host());
  }
  dump_data(t, w, lint::data_at(w, op, kind));
}

}  // namespace detail

// Appends the WQE's segments to `t`, separated by "; ". `wqe`: as for lint::check_wqe(); `kind`
// says what follows the control segment.
inline void dump_wqe(Text& t, lint::Bytes wqe,
                     lint::QueueKind kind = lint::QueueKind::connected) noexcept {
  if (wqe.size() < sizeof(CtrlSeg)) {
    t.put("less than a control segment");
    return;
  }
  const auto c = lint::segment_at<CtrlSeg>(wqe, 0);
  const std::size_t bytes = std::size_t{ctrl::ds::get(c)} * octoword_bytes;
  if (bytes < wqe.size()) wqe = wqe.first(bytes < sizeof(c) ? sizeof(c) : bytes);
  detail::dump_control(t, c);
  const auto op = static_cast<Opcode>(ctrl::opcode::get(c));
  if (op == Opcode::umr) return detail::dump_umr(t, wqe);
  detail::dump_transfer(t, wqe, op, kind);
}

// Appends a finding as "unfenced-key: a key is used ... (key 0x...)": the rule's name, its sentence
// and the finding's numbers.
inline void explain_finding(Text& t, const lint::Finding& f) noexcept {
  const lint::RuleRow& row = lint::row_of(f.rule);
  t.put(row.name).put(": ").put(row.sentence).put(" (");
  t.fill(row.numbers, f.numbers).put(')');
}

}  // namespace kilim::inline v1::prm
