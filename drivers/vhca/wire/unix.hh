// SPDX-License-Identifier: BSD-3-Clause
// Wire `unix:DIR`: the ports of all processes that name this folder are on one switch (slots.hh). A
// port receives on the datagram socket of its slot, and sends from one for each neighbour, which is
// connected: it is full where that neighbour is, and poll(2) tells when no more.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "kilim/detail/base/result.hh"
#include "vhca/wire/row_wire.hh"
#include "vhca/wire/slots.hh"

namespace kilim::vhca::wire {

class UnixWire final : public RowWire {
 public:
  // Fails as Slots::claim() does. Frames of other users are not taken.
  static Result<std::unique_ptr<Wire>> create(std::string_view folder);
  ~UnixWire() override { (void)flush(); }
  UnixWire(const UnixWire&) = delete;
  UnixWire& operator=(const UnixWire&) = delete;
  // The folder that a wire spec of this kind or of shm: names; empty: of another kind.
  static std::string folder_of(std::string_view spec);
  // Removes the sockets of the dead from the folder, if it is this user's alone.
  static void remove_leftovers(const std::string& folder) { Slots::remove_leftovers(folder); }

  [[nodiscard]] std::optional<Mac> mac() const noexcept override { return slots_.mac(); }
  void publish(const Mac& mac, std::span<const Gid> gids) noexcept override {
    slots_.publish(mac, gids);
  }
  std::optional<Mac> find(const Gid& gid) noexcept override { return slots_.find(gid); }
  void serve(uint64_t service, bool on) noexcept override { slots_.serve(service, on); }
  [[nodiscard]] bool is_served(uint64_t service) noexcept override {
    return slots_.is_served(service);
  }
  void leave_note(uint64_t name, std::span<const std::byte> note) noexcept override {
    slots_.leave_note(name, note);
  }
  [[nodiscard]] std::vector<std::byte> notes_of_others(uint64_t name) override {
    return slots_.notes_of_others(name);
  }
  [[nodiscard]] Fd hold_notes() noexcept override { return slots_.hold_notes(); }
  // The number of ours in the folder.
  [[nodiscard]] uint32_t slot() const noexcept { return slots_.own(); }

  static constexpr uint32_t unix_mtu = 9000;  // bytes; sockets know of none

 protected:
  std::size_t put(std::span<const Frame>) noexcept override;
  bool admit(msghdr&, Arrival&) noexcept override;

 private:
  struct Neighbour {
    uint32_t slot = Slots::none;
    OwnFd socket;
  };
  enum class Put : uint8_t { done, busy, lost };
  UnixWire(Slots slots, Fd socket);
  // Of frames for one slot; `gone`: how many are sent.
  Put put_to(uint32_t slot, std::span<const Frame>, std::size_t& gone) noexcept;
  Put put_to_all(Frame) noexcept;
  Neighbour& neighbour(uint32_t slot) noexcept;
  void leave(Neighbour&) noexcept;

  Slots slots_;
  std::array<Neighbour, 64> neighbours_;  // by slot; who came first stays as long as he lives
};

}  // namespace kilim::vhca::wire
