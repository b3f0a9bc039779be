// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Steering Table Entry", format 0: what an entry does with a frame that is as asked. It
// counts and marks it, takes a tunnel or a VLAN tag off, puts headers in front, or rewrites them; a
// frame that changes is a copy. Adapter's lock held. Never allocates; entries and frames are
// untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/prm/ste.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/ethernet/ste_lookup.hh"

namespace kilim::vhca::ethernet {

inline uint32_t ste_get(std::span<const std::byte> entry, prm::CapField f) noexcept {
  return prm::cap_get(entry, f);
}

// Why a frame goes no further.
namespace ste_end {
inline constexpr const char* dropped = "a steering entry drops it";
inline constexpr const char* no_entry = "no steering entry lies where the frame goes on";
inline constexpr const char* no_end = "a chain of steering entries has no end";
inline constexpr const char* unknown = "a steering entry asks for what the adapter does not have";
inline constexpr const char* too_many = "steering entries make too much of a frame";
inline constexpr const char* too_short = "a steering entry leaves no Ethernet header of a frame";
inline constexpr const char* no_tunnel = "a steering entry takes off a tunnel that is not there";
inline constexpr const char* no_object = "a steering entry leads to an object that is gone";
}  // namespace ste_end

// One way of the frame.
struct SteWay {
  uint64_t address = 0;  // of the next entry, or an end
  std::span<std::byte> frame;
  bool own = false;  // the frame is a copy of this way alone
  uint32_t tag = 0;
  SteeringRegisters registers;
};
// The one that is gone.
struct SteBranch : SteWay {
  bool known = false;  // `headers` are the frame's
  SteHeaders headers;
};

// Of one frame, over all its ways.
class SteActions {
 public:
  SteActions(SoftSteering& s, bool egress) noexcept
      : s_(s), scratch_(s.scratch_[egress]), egress_(egress) {}

  static constexpr std::size_t headroom = 256;  // of a copy, for headers in front

  // Of an entry of that type. Why the branch ends here; null: it does not.
  [[nodiscard]] const char* act(SteBranch&, std::span<const std::byte> entry,
                                uint32_t type) noexcept;

  // A further entry, or so many header actions. False: more than one frame may meet.
  bool spend(std::size_t steps) noexcept {
    steps_ += steps;
    return steps_ <= SoftSteering::most_steps;
  }

  // To be counted once the frame is gone.
  void hit(FlowCount* count, uint64_t bytes) noexcept {
    if (count != nullptr && scratch_.hits < scratch_.hit.size())
      scratch_.hit[scratch_.hits++] = {count, bytes};
  }

 private:
  const char* tunnel_action(SteBranch&, std::span<const std::byte> entry) noexcept;
  const char* take_tunnel_off(SteBranch&) noexcept;
  const char* give_ethernet(SteBranch&) noexcept;
  const char* pop_vlan(SteBranch&) noexcept;
  const char* send_action(SteBranch&, std::span<const std::byte> entry) noexcept;
  const char* push_vlan(SteBranch&, uint32_t tag) noexcept;
  const char* encapsulate(SteBranch&, uint32_t number, std::size_t gone) noexcept;
  const char* rewrite(SteBranch&, std::span<const std::byte> entry) noexcept;
  bool make_own(SteBranch&) noexcept;
  bool put_in_front(SteBranch&, std::size_t bytes) noexcept;

  SoftSteering& s_;
  SoftSteering::Scratch& scratch_;
  bool egress_;
  std::size_t copies_ = 0, steps_ = 0;
};

}  // namespace kilim::vhca::ethernet
