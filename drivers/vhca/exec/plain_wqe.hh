// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Send WQE Format". The WQE of a plain request, RDMA WRITE or READ of one data segment, each
// word read once. Adapter's lock held. Never allocates; a WQE is untrusted.
#pragma once

#include <cstdint>

#include "kilim/detail/base/be.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "vhca/memory/dma_inline.hh"

namespace kilim::vhca::exec {

// The control segment of a plain request, in host order.
struct PlainCtrl {
  uint64_t head;  // opcode, index, queue, ds: known before it is read
  uint32_t fm_ce_se;
  uint32_t reserved;  // bits that have to be zero

  // From cq_update on the request completes, with an event behind that.
  [[nodiscard]] uint32_t mode() const noexcept { return fm_ce_se & prm::ctrl::completion_mask; }
};
// What stands behind it: remote address and one data segment. The rest of the basic block means
// nothing.
struct PlainWqe {
  uint64_t remote, local;
  uint64_t bytes;
  uint32_t rkey, lkey;
};
inline constexpr unsigned plain_ds = 3;                    // octowords
inline constexpr uint64_t next_index = uint64_t{1} << 40;  // in `head`

[[gnu::always_inline]] inline PlainCtrl read_plain_ctrl(uint64_t at) noexcept {
  const memory::dma::CtrlWords w = memory::dma::read_ctrl(at);
  const uint32_t flags = be32::from_raw(w.flags).host();
  return {be64::from_raw(w.head).host(), flags & 0xff, flags & prm::ctrl::reserved_in_fm_ce_se};
}

// No bytes: its memory is gone.
[[gnu::always_inline]] inline PlainWqe read_plain_wqe(uint64_t at) noexcept {
  const memory::dma::PlainWords w = memory::dma::read_plain(at);
  const uint64_t length_and_key = be64::from_raw(w.length_and_key).host();
  PlainWqe wqe;
  wqe.remote = be64::from_raw(w.remote).host();
  wqe.local = be64::from_raw(w.local).host();
  wqe.bytes = length_and_key >> 32;
  wqe.rkey = be32::from_raw(w.remote_key).host();
  wqe.lkey = static_cast<uint32_t>(length_and_key);
  return wqe;
}

}  // namespace kilim::vhca::exec
