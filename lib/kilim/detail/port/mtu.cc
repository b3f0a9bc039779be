// SPDX-License-Identifier: BSD-3-Clause
// A port's MTU: what its receives have room for, and what its device is told between start() and
// stop(). Parts of Port; control lcore. Never touches a frame.
#include <algorithm>
#include <cerrno>

#include "kilim/detail/base/error_text.hh"
#include "kilim/detail/port/mtu_range.hh"
#include "kilim/detail/port/port.hh"

namespace kilim::inline v1::port {
namespace {

constexpr Error no_room{EINVAL,
                        "frames of this MTU do not fit into a receive of the port's queues"};

}  // namespace

bool Port::holds_frames_of(uint32_t mtu) const noexcept {
  return std::all_of(rx_.begin(), rx_.end(), [&](const RxSlot& rx) {
    return rx.setup.cache == nullptr || longest_packet(rx.setup, arena_) >= mtu + frame_overhead;
  });
}

// The device knows the port, so that nothing is left to refuse.
void Port::limit_frames(uint32_t mtu) noexcept {
  (void)parts_.limit_frames(device().name(), parts_.number, mtu);
}

Status Port::set_mtu(uint32_t mtu) {
  const std::lock_guard lock{shape_};
  if (mtu != 0 && (mtu < shortest_mtu || mtu > longest_mtu))
    return error_with(EINVAL, "an MTU is %u to %u bytes, or 0 for none: %u is not", shortest_mtu,
                      longest_mtu, mtu);
  if (mtu != 0 && !holds_frames_of(mtu)) return no_room;
  if (parts_.limit_frames == nullptr)
    return Error{ENODEV, "only ports of virtual devices take an MTU here"};
  // A stopped port has no limit, and a card's never: asking shows whether it takes one.
  const uint32_t now = started_ ? mtu : 0;
  if (Status s = parts_.limit_frames(device().name(), parts_.number, now); !s) return s;
  mtu_ = mtu;
  return Done{};
}

Status Port::begin_mtu() noexcept {
  if (mtu_ == 0) return Done{};
  if (!holds_frames_of(mtu_)) return no_room;
  limit_frames(mtu_);
  return Done{};
}

void Port::end_mtu() noexcept {
  if (mtu_ != 0) limit_frames(0);
}

}  // namespace kilim::inline v1::port
