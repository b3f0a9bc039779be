// SPDX-License-Identifier: BSD-3-Clause
// Where a port's frames go: whole Ethernet frames without FCS, RoCE and plain ones alike.
// Owner: the adapter's port; called with the adapter's lock held. Sending, peek and drop never
// block and never allocate. Frames that come in are untrusted bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kilim/detail/base/fd.hh"
#include "vhca/core/spec.hh"

namespace kilim::vhca::wire {

inline constexpr std::size_t ether_header_bytes = 14;
inline constexpr std::size_t ether_min_frame = 60;  // without FCS; shorter ones are padded by a NIC
inline constexpr std::size_t vlan_tags_bytes = 8;   // two tags on top of header and MTU

struct WireCounters {
  uint64_t rx_frames = 0, rx_bytes = 0;  // consumed by drop()
  uint64_t tx_frames = 0, tx_bytes = 0;  // taken by send()
  uint64_t tx_busy = 0;                  // send() that said busy
  uint64_t tx_bad_length = 0;    // sent frames that the wire does not carry: too long, too short
  uint64_t tx_lost = 0;          // taken from us and not sent: the link is down, the file is full
  uint64_t rx_malformed = 0;     // not a frame, or one that cannot be made whole
  uint64_t rx_too_short = 0;     // shorter than an Ethernet header
  uint64_t rx_too_long = 0;      // longer than MTU and header, and not to be segmented
  uint64_t rx_kernel_drops = 0;  // lost before us, as the kernel says
  uint64_t rx_cut = 0;           // shown, though a capture holds only their beginning
};

class FrameRing;    // wire/frame_ring.hh
class KernelRules;  // wire/kernel_rules.hh

// Who keeps a copy of each frame of a wire.
class FrameCapture {
 public:
  virtual void add(std::span<const std::byte> frame) noexcept = 0;

 protected:
  ~FrameCapture() = default;
};

// What is to be kept of frames that pass by a ring.
struct RingAccount {
  WireCounters* counters = nullptr;
  FrameCapture* capture = nullptr;  // is given each frame; null: nobody
};

// One direction of a wire that is a ring in memory, for who moves many frames at once: frames are
// written or read in place, and the account is the caller's to keep. Two words, so that a call
// returns them in registers.
struct RingEnd {
  FrameRing* ring = nullptr;  // null: send(), peek() and drop() are the only way
  const RingAccount* account = nullptr;
};

class Wire {
 public:
  enum class Sent : uint8_t {
    taken,
    busy,     // back-pressure: the same frame again, later
    refused,  // never goes out: too long or too short for this wire
  };

  virtual ~Wire() = default;
  // The frame is copied or refused before it returns: the caller keeps its memory.
  virtual Sent send(std::span<const std::byte> frame) noexcept = 0;
  // While corked, frames that send() takes may wait until flush() for others that leave with them.
  // flush(): they leave; false: some still wait for room, and has_room() goes on with them.
  virtual void cork(bool) noexcept {}
  virtual bool flush() noexcept { return true; }
  [[nodiscard]] virtual std::size_t held() const noexcept { return 0; }  // such frames that wait
  // After busy, or false of flush(): whether it is worth another try. Nobody is tried for it.
  virtual bool has_room() noexcept { return true; }
  // Whether has_room() and fd() know: else room is looked for by sending again, later.
  [[nodiscard]] virtual bool tells_room() const noexcept { return false; }
  // The next frame, left where it is until drop(); empty: none now. Valid until the next call.
  virtual std::span<const std::byte> peek() noexcept = 0;
  // Removes the frame that peek() showed; without one: nothing.
  virtual void drop() noexcept = 0;
  // Good until the next call.
  virtual RingEnd out_ring() noexcept { return {}; }
  virtual RingEnd in_ring() noexcept { return {}; }
  // Readable when a frame may have come, or room where there was none, if the wire tells of that;
  // -1: nothing to wait for. Asked for before each wait: some wires wake only who asked since the
  // last peek(). A frame that peek() has shown is no news.
  [[nodiscard]] virtual int fd() const noexcept = 0;
  // Payload bytes of an Ethernet frame: a frame has at most mtu() + 14 bytes, and 8 for tags.
  [[nodiscard]] virtual uint32_t mtu() const noexcept = 0;
  // Up to this call; some wires ask the kernel first.
  [[nodiscard]] virtual const WireCounters& counters() noexcept = 0;
  // A recording, not a neighbour: it begins when the port's first steering rule asks for frames,
  // and each frame waits until a receive request is there for it.
  [[nodiscard]] virtual bool is_recording() const noexcept { return false; }
  // Of a recording: from here on its frames may be asked for once more. rewind() goes back there;
  // false: this wire cannot.
  virtual void mark() noexcept {}
  virtual bool rewind() noexcept { return false; }
  // The address that this wire gives its port, so that neighbours find it; most give none.
  [[nodiscard]] virtual std::optional<Mac> mac() const noexcept { return std::nullopt; }
  // The GIDs of its port, all of them, from now on; and the address of a neighbour's port that told
  // its wire of this one. Control path: they open files. Most wires know of none.
  virtual void publish(const Mac&, std::span<const Gid>) noexcept {}
  virtual std::optional<Mac> find(const Gid&) noexcept { return std::nullopt; }
  // Of ports that are one adapter: this one has a listener for a service id, or none any more;
  // whether another one has.
  virtual void serve(uint64_t, bool) noexcept {}
  [[nodiscard]] virtual bool is_served(uint64_t) noexcept { return false; }
  // Of the same ports: what this one has to say of a name, in the place of what it said before
  // (nothing: no note any more); and what the others who live say of it, at most 64 KiB of each.
  // Nobody who asked for the same holds the notes as long as the descriptor is open; without one (a
  // holder that was stopped) the caller goes on as well as it can.
  virtual void leave_note(uint64_t, std::span<const std::byte>) noexcept {}
  [[nodiscard]] virtual std::vector<std::byte> notes_of_others(uint64_t) { return {}; }
  [[nodiscard]] virtual Fd hold_notes() noexcept { return {}; }
  // Another address whose RoCE frames are the port's: of the interface that is the wire, since its
  // kernel answers with that for the IP addresses that both have.
  [[nodiscard]] virtual std::optional<Mac> station() const noexcept { return std::nullopt; }
  // The index of the machine's network interface whose frames these are; 0: none.
  [[nodiscard]] virtual uint32_t interface() const noexcept { return 0; }
  // Keeps from the kernel whose interface this is what rules of the port take; null: that kernel
  // sees all frames too, or there is none.
  [[nodiscard]] virtual KernelRules* kernel_rules() noexcept { return nullptr; }
  // Nothing will ever come any more (a file that was read to its end).
  [[nodiscard]] virtual bool ended() const noexcept { return false; }
};

// The longest frame of a wire with this MTU.
constexpr std::size_t max_frame(uint32_t mtu) noexcept {
  return mtu + ether_header_bytes + vlan_tags_bytes;
}

}  // namespace kilim::vhca::wire
