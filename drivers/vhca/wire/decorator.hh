// SPDX-License-Identifier: BSD-3-Clause
// A wire around a wire: passes everything on, unless a derived class does more. Owns the inner one.
#pragma once

#include <memory>
#include <utility>

#include "vhca/wire/wire.hh"

namespace kilim::vhca::wire {

// Called as a wire is: with the adapter's lock.
class Decorator : public Wire {
 public:
  Sent send(std::span<const std::byte> frame) noexcept override { return inner_->send(frame); }
  void cork(bool on) noexcept override { inner_->cork(on); }
  bool flush() noexcept override { return inner_->flush(); }
  [[nodiscard]] std::size_t held() const noexcept override { return inner_->held(); }
  bool has_room() noexcept override { return inner_->has_room(); }
  [[nodiscard]] bool tells_room() const noexcept override { return inner_->tells_room(); }
  std::span<const std::byte> peek() noexcept override { return inner_->peek(); }
  void drop() noexcept override { inner_->drop(); }
  [[nodiscard]] int fd() const noexcept override { return inner_->fd(); }
  [[nodiscard]] uint32_t mtu() const noexcept override { return inner_->mtu(); }
  [[nodiscard]] const WireCounters& counters() noexcept override { return inner_->counters(); }
  [[nodiscard]] bool is_recording() const noexcept override { return inner_->is_recording(); }
  void mark() noexcept override { inner_->mark(); }
  bool rewind() noexcept override { return inner_->rewind(); }
  [[nodiscard]] std::optional<Mac> mac() const noexcept override { return inner_->mac(); }
  void publish(const Mac& mac, std::span<const Gid> gids) noexcept override {
    inner_->publish(mac, gids);
  }
  std::optional<Mac> find(const Gid& gid) noexcept override { return inner_->find(gid); }
  void serve(uint64_t service, bool on) noexcept override { inner_->serve(service, on); }
  [[nodiscard]] bool is_served(uint64_t service) noexcept override {
    return inner_->is_served(service);
  }
  void leave_note(uint64_t name, std::span<const std::byte> note) noexcept override {
    inner_->leave_note(name, note);
  }
  [[nodiscard]] std::vector<std::byte> notes_of_others(uint64_t name) override {
    return inner_->notes_of_others(name);
  }
  [[nodiscard]] Fd hold_notes() noexcept override { return inner_->hold_notes(); }
  [[nodiscard]] std::optional<Mac> station() const noexcept override { return inner_->station(); }
  [[nodiscard]] uint32_t interface() const noexcept override { return inner_->interface(); }
  [[nodiscard]] KernelRules* kernel_rules() noexcept override { return inner_->kernel_rules(); }
  [[nodiscard]] bool ended() const noexcept override { return inner_->ended(); }

 protected:
  explicit Decorator(std::unique_ptr<Wire> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] Wire& inner() const noexcept { return *inner_; }

 private:
  std::unique_ptr<Wire> inner_;
};

}  // namespace kilim::vhca::wire
