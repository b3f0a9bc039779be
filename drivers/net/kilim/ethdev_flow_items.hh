// SPDX-License-Identifier: BSD-3-Clause
// What the readers of rte_flow's items share: an item's words under its mask, refusals, and the
// readers of each layer. For ethdev_flow*.cc alone, on the caller's thread; pure functions.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "kilim/detail/base/be.hh"
#include "net/kilim/ethdev_flow.hh"

namespace kilim::net {

inline FlowRefusal refuse_item(const rte_flow_item& item, rte_flow_error_type type,
                               const char* what) {
  return {ENOTSUP, type, &item, what};
}

template <std::size_t n>
flow::Masked<std::array<uint8_t, n>> bytes_of(const uint8_t* value, const uint8_t* mask) noexcept {
  flow::Masked<std::array<uint8_t, n>> m;
  for (std::size_t i = 0; i < n; i++) {
    m.mask[i] = mask[i];
    m.value[i] = value[i] & mask[i];
  }
  return m;
}
inline flow::Masked<uint16_t> number_of(rte_be16_t value, rte_be16_t mask) noexcept {
  const uint16_t m = be16::from_raw(mask).host();
  return {static_cast<uint16_t>(be16::from_raw(value).host() & m), m};
}
inline flow::Masked<uint32_t> long_number_of(rte_be32_t value, rte_be32_t mask) noexcept {
  const uint32_t m = be32::from_raw(mask).host();
  return {be32::from_raw(value).host() & m, m};
}
inline flow::Masked<uint8_t> number_of(uint8_t value, uint8_t mask) noexcept {
  return {static_cast<uint8_t>(value & mask), mask};
}

// An item's words, and those of its mask that nobody has read yet.
template <typename T>
struct Words {
  T value{}, mask{}, last{};
  bool named = false;   // any of them
  bool ranges = false;  // `last` is there
};

// Whether `last` makes no range of any word outside `ranged` (DPDK 22.11
// drivers/net/mlx5/mlx5_flow.c, mlx5_flow_item_acceptable(): as spec under the mask).
template <typename T>
bool is_no_range(const Words<T>& w, const T& ranged) noexcept {
  const auto bytes = [](const T& t) { return reinterpret_cast<const uint8_t*>(&t); };
  for (std::size_t i = 0; i < sizeof(T); i++) {
    const auto counts = static_cast<uint8_t>(bytes(w.mask)[i] & ~bytes(ranged)[i]);
    if (((bytes(w.value)[i] ^ bytes(w.last)[i]) & counts) != 0) return false;
  }
  return true;
}

// `ranged` has ones in the words that the reader takes ranges of.
template <typename T>
FlowRefusal words_of(const rte_flow_item& item, const T& usual, Words<T>& w,
                     const T& ranged = T{}) {
  if (item.spec == nullptr && (item.mask != nullptr || item.last != nullptr))
    return {EINVAL, RTE_FLOW_ERROR_TYPE_ITEM, &item, "a mask or a range without a value"};
  if (item.spec == nullptr) return {};
  w.named = true;
  w.ranges = item.last != nullptr;
  std::memcpy(static_cast<void*>(&w.value), item.spec, sizeof(T));
  std::memcpy(static_cast<void*>(&w.mask), item.mask != nullptr ? item.mask : &usual, sizeof(T));
  std::memcpy(static_cast<void*>(&w.last), w.ranges ? item.last : item.spec, sizeof(T));
  if (!is_no_range(w, ranged))
    return refuse_item(item, RTE_FLOW_ERROR_TYPE_ITEM_LAST,
                       "rules have no ranges: leave `last` out, or let it equal `spec`");
  return {};
}

// Refuses an item whose mask has words left.
template <typename T>
FlowRefusal all_read(const rte_flow_item& item, const T& mask) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&mask);
  const bool none = std::all_of(bytes, bytes + sizeof(T), [](uint8_t b) { return b == 0; });
  return none ? FlowRefusal{}
              : refuse_item(item, RTE_FLOW_ERROR_TYPE_ITEM_MASK,
                            "the item's mask names a field that no rule of this port has");
}

// The protocol of the IP layer so far; null: there is no such layer.
flow::Masked<uint8_t>* protocol_of(flow::Match& match) noexcept;
// Lets the IP layer name this protocol, unless it names another one.
FlowRefusal name_protocol(const rte_flow_item& item, flow::Match& match, uint8_t number);

// Defined in net/kilim/ethdev_flow_l4.cc.
FlowRefusal read_tcp(const rte_flow_item& item, flow::Match& match);
FlowRefusal read_udp(const rte_flow_item& item, flow::Match& match);
FlowRefusal read_icmp4(const rte_flow_item& item, flow::Match& match);
FlowRefusal read_icmp6(const rte_flow_item& item, flow::Match& match);
FlowRefusal read_esp(const rte_flow_item& item, flow::Match& match);

// Defined in net/kilim/ethdev_flow_tunnels.cc.
FlowRefusal read_vxlan(const rte_flow_item& item, flow::Match& match);
FlowRefusal read_gre(const rte_flow_item& item, flow::Match& match);
FlowRefusal read_gre_key(const rte_flow_item& item, flow::Match& match);
FlowRefusal read_gre_option(const rte_flow_item& item, flow::Match& match);
FlowRefusal read_nvgre(const rte_flow_item& item, flow::Match& match);

}  // namespace kilim::net
