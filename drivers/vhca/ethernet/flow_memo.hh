// SPDX-License-Identifier: BSD-3-Clause
// Where the last frames of a port went, for the next ones that rules cannot tell from them
// (plain_rx.cc): each begins alike, up to its type, and where rules ask for it is of one kind.
// Owner: the port; adapter's lock held. Never allocates; frames are untrusted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kilim/detail/base/be.hh"

namespace kilim::vhca::wq {
struct Qp;
}  // namespace kilim::vhca::wq

namespace kilim::vhca::ethernet {

// What rules of Reach::kind (steering.hh) ask of a frame beyond addresses and type, as one number:
// IP version and protocol, as parse_packet() finds them in a packet that is no fragment. 0: a
// tagged frame, or one whose kind takes longer to tell.
[[gnu::always_inline]] inline uint32_t frame_kind(std::span<const std::byte> frame) noexcept {
  constexpr uint16_t type_four = be16{0x0800}.raw(), type_six = be16{0x86dd}.raw();
  constexpr uint16_t type_tag = be16{0x8100}.raw(), type_two_tags = be16{0x88a8}.raw();
  constexpr uint32_t no_ip = 1, four = 4u << 8, six = 6u << 8;
  constexpr std::byte plain_header{0x45}, hop_by_hop{0}, routing{43}, fragment{44}, destination{60},
      version_bits{0xf0}, version_six{0x60};
  const auto word = [&frame](std::size_t at) {
    uint16_t v;
    std::memcpy(&v, frame.data() + at, sizeof(v));
    return v;
  };
  const uint16_t type = word(12);
  if (type == type_four) [[likely]] {
    const bool plain =
        frame.size() >= 38 && frame[14] == plain_header && (word(20) & be16{0x3fff}.raw()) == 0;
    return plain ? four | std::to_integer<uint32_t>(frame[23]) : 0;
  }
  if (type == type_six) {
    const bool plain = frame.size() >= 58 && (frame[14] & version_bits) == version_six &&
                       frame[20] != hop_by_hop && frame[20] != routing && frame[20] != fragment &&
                       frame[20] != destination;
    return plain ? six | std::to_integer<uint32_t>(frame[20]) : 0;
  }
  return type == type_tag || type == type_two_tags ? 0 : no_ip;
}

struct FlowMemo {
  std::array<std::byte, 14> header{};
  uint32_t kind = 0;     // no_kind where no rule asks for it
  uint64_t version = 0;  // of the rules; 0: nothing is remembered
  wq::Qp* qp = nullptr;  // the only queue that gets it

  static constexpr uint32_t no_kind = 1;
  // Addresses and type, in two loads that overlap.
  [[nodiscard, gnu::always_inline]] bool begins(std::span<const std::byte> frame) const noexcept {
    const auto word = [](const std::byte* at) {
      uint64_t v;
      std::memcpy(&v, at, sizeof(v));
      return v;
    };
    constexpr std::size_t second = sizeof(header) - sizeof(uint64_t);
    return ((word(header.data()) ^ word(frame.data())) |
            (word(header.data() + second) ^ word(frame.data() + second))) == 0;
  }
};

// A few of them, by what tells the flows of a port apart most often.
struct FlowMemos {
  static constexpr std::size_t places = 8;  // a power of two
  std::array<FlowMemo, places> memos;
  FlowMemo& at(std::span<const std::byte> frame, uint32_t kind) noexcept {
    const auto last = [&frame](std::size_t i) { return std::to_integer<std::size_t>(frame[i]); };
    return memos[(last(5) + last(11) + kind + (kind >> 8)) & (places - 1)];
  }
};

}  // namespace kilim::vhca::ethernet
