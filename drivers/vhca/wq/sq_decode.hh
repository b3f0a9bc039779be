// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Send Work Queue". Copies the next send WQE out of the ring, whole and straight even where
// it wraps, and reads its control segment and data segments. Adapter's lock held. Never allocates;
// a WQE is untrusted and decodes to a value or to `malformed`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/opcode.hh"
#include "vhca/tpt/transfer.hh"
#include "vhca/wq/qp.hh"

namespace kilim::vhca::wq {

struct SendWqe {
  uint8_t opcode = 0;
  uint8_t opmod = 0;
  uint8_t fm_ce_se = 0;
  uint16_t index = 0;    // of its first basic block: what its CQE carries
  uint16_t wqebbs = 1;   // to the next WQE
  uint16_t stream = 0;   // of a DC initiator
  uint32_t ds = 0;       // octowords
  uint32_t imm_raw = 0;  // as it lies in the WQE
  alignas(64) std::array<std::byte, 1024> bytes;

  [[nodiscard]] std::span<const std::byte> body() const noexcept {
    return {bytes.data() + 16, ds > 0 ? ds * 16 - 16 : 0};
  }
  [[nodiscard]] bool signaled() const noexcept { return prm::ctrl::completes(fm_ce_se); }
  [[nodiscard]] bool wants_event() const noexcept {
    return prm::ctrl::completion_mode(fm_ce_se) == prm::ctrl::cq_update_and_event;
  }
  [[nodiscard]] bool solicited() const noexcept { return (fm_ce_se & prm::ctrl::solicited) != 0; }
};

enum class Decode : uint8_t {
  ok,
  malformed,  // the fields of the control segment do not fit the ring: local QP operation error
  fault,      // ring memory is gone: QP_FATAL
};

// The WQE at sq.ci; the caller has seen that sq.ci != sq.pi. Leaves sq.ci alone.
Decode decode_send(const Qp&, SendWqe&) noexcept;
// The one that begins at basic block `at`.
Decode decode_send_at(Qp&, uint16_t at, SendWqe&) noexcept;

// The data segments (pointers and inline data) of `body` from octoword-aligned `offset` on. Returns
// false where they are malformed; `count` and `total` bytes otherwise. Inline segments point into
// `body`.
struct DataList {
  uint32_t count = 0;
  uint64_t total = 0;
  std::array<tpt::Segment, 64> segments;
};
bool decode_data(std::span<const std::byte> body, std::size_t offset, DataList&) noexcept;

}  // namespace kilim::vhca::wq
