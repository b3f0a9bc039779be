// SPDX-License-Identifier: BSD-3-Clause
// Lookups are filled in from the headers as rules of the firmware's compare them (match_param.hh).
#include "vhca/ethernet/ste_lookup.hh"

#include <algorithm>
#include <cstring>

#include "kilim/detail/base/be.hh"
#include "kilim/prm/ste.hh"
#include "vhca/ethernet/match_param.hh"
#include "vhca/wire/crc32.hh"

namespace kilim::vhca::ethernet {

namespace {

namespace ste = prm::ste;

// PRM "FTE_MATCH_SET_LYR_2_4", read back.
class LookupLayers {
 public:
  LookupLayers(const SteHeaders& h, bool inner) noexcept
      : m_(inner ? h.deeper.inner : h.outer), misc_(h.deeper.misc), inner_(inner) {}

  [[nodiscard]] const uint8_t* smac() const noexcept { return m_.data(); }
  [[nodiscard]] const uint8_t* dmac() const noexcept { return m_.data() + 8; }
  [[nodiscard]] const uint8_t* source() const noexcept { return m_.data() + 32; }
  [[nodiscard]] const uint8_t* destination() const noexcept { return m_.data() + 48; }
  [[nodiscard]] uint32_t type() const noexcept { return number(m_, 6); }
  [[nodiscard]] uint32_t tci() const noexcept { return number(m_, 14); }
  [[nodiscard]] uint32_t protocol() const noexcept { return m_[16]; }
  [[nodiscard]] uint32_t dscp() const noexcept { return m_[17] >> 2u; }
  [[nodiscard]] uint32_t ecn() const noexcept { return m_[17] & 3u; }
  [[nodiscard]] uint32_t fragment() const noexcept { return m_[18] >> 5u & 1u; }
  [[nodiscard]] uint32_t version() const noexcept { return m_[18] >> 1u & 0xfu; }
  [[nodiscard]] uint32_t tcp_flags() const noexcept { return number(m_, 18) & 0x1ffu; }
  [[nodiscard]] uint32_t ihl() const noexcept { return m_[26] >> 4u; }
  [[nodiscard]] uint32_t ttl() const noexcept { return m_[27]; }
  [[nodiscard]] uint32_t source_port() const noexcept { return port(20); }
  [[nodiscard]] uint32_t destination_port() const noexcept { return port(22); }
  [[nodiscard]] uint32_t qualifier() const noexcept { return qualifier_of(m_[18] >> 6u); }
  [[nodiscard]] uint32_t l3_type() const noexcept {
    return version() == 4 ? ste::ipv4 : version() == 6 ? ste::ipv6 : 0;
  }
  [[nodiscard]] uint32_t l4_type() const noexcept {
    return protocol() == tcp ? ste::tcp : protocol() == udp ? ste::udp : 0;
  }
  [[nodiscard]] uint32_t second_tci() const noexcept {
    return number(misc_, inner_ ? match_place::second_inner : match_place::second_outer);
  }
  [[nodiscard]] uint32_t second_qualifier() const noexcept {
    const unsigned bits = misc_[match_place::second_tags];
    const bool c = (bits & (inner_ ? match_place::inner_cvlan : match_place::outer_cvlan)) != 0;
    const bool s = (bits & (inner_ ? match_place::inner_svlan : match_place::outer_svlan)) != 0;
    return c ? ste::cvlan : s ? ste::svlan : 0;
  }
  [[nodiscard]] uint32_t label() const noexcept {
    return misc_number(inner_ ? match_place::label_inner : match_place::label_outer);
  }
  [[nodiscard]] uint32_t misc_number(std::size_t at) const noexcept {
    return number(misc_, at) << 16 | number(misc_, at + 2);
  }
  [[nodiscard]] const MatchParam& misc() const noexcept { return misc_; }

 private:
  static constexpr uint32_t tcp = 6, udp = 17;
  static uint32_t number(const MatchParam& m, std::size_t at) noexcept {
    return uint32_t{m[at]} << 8 | m[at + 1];
  }
  // Bits: customer's above service's.
  static uint32_t qualifier_of(unsigned bits) noexcept {
    return (bits & 2u) != 0 ? ste::cvlan : (bits & 1u) != 0 ? ste::svlan : 0;
  }
  // UDP's lie 8 bytes behind TCP's.
  [[nodiscard]] uint32_t port(std::size_t at) const noexcept {
    return protocol() == udp ? number(m_, at + 8) : number(m_, at);
  }

  const MatchParam& m_;
  const MatchParam& misc_;
  bool inner_;
};

void put(SteTag& t, prm::CapField f, uint32_t value) noexcept {
  prm::cap_set(t, f, value);
}

void put_tag(SteTag& t, prm::CapField high, prm::CapField id, uint32_t tci) noexcept {
  put(t, high, tci >> 12);
  put(t, id, tci & 0xfff);
}

void fill_l2(SteTag& t, const LookupLayers& l, const uint8_t* address) noexcept {
  std::memcpy(t.data(), address, 6);
  put(t, ste::l2::l3_ethertype, l.type());
  put(t, ste::l2::first_vlan_qualifier, l.qualifier());
  put_tag(t, ste::l2::first_tci_high, ste::l2::first_vlan_id, l.tci());
  put(t, ste::l2::ip_fragmented, l.fragment());
  put(t, ste::l2::tcp_syn, l.tcp_flags() >> 1 & 1);
  put(t, ste::l2::l3_type, l.l3_type());
  put(t, ste::l2::l4_type, l.l4_type());
  put(t, ste::l2::second_vlan_qualifier, l.second_qualifier());
  put_tag(t, ste::l2::second_tci_high, ste::l2::second_vlan_id, l.second_tci());
}

void fill_l2_dst(SteTag& t, const LookupLayers& l) noexcept {
  fill_l2(t, l, l.dmac());
}

void fill_l2_src(SteTag& t, const LookupLayers& l) noexcept {
  fill_l2(t, l, l.smac());
}

void fill_l2_tunnel(SteTag& t, const LookupLayers& l) noexcept {
  std::memcpy(t.data(), l.dmac(), 6);
  put(t, ste::l2::l3_ethertype, l.type());
  put(t, ste::l2_tunnel::l2_tunneling_network_id, l.misc_number(match_place::vni));
  put(t, ste::l2::ip_fragmented, l.fragment());
  put(t, ste::l2::l3_type, l.l3_type());
  put(t, ste::l2::l4_type, l.l4_type());
  put_tag(t, ste::l2_tunnel::first_tci_high, ste::l2_tunnel::first_vlan_id, l.tci());
  put(t, ste::l2_tunnel::first_vlan_qualifier, l.qualifier());
}

void fill_l2_both(SteTag& t, const LookupLayers& l) noexcept {
  std::memcpy(t.data(), l.dmac(), 6);
  std::memcpy(t.data() + 6, l.smac(), 6);
  put(t, ste::l2_src_dst::l3_type, l.l3_type());
  put_tag(t, ste::l2_src_dst::first_tci_high, ste::l2_src_dst::first_vlan_id, l.tci());
  put(t, ste::l2_src_dst::first_vlan_qualifier, l.qualifier());
}

uint32_t ipv4_address(const uint8_t* of_16) noexcept {
  be32 word;
  std::memcpy(&word, of_16 + 12, sizeof word);
  return word.host();
}

void fill_tuple(SteTag& t, const LookupLayers& l) noexcept {
  namespace f = ste::ipv4_5_tuple;
  if (l.version() != 4) return;
  put(t, f::destination_address, ipv4_address(l.destination()));
  put(t, f::source_address, ipv4_address(l.source()));
  put(t, f::source_port, l.source_port());
  put(t, f::destination_port, l.destination_port());
  put(t, f::fragmented, l.fragment());
  put(t, f::ecn, l.ecn());
  put(t, f::tcp_flags, l.tcp_flags());
  put(t, f::dscp, l.dscp());
  put(t, f::protocol, l.protocol());
}

void fill_ipv4_more(SteTag& t, const LookupLayers& l) noexcept {
  if (l.version() != 4) return;
  put(t, ste::ipv4_more::version, 4);
  put(t, ste::ipv4_more::ihl, l.ihl());
  put(t, ste::ipv4_more::time_to_live, l.ttl());
}

void fill_ipv6_dst(SteTag& t, const LookupLayers& l) noexcept {
  if (l.version() == 6) std::memcpy(t.data(), l.destination(), t.size());
}

void fill_ipv6_src(SteTag& t, const LookupLayers& l) noexcept {
  if (l.version() == 6) std::memcpy(t.data(), l.source(), t.size());
}

void fill_l4(SteTag& t, const LookupLayers& l) noexcept {
  namespace f = ste::l4;
  put(t, f::fragmented, l.fragment());
  put(t, f::protocol, l.protocol());
  put(t, f::dst_port, l.destination_port());
  put(t, f::ecn, l.ecn());
  put(t, f::tcp_flags, l.tcp_flags());
  put(t, f::src_port, l.source_port());
  put(t, f::ipv6_hop_limit, l.ttl());
  put(t, f::dscp, l.dscp());
  put(t, f::flow_label, l.label() & 0xfffff);
}

void fill_gre(SteTag& t, const LookupLayers& l) noexcept {
  put(t, ste::gre::present, l.misc()[0] >> 4u);
  put(t, ste::gre::gre_protocol, l.misc_number(match_place::gre_protocol) >> 16);
  put(t, ste::gre::gre_key, l.misc_number(match_place::gre_key));
}

void fill_registers(SteTag& t, uint64_t first, uint64_t second) noexcept {
  const be64 words[] = {be64{first}, be64{second}};
  std::memcpy(t.data(), words, sizeof words);
}

// Of headers; by number.
struct Lookup {
  uint8_t number;
  bool inner;
  void (*fill)(SteTag&, const LookupLayers&) noexcept;
};
constexpr bool of_outer = false, of_inner = true;
namespace lu = ste::lookup;
constexpr Lookup lookups[] = {
    {lu::l2_dst_o, of_outer, fill_l2_dst},
    {lu::l2_dst_d, of_outer, fill_l2_dst},
    {lu::l2_dst_i, of_inner, fill_l2_dst},
    {lu::l2_src_o, of_outer, fill_l2_src},
    {lu::l2_src_d, of_outer, fill_l2_src},
    {lu::l2_src_i, of_inner, fill_l2_src},
    {lu::l2_tunnel_i, of_inner, fill_l2_tunnel},
    {lu::l2_src_dst_o, of_outer, fill_l2_both},
    {lu::l2_src_dst_d, of_outer, fill_l2_both},
    {lu::l2_src_dst_i, of_inner, fill_l2_both},
    {lu::ipv6_dst_o, of_outer, fill_ipv6_dst},
    {lu::ipv6_dst_d, of_outer, fill_ipv6_dst},
    {lu::ipv6_dst_i, of_inner, fill_ipv6_dst},
    {lu::ipv6_src_o, of_outer, fill_ipv6_src},
    {lu::ipv6_src_d, of_outer, fill_ipv6_src},
    {lu::ipv6_src_i, of_inner, fill_ipv6_src},
    {lu::ipv4_5_tuple_o, of_outer, fill_tuple},
    {lu::ipv4_5_tuple_d, of_outer, fill_tuple},
    {lu::ipv4_5_tuple_i, of_inner, fill_tuple},
    {lu::ipv4_misc_o, of_outer, fill_ipv4_more},
    {lu::ipv4_misc_d, of_outer, fill_ipv4_more},
    {lu::ipv4_misc_i, of_inner, fill_ipv4_more},
    {lu::l4_o, of_outer, fill_l4},
    {lu::l4_d, of_outer, fill_l4},
    {lu::l4_i, of_inner, fill_l4},
    {lu::gre_header, of_outer, fill_gre},
};

}  // namespace

SteHeaders read_headers(std::span<const std::byte> frame) noexcept {
  return {outer_headers(frame), deep_headers(frame), 0};
}

bool look_up(uint8_t lookup, const SteHeaders& h, const SteeringRegisters& r, SteTag& t) noexcept {
  t = {};
  switch (lookup) {
    case lu::nop:
      return true;
    case lu::source_queue:
      put(t, ste::source::source_qp, h.source_queue);
      return true;
    case lu::general_purpose:
      fill_registers(t, r.metadata << 32, 0);
      return true;
    case lu::registers_0:
      fill_registers(t, r.reg[0], r.reg[1]);
      return true;
    case lu::registers_1:
      fill_registers(t, r.reg[2], r.reg[3]);
      return true;
    default:
      break;
  }
  const auto* row = std::find_if(std::begin(lookups), std::end(lookups),
                                 [lookup](const Lookup& l) { return l.number == lookup; });
  if (row == std::end(lookups)) return false;
  row->fill(t, LookupLayers(h, row->inner));
  return true;
}

uint32_t hash_place(const SteTag& found, uint16_t byte_mask, uint32_t entries) noexcept {
  if (entries <= 1 || byte_mask == 0) return 0;
  SteTag masked{};
  for (std::size_t i = 0; i < found.size(); i++)
    if ((byte_mask >> (found.size() - 1 - i) & 1u) != 0) masked[i] = found[i];
  const uint32_t crc = wire::crc32_add(0, masked);
  return __builtin_bswap32(crc) & (entries - 1);
}

}  // namespace kilim::vhca::ethernet
