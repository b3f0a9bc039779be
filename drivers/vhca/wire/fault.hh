// SPDX-License-Identifier: BSD-3-Clause
// `+fault:drop:P:dup:P:reorder:P:corrupt:P:seed:N`: a bad cable. Of the frames that are sent some
// are lost, come twice, come behind the next one or with a bit turned; P from 0 to 1. The same seed
// does the same to the same frames.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "kilim/detail/base/result.hh"
#include "vhca/wire/decorator.hh"

namespace kilim::vhca::wire {

// Shares of the frames that are sent, 0 to 1.
struct FaultRates {
  double drop = 0, dup = 0, reorder = 0, corrupt = 0;
  uint64_t seed = 1;
};
// What stands behind "fault:". EINVAL: an unknown word, or no number from 0 to 1.
Result<FaultRates> parse_faults(std::string_view text);

class Fault final : public Decorator {
 public:
  static Result<std::unique_ptr<Wire>> create(std::unique_ptr<Wire> inner, std::string_view rates);

  Sent send(std::span<const std::byte> frame) noexcept override;
  std::span<const std::byte> peek() noexcept override;

 private:
  Fault(std::unique_ptr<Wire> inner, const FaultRates& rates);
  bool happens(double rate) noexcept;
  uint64_t next_random() noexcept;
  // Sends the frame that was held back, if the wire takes it.
  void release() noexcept;

  FaultRates rates_;
  uint64_t state_;  // of the random numbers
  std::vector<std::byte> changed_, held_;
  std::size_t held_bytes_ = 0;  // of the frame that waits for the next one
  unsigned looks_ = 0;          // peek() since it waits
};

}  // namespace kilim::vhca::wire
