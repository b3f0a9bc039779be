// SPDX-License-Identifier: BSD-3-Clause
// Cuts a frame that a kernel handed over unsegmented (GSO) into the frames that a card would have
// sent: headers repeated, lengths, identification, sequence numbers, flags and checksums right.
// A value over the caller's memory. Never allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vhca/wire/packet.hh"

namespace kilim::vhca::wire {

// One frame of several that are cut from one packet.
struct SegmentPlace {
  uint32_t at = 0;      // bytes of the payload before it
  uint16_t number = 0;  // frames before it
  bool last = false;
  std::size_t bytes = 0;  // of the frame
};
// Writes lengths, identification, sequence number and flags of the frame into its headers, which
// `v` describes; neither checksums nor the length of UDP.
void write_segment_headers(std::span<std::byte> headers, const PacketView& v,
                           const SegmentPlace&) noexcept;

// What is cut.
struct Cut {
  uint32_t payload_bytes = 0;  // behind the header of TCP or UDP, that go into each frame
  L4 l4 = L4::none;            // whose header that is; `none`: either
  uint32_t l4_at = 0;          // where it is, in a tunnel too; 0: where the outer one is
};

class Segmenter {
 public:
  // False: not a whole TCP or UDP packet, its header is elsewhere, or nothing to cut; next() gives
  // none then. Of tunnels those of tunnel.hh are known, but for GRE with sums or sequence numbers.
  bool open(std::span<const std::byte> frame, const Cut&) noexcept;
  // Writes the next frame to `out`; its length, or 0 at the end or where `out` is too short.
  std::size_t next(std::span<std::byte> out) noexcept;
  // Of the longest frame that comes.
  [[nodiscard]] std::size_t longest() const noexcept { return headers_ + piece_; }

 private:
  // Makes the copied headers those of this piece.
  void adjust(std::span<std::byte> out, uint32_t bytes) noexcept;
  void adjust_outer(std::span<std::byte> out, const SegmentPlace&) noexcept;

  std::span<const std::byte> frame_;
  PacketView view_;
  PacketView outer_;      // L3::none: there is no tunnel
  uint32_t headers_ = 0;  // bytes up to the payload
  uint32_t piece_ = 0;
  uint32_t at_ = 0;     // payload bytes done
  uint32_t end_ = 0;    // payload bytes in all
  uint16_t count_ = 0;  // pieces done
};

}  // namespace kilim::vhca::wire
