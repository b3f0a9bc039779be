// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Receive Work Queue", "Shared Receive Queue". Checks the bytes of one receive WQE, and
// prints it as text. A receive WQE has no length field: it ends at the queue's stride or at a
// segment with the end mark (list_end_lkey). The bytes are untrusted. Pure values, any thread.
#pragma once

#include "kilim/prm/lint.hh"
#include "kilim/prm/text.hh"

namespace kilim::inline v1::prm::lint {

// What all WQEs of a receive queue have in common.
struct RecvShape {
  bool shared = false;     // the first segment is SrqNextSeg
  bool signature = false;  // the first segment holds a WQE signature
  uint32_t wqes = 0;       // in the ring: SrqNextSeg names one of them

  // Byte offset of the first data segment.
  [[nodiscard]] constexpr std::size_t data_at() const noexcept {
    return shared || signature ? octoword_bytes : 0;
  }
};

namespace detail {

constexpr void check_link(Bytes w, const RecvShape& shape, Findings& f) noexcept {
  const auto link = segment_at<SrqNextSeg>(w, 0);
  expect_zero(w, 0, sizeof(link.reserved0), f);
  expect_zero(w, offsetof(SrqNextSeg, reserved1), sizeof(link.reserved1), f);
  if (link.next_wqe_index.host() >= shape.wqes)
    f.add(Rule::recv_link, link.next_wqe_index.host(), shape.wqes);
}

}  // namespace detail

// Checks one receive WQE and returns what is wrong with it. `wqe`: the queue's stride of bytes.
constexpr Findings check_recv(Bytes wqe, const RecvShape& shape) noexcept {
  Findings f;
  if (shape.shared && wqe.size() >= sizeof(SrqNextSeg)) detail::check_link(wqe, shape, f);
  for (std::size_t at = shape.data_at(); at + sizeof(DataSeg) <= wqe.size();
       at += sizeof(DataSeg)) {
    const auto d = segment_at<DataSeg>(wqe, at);
    const uint32_t count = d.byte_count.host();
    if (d.lkey.host() == list_end_lkey) {
      if (count != 0) f.add(Rule::reserved_bits, at / octoword_bytes, count);
      break;
    }
    if ((count & inline_flag) != 0) f.add(Rule::reserved_bits, at / octoword_bytes, inline_flag);
    if (count == 0) f.add(Rule::zero_length, at / octoword_bytes, d.lkey.host());
  }
  return f;
}

// Appends the segments before the end mark to `t`, separated by "; ".
inline void dump_recv(Text& t, Bytes wqe, const RecvShape& shape) noexcept {
  t.put("RECV");
  if (shape.shared && wqe.size() >= sizeof(SrqNextSeg))
    t.put(" next ").dec(segment_at<SrqNextSeg>(wqe, 0).next_wqe_index.host());
  for (std::size_t at = shape.data_at(); at + sizeof(DataSeg) <= wqe.size();
       at += sizeof(DataSeg)) {
    const auto d = segment_at<DataSeg>(wqe, at);
    if (d.lkey.host() == list_end_lkey) break;
    t.put("; ").hex(d.byte_count.host()).put(" bytes key ").hex(d.lkey.host());
    t.put(" at ").hex(d.addr.host());
  }
}

}  // namespace kilim::inline v1::prm::lint
