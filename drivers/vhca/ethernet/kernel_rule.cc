// SPDX-License-Identifier: BSD-3-Clause
// Every rule is read as one by buffer (match_param.hh); what a field of "FTE_MATCH_SET_LYR_2_4"
// asks for becomes a comparison at the place where the header has it. A field that no comparison
// has said is left over, and the rule is not said at all: half of it would take other frames.
#include "vhca/ethernet/kernel_rule.hh"

#include <algorithm>
#include <optional>
#include <span>

#include "kilim/prm/match_param.hh"
#include "vhca/ethernet/match_param.hh"

namespace kilim::vhca::ethernet {

namespace {

namespace place = prm::match_lyr_2_4;
using From = wire::FrameMatch::From;
using Bytes = std::span<const uint8_t>;

// Where fields begin, in bytes of the buffer.
constexpr std::size_t ether_type_at = place::ethertype.bit / 8, vlan_at = place::vlan_tci.bit / 8,
                      protocol_at = place::ip_protocol.bit / 8, tos_at = place::ip_tos.bit / 8,
                      flags_at = place::cvlan_tag.bit / 8, low_flags_at = flags_at + 1,
                      tcp_at = place::tcp_sport.bit / 8, ihl_at = 26, ttl_at = 27,
                      udp_at = place::udp_sport.bit / 8;
constexpr uint8_t cvlan = 0x80, svlan = 0x40, frag = 0x20, version_bits = 0x1e, ninth_tcp_flag = 1;
constexpr uint8_t tcp = 6, udp = 17;
constexpr std::size_t address_bytes = 16;

constexpr const char* tunnels = "it looks into a tunnel or at a second tag";
constexpr const char* unknown = "it looks at a field that a packet filter does not compare so";
constexpr const char* zeros = "it asks of a header that it be missing";

struct Compared {
  From from;
  uint8_t at;
};

class Translation {
 public:
  explicit Translation(const FlowSpec& spec) {
    FlowSpec s = spec;
    if (!s.by_buffer) use_buffer(s, FlowSpec{}, DeepMatch{}, DeepMatch{});
    value_ = s.buffer;
    mask_ = left_ = s.buffer_mask;
    if (!s.deep) return;
    MatchParam& misc = s.deeper_mask.misc;
    const auto label = std::span(misc).subspan(match_place::label_outer, sizeof(label_mask_));
    std::copy(label.begin(), label.end(), label_mask_);
    std::copy_n(s.deeper.misc.begin() + match_place::label_outer, sizeof(label_), label_);
    std::fill(label.begin(), label.end(), uint8_t{0});
    const auto any = [](const MatchParam& m) {
      return std::any_of(m.begin(), m.end(), [](uint8_t b) { return b != 0; });
    };
    if (any(misc) || any(s.deeper_mask.inner)) why_ = tunnels;
  }

  KernelRule result() {
    KernelRule rule;
    for (const unsigned version : versions()) {
      now_ = {};
      left_ = mask_;
      possible_ = true;
      put_link();
      put_ip(version);
      put_ports(version);
      if (why_ == nullptr && possible_ &&
          std::any_of(left_.begin(), left_.end(), [](uint8_t b) { return b != 0; }))
        why_ = unknown;
      if (possible_) rule.matches.push_back(std::move(now_));
    }
    rule.why = why_;
    if (why_ != nullptr) rule.matches.clear();
    return rule;
  }

 private:
  [[nodiscard]] static bool any(Bytes bytes) {
    return std::any_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b != 0; });
  }
  [[nodiscard]] bool asks(std::size_t at, std::size_t bytes) const {
    return any(Bytes(mask_).subspan(at, bytes));
  }
  [[nodiscard]] bool is_set(std::size_t at, uint8_t bit) const { return (value_[at] & bit) != 0; }
  [[nodiscard]] unsigned type() const {
    return unsigned{value_[ether_type_at]} << 8 | value_[ether_type_at + 1];
  }

  // Versions of IP whose frames the rule may take, each a way of its own to say it; 0: whatever.
  std::vector<unsigned> versions() {
    if ((mask_[flags_at] & version_bits) != 0) {
      const unsigned version = (value_[flags_at] & version_bits) >> 1;
      const bool known = (mask_[flags_at] & version_bits) == version_bits;
      if (!known || (version != 4 && version != 6)) return refuse(unknown);
      return {version};
    }
    const bool typed = mask_[ether_type_at] == 0xff && mask_[ether_type_at + 1] == 0xff;
    if (typed && type() == 0x0800) return {4};
    if (typed && type() == 0x86dd) return {6};
    const bool of_ip = asks(tos_at, 1) || (mask_[flags_at] & (frag | ninth_tcp_flag)) != 0 ||
                       asks(low_flags_at, MatchParam{}.size() - low_flags_at) || any(label_mask_);
    if (!of_ip && !asks(protocol_at, 1)) return {0};
    // A frame without the header has zeros there: it would match too.
    MatchParam l3 = value_;
    std::fill_n(l3.begin(), protocol_at, uint8_t{0});
    l3[flags_at] &= static_cast<uint8_t>(~(cvlan | svlan));
    if (!any(l3) && !any(label_)) return refuse(zeros);
    if (!of_ip) return {0};
    return {4, 6};
  }
  std::vector<unsigned> refuse(const char* why) {
    why_ = why;
    return {};
  }

  void put(Compared to, Bytes value, Bytes mask, bool differs = false) {
    wire::FrameMatch::Compare c{to.from, to.at, static_cast<uint8_t>(value.size()),
                                differs, {},    {}};
    for (std::size_t i = 0; i < value.size(); i++) {
      c.mask[i] = mask[i];
      c.value[i] = value[i] & mask[i];
    }
    now_.compares.push_back(c);
  }
  void put_number(Compared to, unsigned value, unsigned mask, bool differs = false) {
    const uint8_t v[] = {static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(value)};
    const uint8_t m[] = {static_cast<uint8_t>(mask >> 8), static_cast<uint8_t>(mask)};
    put(to, v, m, differs);
  }
  void put_byte(Compared to, uint8_t value, uint8_t mask, bool differs = false) {
    put(to, {&value, 1}, {&mask, 1}, differs);
  }
  void said(std::size_t at, std::size_t bytes) {
    std::fill_n(left_.begin() + at, bytes, uint8_t{0});
  }
  // A field whose bytes lie in the header as in the buffer.
  void put_field(std::size_t at, std::size_t bytes, Compared to) {
    if (asks(at, bytes)) put(to, Bytes(value_).subspan(at, bytes), Bytes(mask_).subspan(at, bytes));
    said(at, bytes);
  }

  // The first tag is either kind's, or there is none.
  void put_tag_kind(uint8_t bit, unsigned ether_type) {
    if ((mask_[flags_at] & bit) != 0)
      put_number({From::link, 12}, ether_type, 0xffff, !is_set(flags_at, bit));
    left_[flags_at] &= static_cast<uint8_t>(~bit);
  }
  void put_link() {
    put_field(place::dmac, 6, {From::link, 0});
    put_field(place::smac, 6, {From::link, 6});
    put_field(ether_type_at, 2, {From::type, 0});
    put_tag_kind(cvlan, 0x8100);
    put_tag_kind(svlan, 0x88a8);
    const bool tagged = (mask_[flags_at] & value_[flags_at] & (cvlan | svlan)) != 0;
    if (tagged) put_field(vlan_at, 2, {From::link, 14});
  }

  void put_ip(unsigned version) {
    left_[flags_at] &= static_cast<uint8_t>(~version_bits);
    put_field(protocol_at, 1, {From::protocol, 0});
    if (version == 0) return;
    put_number({From::type, 0}, version == 4 ? 0x0800 : 0x86dd, 0xffff);
    put_addresses(version == 4);
    put_field(ttl_at, 1, {From::network, static_cast<uint8_t>(version == 4 ? 8 : 7)});
    if ((mask_[flags_at] & frag) != 0) put_fragment(version, is_set(flags_at, frag));
    left_[flags_at] &= static_cast<uint8_t>(~frag);
    if (version == 4) {
      put_field(tos_at, 1, {From::network, 1});
      if (asks(ihl_at, 1)) put_byte({From::network, 0}, value_[ihl_at] >> 4, mask_[ihl_at] >> 4);
      left_[ihl_at] &= 0x0f;
      possible_ = possible_ && !any(label_);
      return;
    }
    if (asks(tos_at, 1))
      put_number({From::network, 0}, unsigned{value_[tos_at]} << 4, unsigned{mask_[tos_at]} << 4);
    said(tos_at, 1);
    if (any(label_mask_)) put({From::network, 0}, label_, label_mask_);
  }
  // Of version 4 they are the last four bytes, behind zeros.
  void put_addresses(bool four) {
    const struct {
      std::size_t at;
      uint8_t four, six;
    } addresses[] = {{place::src_ip, 12, 8}, {place::dst_ip, 16, 24}};
    for (const auto& a : addresses) {
      if (!four) {
        put_field(a.at, address_bytes, {From::network, a.six});
        continue;
      }
      possible_ = possible_ && !any(Bytes(value_).subspan(a.at, address_bytes - 4));
      said(a.at, address_bytes - 4);
      put_field(a.at + address_bytes - 4, 4, {From::network, a.four});
    }
  }
  void put_fragment(unsigned version, bool is_one) {
    if (version == 4)
      put_number({From::network, 6}, 0, 0x3fff, is_one);
    else
      put_byte({From::fragment, 0}, 1, 0xff, !is_one);
  }

  // The device finds no ports in a fragment, not in the first one either.
  void put_ports(unsigned version) {
    const bool flags = asks(low_flags_at, 1) || (mask_[flags_at] & ninth_tcp_flag) != 0;
    const bool of_tcp = flags || asks(tcp_at, 4), of_udp = asks(udp_at, 4);
    if (!of_tcp && !of_udp) return;
    if (version == 0 || (of_tcp && of_udp)) {
      why_ = unknown;
      return;
    }
    put_fragment(version, false);
    put_byte({From::protocol, 0}, of_tcp ? tcp : udp, 0xff);
    // A fragment, and a frame of another protocol, has zeros there.
    const unsigned tcp_flags =
        (value_[flags_at] & unsigned{ninth_tcp_flag}) << 8 | value_[low_flags_at];
    if (tcp_flags == 0 && !any(Bytes(value_).subspan(of_tcp ? tcp_at : udp_at, 4))) why_ = zeros;
    put_field(tcp_at, 4, {From::transport, 0});
    put_field(udp_at, 4, {From::transport, 0});
    if (flags)
      put_number({From::transport, 12}, tcp_flags,
                 (mask_[flags_at] & unsigned{ninth_tcp_flag}) << 8 | mask_[low_flags_at]);
    left_[flags_at] &= static_cast<uint8_t>(~ninth_tcp_flag);
    said(low_flags_at, 1);
  }

  MatchParam value_{}, mask_{}, left_{};
  uint8_t label_[4] = {}, label_mask_[4] = {};  // of IPv6
  const char* why_ = nullptr;
  wire::FrameMatch now_;
  bool possible_ = true;  // some frame of the version at hand may match
};

}  // namespace

KernelRule kernel_rule_of(const FlowSpec& spec) {
  KernelRule rule;
  if (spec.type == FlowSpec::Type::mc_default) {
    wire::FrameMatch::Compare group{From::link, 0, 1, false, {1}, {1}};
    rule.matches.push_back({{group}});
  } else if (spec.type == FlowSpec::Type::all_default) {
    rule.matches.emplace_back();
  } else {
    return Translation(spec).result();
  }
  return rule;
}

}  // namespace kilim::vhca::ethernet
