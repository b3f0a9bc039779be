// SPDX-License-Identifier: BSD-3-Clause
// Where a raw packet queue stands that sends by the straight way (plain_frames.hh), and what its
// WQEs say. Owner: one run of a queue; adapter's lock held. Never allocates; a WQE is untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/mkc.hh"
#include "kilim/prm/opcode.hh"
#include "vhca/core/journal.hh"
#include "vhca/ethernet/frame_out.hh"
#include "vhca/exec/engine.hh"
#include "vhca/memory/dma.hh"
#include "vhca/memory/dma_inline.hh"
#include "vhca/wire/frame_ring.hh"

namespace kilim::vhca::exec {

inline constexpr uint32_t octoword = 16;
inline constexpr uint32_t frame_ds = 3;  // control, Ethernet and data segment

// The two words that every WQE begins with, as one number.
inline constexpr unsigned index_shift = 40;
constexpr uint64_t head_of(uint16_t index, prm::Opcode opcode, uint32_t qpn, uint32_t ds) noexcept {
  return uint64_t{index} << index_shift | uint64_t{static_cast<uint8_t>(opcode)} << 32 |
         uint64_t{qpn} << 8 | ds;
}

// Where the queue stands, and what has left.
struct Sending {
  Sending(Engine& engine, wq::Qp& queue, wire::FrameRing& ring) noexcept
      : e(engine),
        qp(queue),
        wqes(queue.sq.base),
        mask(queue.sq.wqebbs - 1),
        send_head(head_of(0, prm::Opcode::send, queue.qpn.value(), frame_ds)),
        longest(
            ethernet::longest_frame(engine.eth, ethernet::eth_port(engine.eth, queue.attr.port))),
        out(ring) {
    learn_key(queue.memos.local);
  }
  // The key that WQEs named last, as the queue remembers it.
  void learn_key(const tpt::KeyMemo& m) noexcept {
    const bool reads = m.len != 0 && (m.rights & prm::mkey::local_read) != 0;
    key = reads ? m.key : no_key;
    start = m.start;
    len = m.len;
    va = m.va;
  }

  Engine& e;
  wq::Qp& qp;
  const uint64_t wqes;       // client address of the send queue
  const uint32_t mask;       // of its basic blocks
  const uint64_t send_head;  // of a SEND of one pointer, but for its index
  const std::size_t longest;
  static constexpr uint64_t no_key = ~uint64_t{0};
  uint64_t key = no_key, start = 0, len = 0, va = 0;
  wire::FrameRing::Writer out;
  uint64_t shown = out.mark();  // up to there the taker sees what was kept
  Journal::Frames count;
  uint64_t bytes = 0;
  uint64_t shared = 0;   // WQEs of many packets
  uint32_t singles = 0;  // as many frames go one by one
};

// The flags of a WQE in the byte order of memory, fm_ce_se being the last of four bytes.
constexpr uint32_t flag(uint8_t fm_ce_se) noexcept {
  return uint32_t{fm_ce_se} << 24;
}

// What a WQE says besides its packets.
struct Said {
  uint64_t head;
  uint32_t flags;
  uint16_t index;  // of its first basic block

  [[nodiscard]] bool completes() const noexcept {
    return (flags & flag(prm::ctrl::cq_update)) != 0;
  }
  [[nodiscard]] uint8_t opcode() const noexcept { return static_cast<uint8_t>(head >> 32); }
};

[[gnu::always_inline]] inline bool copy_frame(std::byte* to, uint64_t from,
                                              uint64_t bytes) noexcept {
  const auto at = reinterpret_cast<uint64_t>(to);
  if (bytes - 32 <= 32) [[likely]]
    return memory::dma::move_32_to_64(at, from, bytes);
  return memory::dma::copy_within(Va{at}, Va{from}, bytes);
}

// False: the adapter refuses it, which is the general way's to do.
[[gnu::noinline]] inline bool write_asked(const Sending& s, std::span<std::byte> frame,
                                          ethernet::EthAsk ask) noexcept {
  if (!ethernet::is_offered(*s.e.context.profile, ask)) return false;
  ethernet::write_checksums(frame, ethernet::asked_by(s.qp, ask));
  return true;
}

// Where four frames are not alike, so many are not looked at four at a time.
inline constexpr uint32_t singles_behind_mixed = 8;

[[gnu::always_inline]] inline bool may_be_four(Sending& s) noexcept {
  if (s.singles == 0) [[likely]]
    return true;
  s.singles--;
  return false;
}

}  // namespace kilim::vhca::exec
