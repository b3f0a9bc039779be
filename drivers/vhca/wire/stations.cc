// SPDX-License-Identifier: BSD-3-Clause
// Frames of address resolution among a wire's others. What finds the wire full is lost: it is asked
// again.
#include "vhca/wire/stations.hh"

#include "vhca/core/core_clock.hh"

namespace kilim::vhca::wire {

std::span<const std::byte> Stations::peek() noexcept {
  const std::span<const std::byte> frame = inner().peek();
  if (seen_ || frame.empty()) return frame;
  answer_bytes_ = table_.handle(frame, answer_);
  seen_ = true;
  return frame;
}

void Stations::drop() noexcept {
  inner().drop();
  seen_ = false;
  if (answer_bytes_ != 0) (void)inner().send(std::span(answer_).first(answer_bytes_));
  answer_bytes_ = 0;
}

void Stations::publish(const Mac& mac, std::span<const Gid> gids) noexcept {
  table_.publish(mac, gids);
  Decorator::publish(mac, gids);
}

std::optional<Mac> Stations::find(const Gid& gid) noexcept {
  if (std::optional<Mac> mac = table_.find(gid)) return mac;
  AddressResolution::Frame question;
  if (const std::size_t bytes = table_.ask(gid, clock_ns(), question); bytes != 0)
    (void)inner().send(std::span(question).first(bytes));
  return std::nullopt;
}

}  // namespace kilim::vhca::wire
