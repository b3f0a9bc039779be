// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Send Work Queue", "UMR Work Request Operation". The rules of the WQE linters, a row each: a
// name, the syndrome with which a strict virtual device completes the WQE, and sentences for
// people. Pure values, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kilim/prm/syndrome.hh"

namespace kilim::inline v1::prm::lint {

enum class Rule : uint8_t {
  // About one WQE alone (prm/lint.hh).
  reserved_bits,
  ds_mismatch,
  undefined_opcode,
  octowords,
  klm_padding,
  umr_flags,
  mkey_mask,
  offset_granule,
  pointer_alignment,
  pointer_bytes,
  klm_too_long,
  key_too_long,
  stride_sum,
  self_reference,
  zero_length,
  inline_answer,
  short_way,
  long_read,
  long_message,
  empty_inline,
  // About a WQE and others: found by linters that see the queue and its keys (diag/follow.hh, and
  // vhca/lint in the virtual device).
  unfenced_key,
  unfenced_umr,
  early_key,
  key_in_flight,
  sq_overrun,
  cq_overrun,
  changed_wqe,
  unmapped_region,
  recv_link,
  rq_overrun,
  wire_key,
  wire_in_flight,
};
inline constexpr std::size_t rules = 32;

struct RuleRow {
  Rule rule;
  const char* name;
  Syndrome syndrome;
  const char* sentence;  // without quotes: the journal writes it into JSON
  const char* numbers;   // {i} and {id} stand for the finding's i-th number, in hex and decimal
};

// clang-format off
inline constexpr RuleRow rule_rows[] = {
    {Rule::reserved_bits, "reserved-bits", Syndrome::local_qp_op,
     "a bit is set that the manual reserves",
     "octoword {0d} has {1} where zeroes belong"},
    {Rule::ds_mismatch, "ds-mismatch", Syndrome::local_qp_op,
     "the ds field and the segments of the WQE disagree",
     "ds says {0d} octowords, the segments take {1d}"},
    {Rule::undefined_opcode, "undefined-opcode", Syndrome::local_qp_op,
     "the manual defines no such opcode",
     "opcode {0}"},
    {Rule::octowords, "octowords", Syndrome::local_qp_op,
     "klm_octowords and the list that lies in the WQE disagree",
     "klm_octowords says {0d}, the WQE holds {1d}"},
    {Rule::klm_padding, "klm-padding", Syndrome::mw_bind,
     "a list is not padded to whole granules of four entries",
     "the list has {0d} octowords: pad it with zeroes to {1d}"},
    {Rule::umr_flags, "umr-flags", Syndrome::mw_bind,
     "the UMR control segment has a flag that does not exist",
     "flags are {0}, of which {1} mean nothing"},
    {Rule::mkey_mask, "mkey-mask", Syndrome::mw_bind,
     "the mkey_mask has a bit that names no field; bits of the flags byte do not belong there",
     "the mask is {0}, of which {1} name nothing"},
    {Rule::offset_granule, "offset-granule", Syndrome::mw_bind,
     "a list is patched at a place that is no granule of four entries",
     "translation_offset is {0d}"},
    {Rule::pointer_alignment, "pointer-alignment", Syndrome::mw_bind,
     "a list by pointer does not lie on 2048 bytes",
     "it lies at {0}"},
    {Rule::pointer_bytes, "pointer-bytes", Syndrome::local_qp_op,
     "the pointer to a list counts something else than the bytes of the list",
     "it says {0d}, {2d} entries are {1d} bytes"},
    {Rule::klm_too_long, "klm-too-long", Syndrome::mw_bind,
     "an entry of a list is longer than the 2 GiB that one entry spans",
     "entry {0d} has {1} bytes"},
    {Rule::key_too_long, "key-too-long", Syndrome::mw_bind,
     "the key is longer than its list: what lies behind the last entry cannot be reached",
     "the length is {0d}, the entries hold {1d} bytes"},
    {Rule::stride_sum, "stride-sum", Syndrome::mw_bind,
     "one repetition of a strided list is not as long as its entries together; lengths and strides have 16 bits",
     "the repetition has {0d} bytes, its entries {1d}"},
    {Rule::self_reference, "self-reference", Syndrome::mw_bind,
     "the list of a key names the key itself",
     "entry {0d} names key {1}"},
    {Rule::zero_length, "zero-length", Syndrome::local_length,
     "a segment of length 0 stands for 2 GiB: empty pieces have to be left out",
     "octoword {0d}, key {1}"},
    {Rule::inline_answer, "inline-answer", Syndrome::local_qp_op,
     "the answer of a READ or an atomic cannot go into the WQE",
     "octoword {0d} is inline data"},
    {Rule::short_way, "short-way", Syndrome::local_qp_op,
     "the way to a target has its first half only: on RoCE it needs all 48 bytes",
     "octoword {0d}, the word with the target has {1}"},
    {Rule::long_read, "long-read", Syndrome::local_qp_op,
     "a READ has 512 bytes at most: 30 segments on a reliable connection",
     "ds says {0d} octowords, {1d} are allowed"},
    {Rule::long_message, "long-message", Syndrome::local_length,
     "no message is longer than 2 GiB, and ports say less",
     "the segments have {0d} bytes together"},
    {Rule::empty_inline, "empty-inline", Syndrome::local_qp_op,
     "bit 31 of a length means inline data, here of no bytes: a piece of 2 GiB has length 0",
     "octoword {0d}, followed by {1} as a key would be"},
    {Rule::unfenced_key, "unfenced-key", Syndrome::local_prot,
     "a key is used or changed behind its UMR on the same queue without a fence that waits for it",
     "key {0} is changed by WQE {1d}; this WQE needs fence mode 1, 3 or 4 and has {2d}"},
    {Rule::unfenced_umr, "unfenced-umr", Syndrome::local_prot,
     "the first request behind a UMR has no fence that waits for it",
     "WQE {0d} changes key {1}; this WQE needs fence mode 1, 3 or 4 and has {2d}"},
    {Rule::early_key, "early-key", Syndrome::local_prot,
     "a key is used from another queue before the completion of its UMR",
     "key {0} is changed by WQE {1d} of queue {2}, of which no completion has been written"},
    {Rule::key_in_flight, "key-in-flight", Syndrome::mw_bind,
     "a UMR changes a key that posted work still uses, and does not wait for that",
     "key {0} is used by WQE {1d} of queue {2}, of which no completion has been written"},
    {Rule::sq_overrun, "sq-overrun", Syndrome::local_qp_op,
     "more is posted than the send queue holds: WQEs are overwritten before they are known to be complete",
     "{0d} basic blocks of {1d} are in use"},
    {Rule::cq_overrun, "cq-overrun", Syndrome::local_qp_op,
     "more completions are on their way than the completion queue has room for",
     "{0d} entries for {1d} places of CQ {2}"},
    {Rule::changed_wqe, "changed-wqe", Syndrome::local_qp_op,
     "the WQE has been changed after its doorbell",
     "octoword {0d} was {1}..., is {2}..."},
    {Rule::unmapped_region, "unmapped-region", Syndrome::local_prot,
     "memory of a registered region was unmapped under it: a card would go on with pages that nobody sees",
     "key {0}, address {1}"},
    {Rule::recv_link, "recv-link", Syndrome::local_qp_op,
     "a shared receive WQE leads to a next one that the ring does not have",
     "the link names place {0d} of {1d}"},
    {Rule::rq_overrun, "rq-overrun", Syndrome::local_qp_op,
     "more is posted than the receive queue holds: WQEs are overwritten before they are used",
     "{0d} WQEs for {1d} places"},
    {Rule::wire_key, "wire-key", Syndrome::remote_access,
     "a peer uses a key before the completion of its UMR, and nothing behind a fence can have told it",
     "key {0} is changed by WQE {1d}; the request came to queue {2}"},
    {Rule::wire_in_flight, "wire-in-flight", Syndrome::mw_bind,
     "a UMR changes a key that a request of a peer still uses",
     "key {0} is used by a message of the peer of queue {1}"},
};
// clang-format on

constexpr const RuleRow& row_of(Rule r) noexcept {
  return rule_rows[static_cast<std::size_t>(r)];
}

namespace detail {
constexpr bool rows_are_in_order() noexcept {
  for (std::size_t i = 0; i < rules; i++) {
    if (static_cast<std::size_t>(rule_rows[i].rule) != i) return false;
  }
  return std::size(rule_rows) == rules;
}
static_assert(rows_are_in_order());
}  // namespace detail

// A broken rule, and the numbers that RuleRow::numbers refers to.
struct Finding {
  Rule rule = Rule::reserved_bits;
  std::array<uint64_t, 4> numbers{};
};

// The findings about one WQE: at most one for each rule, and at most `kept`, the first ones.
struct Findings {
  static constexpr std::size_t kept = 6;
  std::array<Finding, kept> list{};
  std::size_t count = 0;

  [[nodiscard]] constexpr bool empty() const noexcept { return count == 0; }
  [[nodiscard]] constexpr bool has(Rule r) const noexcept {
    for (std::size_t i = 0; i < count; i++) {
      if (list[i].rule == r) return true;
    }
    return false;
  }
  constexpr void add(Rule r, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0,
                     uint64_t d = 0) noexcept {
    if (count < kept && !has(r)) list[count++] = {r, {a, b, c, d}};
  }
};

}  // namespace kilim::inline v1::prm::lint
