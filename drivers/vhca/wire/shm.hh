// SPDX-License-Identifier: BSD-3-Clause
// Wire `shm:DIR`: the ports of all processes that name this folder are on one switch (slots.hh),
// and frames go from one to another through memory that the two share. Who has a first frame for a
// neighbour connects to the socket of his slot and hands over a ring (shm_ring.hh) for all of them;
// the connection then carries single bytes that wake who sleeps, and its end says that one has
// gone. Neighbours are this user's, and may be hostile all the same: what is wrong costs them their
// ring.
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include <pthread.h>

#include "kilim/detail/base/result.hh"
#include "vhca/core/own_fd.hh"
#include "vhca/wire/shm_ring.hh"
#include "vhca/wire/slots.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::wire {

class ShmWire final : public Wire {
 public:
  // Fails as Slots::claim() does.
  static Result<std::unique_ptr<Wire>> create(std::string_view folder);
  ~ShmWire() override { (void)flush(); }
  ShmWire(const ShmWire&) = delete;
  ShmWire& operator=(const ShmWire&) = delete;

  Sent send(std::span<const std::byte> frame) noexcept override;
  void cork(bool on) noexcept override { corked_ = on; }
  bool flush() noexcept override;
  bool has_room() noexcept override;
  [[nodiscard]] bool tells_room() const noexcept override { return true; }
  std::span<const std::byte> peek() noexcept override;
  void drop() noexcept override;
  [[nodiscard]] int fd() const noexcept override;
  [[nodiscard]] uint32_t mtu() const noexcept override { return shm_mtu; }
  [[nodiscard]] const WireCounters& counters() noexcept override { return counters_; }
  [[nodiscard]] std::optional<Mac> mac() const noexcept override { return slots_.mac(); }
  void publish(const Mac& mac, std::span<const Gid> gids) noexcept override {
    slots_.publish(mac, gids);
  }
  std::optional<Mac> find(const Gid& gid) noexcept override { return slots_.find(gid); }
  void leave_note(uint64_t name, std::span<const std::byte> note) noexcept override {
    slots_.leave_note(name, note);
  }
  [[nodiscard]] std::vector<std::byte> notes_of_others(uint64_t name) override {
    return slots_.notes_of_others(name);
  }

  static constexpr uint32_t shm_mtu = 9000;  // bytes; memory knows of none
  // How many send to us at once, and how many we send to before one gives way.
  static constexpr std::size_t most_sources = 256, most_sinks = 64;

 private:
  // A connection, and the ring of one direction.
  struct End {
    OwnFd socket;
    uint32_t slot = Slots::none;
    ShmRing ring;
    bool ended = false;  // of a source: who put has gone
  };
  enum class Put : uint8_t { done, busy, lost };
  ShmWire(Slots slots, Fd listener, Fd events);
  Put put_to(uint32_t slot, std::span<const std::byte> frame) noexcept;
  Put put_to_all(std::span<const std::byte> frame) noexcept;
  End* sink_of(uint32_t slot) noexcept;
  bool connect_to(End& sink, uint32_t slot) noexcept;
  void show(End& sink) noexcept;
  void leave(End& sink) noexcept;

  bool take_from(End& source) noexcept;
  bool take_any() noexcept;
  void give_back(End& source) noexcept;
  void forget(End& source) noexcept;
  // News of connections: what has come, and what has ended.
  void look() noexcept;
  void welcome() noexcept;
  bool get_ring(End& source) noexcept;
  void hear(std::size_t which) noexcept;
  bool watch(int socket, std::size_t which) noexcept;

  Slots slots_;
  OwnFd listener_;
  OwnFd events_;  // an epoll(7) of all sockets
  WireCounters counters_;
  bool corked_ = false;
  End* unshown_ = nullptr;                         // a sink with frames that it has not been shown
  End* full_ = nullptr;                            // a sink without room
  std::array<End, most_sinks> sinks_;              // by slot
  mutable std::array<End, most_sources> sources_;  // fd() tells their rings that we sleep
  std::size_t sources_end_ = 0;                    // none is behind it
  std::size_t turn_ = 0;                           // the source that is asked first
  unsigned in_row_ = 0;                            // frames of that one
  unsigned empty_looks_ = 0;
  // fd() was asked for, and who did has not looked since. Others may look meanwhile: he still
  // sleeps.
  mutable bool asked_ = false;
  mutable pthread_t asker_{};
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t have_ = 0;  // bytes of the frame that peek() shows
};

}  // namespace kilim::vhca::wire
