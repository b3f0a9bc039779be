// SPDX-License-Identifier: BSD-3-Clause
// rdma-core v44 providers/mlx5/dr_ste_v0.c says what software means by the fields of an entry.
#include "vhca/ethernet/ste_action.hh"

#include <algorithm>
#include <cstring>

#include "vhca/ethernet/frame_out.hh"
#include "vhca/wire/packet.hh"
#include "vhca/wire/tunnel.hh"

namespace kilim::vhca::ethernet {

namespace ste = prm::ste;

namespace {

constexpr std::size_t vlan_bytes = 4, both_macs = 12;  // in front of a tag
// mlx5_ifc.h, ste_modify_packet; beside tunnel_decap_l3 1: the new header has a tag.
constexpr prm::CapField action_description{0xa4, 4};

}  // namespace

const char* SteActions::act(SteBranch& b, std::span<const std::byte> entry,
                            uint32_t type) noexcept {
  const uint32_t counter =
      ste_get(entry, ste::counter_trigger_23_16) << 16 | ste_get(entry, ste::counter_trigger_15_0);
  if (counter != 0) hit(s_.counters->at(counter), b.frame.size());
  if (egress_ && type == ste::type_tx) return send_action(b, entry);
  if (const char* why = tunnel_action(b, entry)) return why;
  if (type == ste::type_modify_packet) return rewrite(b, entry);
  const uint32_t pointer = ste_get(entry, ste::qp_list_pointer);
  if ((pointer & ste::has_flow_tag) != 0) b.tag = pointer & 0xffffff;
  return nullptr;
}

const char* SteActions::tunnel_action(SteBranch& b, std::span<const std::byte> entry) noexcept {
  switch (ste_get(entry, ste::tunneling_action)) {
    case ste::tunnel_none:
    case ste::tunnel_enable:
      return nullptr;
    case ste::tunnel_decap:
      return take_tunnel_off(b);
    case ste::tunnel_pop_vlan:
      return pop_vlan(b);
    case ste::tunnel_decap_l3:
      if (ste_get(entry, action_description) == 0) return give_ethernet(b);
      return ste_end::unknown;  // what a tag's fields are then is said nowhere
    default:
      return ste_end::unknown;
  }
}

const char* SteActions::take_tunnel_off(SteBranch& b) noexcept {
  const wire::TunnelView t = wire::parse_removable(b.frame, wire::parse_packet(b.frame));
  if (t.kind == wire::TunnelKind::none || !t.has_ether ||
      b.frame.size() < t.inner_at + wire::ether_header_bytes)
    return ste_end::no_tunnel;
  b.frame = b.frame.subspan(t.inner_at);
  b.known = false;
  return nullptr;
}

// A packet that lay in the tunnel without an Ethernet header gets one of zeros, which the entry's
// header actions fill (dr_ste_v0_set_rx_decap_l3(), dr_ste_v0_set_action_decap_l3_list()).
const char* SteActions::give_ethernet(SteBranch& b) noexcept {
  const wire::TunnelView t = wire::parse_removable(b.frame, wire::parse_packet(b.frame));
  if (t.kind == wire::TunnelKind::none || t.has_ether || b.frame.size() < t.inner_at)
    return ste_end::no_tunnel;
  if (!make_own(b)) return ste_end::too_many;
  b.frame = b.frame.subspan(t.inner_at - wire::ether_header_bytes);
  std::fill_n(b.frame.begin(), wire::ether_header_bytes, std::byte{0});
  return nullptr;
}

// A frame without a tag stays as it is.
const char* SteActions::pop_vlan(SteBranch& b) noexcept {
  if (wire::parse_packet(b.frame).tags == 0) return nullptr;
  if (!make_own(b)) return ste_end::too_many;
  std::memmove(b.frame.data() + vlan_bytes, b.frame.data(), both_macs);
  b.frame = b.frame.subspan(vlan_bytes);
  return nullptr;
}

const char* SteActions::send_action(SteBranch& b, std::span<const std::byte> entry) noexcept {
  const uint32_t data = ste_get(entry, ste::encap_pointer_vlan_data);
  switch (ste_get(entry, ste::action_type)) {
    case ste::action_none:
      return nullptr;
    case ste::action_push_vlan:
      return push_vlan(b, data);
    case ste::action_encap:
      return encapsulate(b, data, 0);
    case ste::action_encap_l3:
      return encapsulate(b, data,
                         wire::ether_header_bytes + vlan_bytes * wire::parse_packet(b.frame).tags);
    default:
      return ste_end::unknown;
  }
}

const char* SteActions::push_vlan(SteBranch& b, uint32_t tag) noexcept {
  if (!make_own(b) || !put_in_front(b, vlan_bytes)) return ste_end::too_many;
  std::memmove(b.frame.data(), b.frame.data() + vlan_bytes, both_macs);
  wire::put_be(b.frame, both_macs, tag);
  return nullptr;
}

// Headers in the place of the first `gone` bytes. Those that follow read an Ethernet header.
const char* SteActions::encapsulate(SteBranch& b, uint32_t number, std::size_t gone) noexcept {
  const Prepend* p = s_.reformats.at(number & 0xffffff);
  if (p == nullptr || gone > b.frame.size()) return ste_end::no_object;
  if (!make_own(b)) return ste_end::too_many;
  if (b.frame.size() - gone + p->count < wire::ether_header_bytes) return ste_end::too_short;
  b.frame = b.frame.subspan(gone);
  if (!put_in_front(b, p->count)) return ste_end::too_many;
  std::copy_n(p->bytes.begin(), p->count, b.frame.begin());
  finish_headers(b.frame, p->count);
  return nullptr;
}

const char* SteActions::rewrite(SteBranch& b, std::span<const std::byte> entry) noexcept {
  const uint32_t count = ste_get(entry, ste::number_of_re_write_actions);
  const uint64_t at =
      s_.icm.rewrite.start() +
      uint64_t{ste_get(entry, ste::header_re_write_actions_pointer)} * ste::rewrite_unit;
  const bool in_time = spend(count);
  const auto list = s_.icm.rewrite.at(at, std::size_t{count} * ste::rewrite::bytes);
  if (list.empty() && count != 0) return ste_end::no_entry;
  if (!in_time) return ste_end::no_end;
  if (!make_own(b)) return ste_end::too_many;
  for (std::size_t i = 0; i < count; i++) {
    const auto action = read_action(list.subspan(i * ste::rewrite::bytes, ste::rewrite::bytes));
    if (!action) return ste_end::unknown;
    rewrite_frame({&*action, 1}, b.frame, b.registers);
  }
  return nullptr;
}

// A copy that the branch may change. False: there were too many.
bool SteActions::make_own(SteBranch& b) noexcept {
  b.known = false;  // whoever asks changes it
  if (b.own) return true;
  if (copies_ == SoftSteering::most_copies || headroom + b.frame.size() > s_.copy_bytes_)
    return false;
  std::byte* to = scratch_.copies.data() + copies_++ * s_.copy_bytes_ + headroom;
  std::memcpy(to, b.frame.data(), b.frame.size());
  b.frame = {to, b.frame.size()};
  b.own = true;
  return true;
}

// False: there is no room in front of the copy.
bool SteActions::put_in_front(SteBranch& b, std::size_t bytes) noexcept {
  const std::byte* begin =
      scratch_.copies.data() + static_cast<std::size_t>(b.frame.data() - scratch_.copies.data()) /
                                   s_.copy_bytes_ * s_.copy_bytes_;
  if (static_cast<std::size_t>(b.frame.data() - begin) < bytes) return false;
  b.frame = {b.frame.data() - bytes, b.frame.size() + bytes};
  return true;
}

}  // namespace kilim::vhca::ethernet
