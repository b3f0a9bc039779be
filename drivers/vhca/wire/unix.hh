// SPDX-License-Identifier: BSD-3-Clause
// Wire `unix:DIR`: the ports of all processes that name this folder are on one switch. Each claims
// the lowest free slot number (a locked file) and receives on a datagram socket of that number; its
// address tells the slot, so a frame finds its way without asking. Frames to other addresses go
// where such an address was seen, else to all. What dead processes left is removed. The file of a
// slot holds its port's table of GIDs, which others read as untrusted bytes. The folder is one
// user's alone (own_files.hh).
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "kilim/base/result.hh"
#include "vhca/wire/fd_wire.hh"

namespace kilim::vhca {

class UnixWire final : public FdWire {
 public:
  // The folder is made where it is missing, for this user alone; another one's, or one that others
  // may enter, is refused. Frames of other users are not taken.
  static Result<std::unique_ptr<Wire>> create(std::string_view folder);
  ~UnixWire() override;
  // The folder that a wire spec of this kind names; empty: of another kind.
  static std::string folder_of(std::string_view spec);
  // Removes the sockets of the dead from the folder, if it is this user's alone.
  static void remove_leftovers(const std::string& folder);
  UnixWire(const UnixWire&) = delete;
  UnixWire& operator=(const UnixWire&) = delete;

  [[nodiscard]] std::optional<Mac> mac() const noexcept override;
  void publish(const Mac&, std::span<const Gid>) noexcept override;
  std::optional<Mac> find(const Gid&) noexcept override;
  // The number of ours in the folder.
  [[nodiscard]] uint32_t slot() const noexcept { return slot_; }

  static constexpr uint32_t unix_mtu = 9000;   // bytes; sockets know of none
  static constexpr uint32_t slots = 1u << 16;  // two bytes of an address

 protected:
  Put put(std::span<const std::byte> frame) noexcept override;
  ssize_t take(std::span<std::byte> into) noexcept override;

 private:
  struct Claim {
    Fd lock;  // of the slot's file, held as long as it is open (flock(2))
    uint32_t slot;
  };
  // Behind which slot an address was last seen, as a switch learns it.
  struct Seen {
    Mac mac{};
    uint32_t slot = slots;  // none
  };
  struct Place {
    std::string name;  // for sockets: nothing else names them
    Fd folder;         // for files
  };
  static Result<Claim> claim(int folder);
  static Result<Fd> bound_socket(const Place& place, uint32_t slot);
  UnixWire(Place place, Fd socket, Claim claim);
  Put put_to(uint32_t slot, std::span<const std::byte> frame) noexcept;
  Put put_to_all(std::span<const std::byte> frame) noexcept;
  Seen& place_of(const Mac&) noexcept;
  bool reaches(uint32_t slot) noexcept;
  bool lives(uint32_t slot) const noexcept;

  Place place_;
  Fd lock_;
  uint32_t slot_;
  uint32_t end_;               // slots below it have been claimed at some time
  std::array<Seen, 64> seen_;  // by a hash of the address; a newer one displaces
};

}  // namespace kilim::vhca
