// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/header_commands.hh"

#include <algorithm>
#include <span>

#include "kilim/prm/flow_table.hh"

namespace kilim::mlx5 {
namespace {

using Header = flow::Rewrite::Header;

// PRM "Set Action", "Add Action": a run of bits of a header, by its number in Linux
// include/linux/mlx5/mlx5_ifc.h (MLX5_ACTION_IN_FIELD_*).
struct Part {
  uint16_t field;
  uint8_t bits;  // at most 32
};
using Parts = std::array<Part, 4>;

// The parts of a header from its highest bits on; those without bits are none.
Parts parts_of(Header header, const flow::Match& match) noexcept {
  const auto tcp_or = [&match](uint16_t tcp, uint16_t udp) noexcept {
    return Parts{{{match.tcp ? tcp : udp, 16}}};
  };
  switch (header) {
    case Header::eth_src:
      return {{{0x01, 32}, {0x02, 16}}};
    case Header::eth_dst:
      return {{{0x04, 32}, {0x05, 16}}};
    case Header::ipv4_src:
      return {{{0x15, 32}}};
    case Header::ipv4_dst:
      return {{{0x16, 32}}};
    case Header::ipv6_src:
      return {{{0x0d, 32}, {0x0e, 32}, {0x0f, 32}, {0x10, 32}}};
    case Header::ipv6_dst:
      return {{{0x11, 32}, {0x12, 32}, {0x13, 32}, {0x14, 32}}};
    case Header::port_src:
      return tcp_or(0x08, 0x0b);
    case Header::port_dst:
      return tcp_or(0x09, 0x0c);
    case Header::ttl:
      return {{{match.ipv6 ? uint16_t{0x47} : uint16_t{0x0a}, 8}}};
    case Header::dscp:
      return {{{0x06, 6}}};
    case Header::vlan_id:
      return {{{0x17, 12}}};
    case Header::eth_type:
      return {{{0x03, 16}}};
    case Header::tcp_seq:
      return {{{0x59, 32}}};
    case Header::tcp_ack:
      return {{{0x5b, 32}}};
    case Header::tcp_flags:
      return {{{0x07, 9}}};
  }
  return {};
}

// Bits `from` to `to` of a header's value, counted from its lowest one.
uint32_t bits_in(const flow::Rewrite& r, unsigned from, unsigned to) noexcept {
  const unsigned last = (flow::width_of(r.header) + 7u) / 8 - 1;  // byte
  uint32_t bits = 0;
  for (unsigned i = to; i-- > from;) bits = bits << 1 | (r.value[last - i / 8] >> i % 8 & 1u);
  return bits;
}

}  // namespace

void HeaderCommands::add(const flow::Rewrite& r, const flow::Match& match) noexcept {
  namespace s = prm::set_action;
  const unsigned width = flow::width_of(r.header), top = width - r.skipped,
                 bottom = top - (r.bits != 0 ? r.bits : width);
  unsigned low = width;
  for (const Part& part : parts_of(r.header, match)) {
    if (part.bits == 0) break;
    low -= part.bits;
    const unsigned from = std::max(low, bottom), to = std::min(low + part.bits, top);
    if (from >= to) continue;
    const auto command = std::as_writable_bytes(std::span(words_)).subspan(bytes(), s::bytes);
    prm::cap_set(command, s::action_type, r.adds ? s::add : s::set);
    prm::cap_set(command, s::field, part.field);
    prm::cap_set(command, s::offset, from - low);
    prm::cap_set(command, s::length, (to - from) % 32);  // 0: 32 bits
    prm::cap_set(command, s::data, bits_in(r, from, to));
    used_++;
  }
}

}  // namespace kilim::mlx5
