// SPDX-License-Identifier: BSD-3-Clause
// A folder in which ports of one user's processes meet, for wires that are a switch: each claims
// the lowest free slot number (a locked file) and has a socket of that number; its address tells
// the slot, so a frame finds its way without asking. Frames to other addresses go where such an
// address was seen, else to all. What dead processes left is removed. The file of a slot holds its
// port's table of GIDs, which others read as untrusted bytes. The folder is one user's alone
// (own_files.hh). Owner: the wire; adapter's lock held.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>
#include <sys/un.h>

#include "kilim/detail/base/fd.hh"
#include "kilim/detail/base/result.hh"
#include "vhca/core/own_fd.hh"
#include "vhca/core/spec.hh"

namespace kilim::vhca::wire {

// The address of a slot: locally administered, "KL", the slot. And the slot of such an address.
Mac mac_of_slot(uint32_t slot) noexcept;
std::optional<uint32_t> slot_of(const Mac&) noexcept;

class Slots {
 public:
  // Claims one. `type`: SOCK_DGRAM or another, of the slots' sockets; the folder is made where it
  // is missing, for this user alone. Another one's, or one that others may enter, is refused.
  static Result<Slots> claim(std::string_view folder, int type);
  ~Slots();
  Slots(Slots&&) noexcept = default;
  Slots& operator=(Slots&&) = delete;
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  // Removes the sockets of the dead from the folder, if it is this user's alone.
  static void remove_leftovers(const std::string& folder);

  // Ours, bound to our slot's name, in the place of what was left there.
  [[nodiscard]] Result<Fd> bound_socket() const;
  // A socket that is connected to a slot's; none: nobody lives there, as errno says.
  [[nodiscard]] Fd connected(uint32_t slot) const noexcept;
  // Gives a socket of ours, which is connected to another's, a name that tells the slot.
  [[nodiscard]] bool name(int socket) const noexcept;
  // "FOLDER/7"; the address's length.
  socklen_t address(uint32_t slot, sockaddr_un& a) const noexcept;
  // The slot of a sender; none: it has none.
  static uint32_t of(const sockaddr_un& a, socklen_t bytes) noexcept;

  [[nodiscard]] uint32_t own() const noexcept { return own_; }
  [[nodiscard]] Mac mac() const noexcept;
  void publish(const Mac&, std::span<const Gid>) noexcept;
  std::optional<Mac> find(const Gid&) noexcept;
  // Marks a service id as one on which the process behind our slot listens, or no more; whether
  // somebody behind another slot does.
  void serve(uint64_t service, bool on) noexcept;
  [[nodiscard]] bool is_served(uint64_t service) noexcept;
  // Notes (slot_notes.cc), as Wire has them.
  void leave_note(uint64_t name, std::span<const std::byte>) noexcept;
  [[nodiscard]] std::vector<std::byte> notes_of_others(uint64_t name);
  [[nodiscard]] Fd hold_notes() noexcept;

  // Where a frame goes: a slot, which may be ours, or `all`.
  uint32_t way_of(std::span<const std::byte> frame) noexcept;
  // A frame came from that slot; the address in it is there.
  void learn(std::span<const std::byte> frame, uint32_t slot) noexcept;
  // The slot to which such a frame goes has nobody.
  void forget(std::span<const std::byte> frame) noexcept;
  // Whether the slot was claimed at some time: those behind it were not either.
  bool reaches(uint32_t slot) noexcept;
  // The same for a frame that goes to all: the folder is looked at once a millisecond, so a new
  // neighbour gets such frames that much later. A frame makes no system call here.
  bool floods_to(uint32_t slot) noexcept { return slot < end_ || floods_further(slot); }

  static constexpr uint32_t count = 1u << 16;  // two bytes of an address
  static constexpr uint32_t none = count, all = count;

 private:
  // Behind which slot an address was last seen, as a switch learns it.
  struct Seen {
    Mac mac{};
    uint32_t slot = none;
  };
  Slots(std::string name, Fd folder, int type) noexcept;
  Status take_lowest();
  [[nodiscard]] bool lives(uint32_t slot) const noexcept;
  Seen& place_of(const Mac&) noexcept;
  bool floods_further(uint32_t slot) noexcept;

  std::string name_;  // for sockets: nothing else names them
  OwnFd folder_;      // for files
  int type_;
  OwnFd lock_;  // of the slot's file, held as long as it is open (flock(2))
  uint32_t own_ = 0;
  Mac port_{};        // as published; several ports of a folder may be one adapter with one address
  uint32_t end_ = 0;  // slots below it have been claimed at some time
  uint64_t look_ns_ = 0;         // CLOCK_MONOTONIC: when floods_to() looks for slot end_ again
  std::array<Seen, 64> seen_{};  // by a hash of the address; a newer one displaces
};

}  // namespace kilim::vhca::wire
