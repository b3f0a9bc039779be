// SPDX-License-Identifier: BSD-3-Clause
// Where a queue's next receive WQE wants a frame that goes the straight way (plain_rx.cc), and the
// copy there. Owner: one row of frames; adapter's lock held. Never allocates. Frames and WQEs are
// untrusted: a WQE is read once, and what was read is what is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kilim/detail/base/be.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/mkc.hh"
#include "vhca/ethernet/plain_taking.hh"
#include "vhca/memory/dma.hh"
#include "vhca/memory/dma_inline.hh"
#include "vhca/tpt/key_memo.hh"

namespace kilim::vhca::ethernet {

[[gnu::always_inline]] inline memory::dma::SegmentWords next_segment(const Taking& t) noexcept {
  return memory::dma::read_segment(t.wqe);
}

// A key that the WQE before did not have, or a range that it does not allow; 0: it is not plain.
[[gnu::noinline]] inline uint64_t find_target(const wq::EngineContext& context, Taking& t,
                                              const tpt::KeyRange& r) noexcept {
  if (r.key == prm::list_end_lkey) return 0;
  tpt::KeyMemo& m = t.qp->memos.remote;
  const uint64_t to = tpt::find_direct(context.translator, r, m);
  recall_key(t, m);
  return to;
}

// Where that segment wants `bytes` bytes. False: it is not plain.
[[gnu::always_inline]] inline bool find_place(const wq::EngineContext& context, Taking& t,
                                              const memory::dma::SegmentWords& d, std::size_t bytes,
                                              uint64_t& to) noexcept {
  const uint64_t length_and_key = be64::from_raw(d.length_and_key).host();
  const uint64_t address = be64::from_raw(d.address).host();
  const auto room = static_cast<uint32_t>(length_and_key >> 32);
  const auto key = static_cast<uint32_t>(length_and_key);
  if ((room & prm::inline_flag) != 0 || room < bytes) return false;
  const uint64_t offset = address - t.start;
  to = t.va + offset;
  // The general way looks at the bytes of the frame alone, too.
  if (key == t.key && offset <= t.len && bytes <= t.len - offset) [[likely]]
    return true;
  const tpt::Access need{t.qp->spec.pd, t.qp->qpn.value(), prm::mkey::local_write};
  to = find_target(context, t, {key, address, bytes, need});
  return to != 0;
}

// The same of the next WQE; 0: there is none, it is not plain, or its completion is compressed. One
// like it, for a frame as long, is alike from now on.
[[gnu::noinline]] inline uint64_t learn_place(const Row& row, Taking& t,
                                              std::size_t bytes) noexcept {
  if (t.holds || !has_wqe(t)) return 0;
  const memory::dma::SegmentWords d = next_segment(t);
  uint64_t to;
  if (!find_place(row.context, t, d, bytes, to)) return 0;
  const auto key = static_cast<uint32_t>(be64::from_raw(d.length_and_key).host());
  if (key != t.key || bytes > t.len) return to;
  t.alike = {d.length_and_key, t.len - bytes + 1};
  prm::Cqe like = t.entry;
  like.byte_cnt = be32{static_cast<uint32_t>(bytes)};
  std::memcpy(&t.third, &like.srqn_uidx, sizeof t.third);
  return to;
}

// Where the next WQE, which is there, wants a frame of Row::alike_bytes bytes, in the fewest
// instructions. False: it is not alike.
[[gnu::always_inline]] inline bool find_alike_place(const Taking& t, uint64_t& to) noexcept {
  const memory::dma::SegmentWords d = next_segment(t);
  const uint64_t offset = be64::from_raw(d.address).host() - t.start;
  to = t.va + offset;
  return d.length_and_key == t.alike.length_and_key && offset < t.alike.limit;
}

[[gnu::always_inline]] inline bool copy_to_client(uint64_t to, const std::byte* frame,
                                                  std::size_t bytes) noexcept {
  const auto from = reinterpret_cast<uint64_t>(frame);
  if (bytes - 32 <= 32) [[likely]]
    return memory::dma::move_32_to_64(to, from, bytes);
  return memory::dma::copy_within(Va{to}, Va{from}, bytes);
}

}  // namespace kilim::vhca::ethernet
