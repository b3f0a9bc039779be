// SPDX-License-Identifier: BSD-3-Clause
// Steering rules: a short list in order of precedence, walked for each frame.
#include "vhca/ethernet/steering.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kilim/base/be.hh"

namespace kilim::vhca {

namespace {

constexpr uint16_t tag_type = 0x8100;

constexpr uint8_t tcp = 6, udp = 17;

struct Header {
  Mac dst, src;
  uint16_t ether_type;  // behind the tag, if there is one
  uint16_t vlan_tag;
  bool tagged;
  [[nodiscard]] bool multicast() const noexcept { return (dst[0] & 1) != 0; }
};

uint16_t number_at(std::span<const std::byte> frame, std::size_t at) noexcept {
  be16 v;
  std::memcpy(&v, frame.data() + at, sizeof(v));
  return v.host();
}

Header read_header(std::span<const std::byte> frame) noexcept {
  Header h{};
  std::memcpy(h.dst.data(), frame.data(), 6);
  std::memcpy(h.src.data(), frame.data() + 6, 6);
  h.ether_type = number_at(frame, 12);
  h.tagged = h.ether_type == tag_type && frame.size() >= 18;
  if (h.tagged) {
    h.vlan_tag = number_at(frame, 14);
    h.ether_type = number_at(frame, 16);
  }
  return h;
}

bool same_under_mask(const Mac& a, const Mac& b, const Mac& mask) noexcept {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (((a[i] ^ b[i]) & mask[i]) != 0) return false;
  }
  return true;
}

// What the card's parser makes of the headers. It does not ask whether lengths make sense, only
// whether the headers are there.
struct Layers {
  uint8_t version = 0;  // 4, 6; 0: no IP
  std::size_t ip_at = 0;
  uint8_t protocol = 0;
  std::size_t ports_at = 0;  // 0: none, of a fragment too
};

Layers read_ipv4(std::span<const std::byte> frame, std::size_t at) noexcept {
  constexpr uint16_t fragment_bits = 0x3fff;
  std::size_t header = (std::to_integer<std::size_t>(frame[at]) & 15) * 4;
  if (header < 20) return {};
  Layers l{4, at, std::to_integer<uint8_t>(frame[at + 9]), at + header};
  if ((number_at(frame, at + 6) & fragment_bits) != 0) l.ports_at = 0;
  return l;
}

Layers read_ipv6(std::span<const std::byte> frame, std::size_t at) noexcept {
  constexpr uint8_t hop_by_hop = 0, routing = 43, destination = 60;
  Layers l{6, at, std::to_integer<uint8_t>(frame[at + 6]), at + 40};
  while ((l.protocol == hop_by_hop || l.protocol == routing || l.protocol == destination) &&
         l.ports_at + 2 <= frame.size()) {
    l.protocol = std::to_integer<uint8_t>(frame[l.ports_at]);
    l.ports_at += 8 + 8 * std::to_integer<std::size_t>(frame[l.ports_at + 1]);
  }
  return l;
}

Layers read_layers(std::span<const std::byte> frame, const Header& h) noexcept {
  std::size_t at = h.tagged ? 18 : 14;
  Layers l;
  if (h.ether_type == 0x0800 && frame.size() >= at + 20) l = read_ipv4(frame, at);
  if (h.ether_type == 0x86dd && frame.size() >= at + 40) l = read_ipv6(frame, at);
  if (l.ports_at + 4 > frame.size() || (l.protocol != tcp && l.protocol != udp)) l.ports_at = 0;
  return l;
}

FlowIp read_ip(std::span<const std::byte> frame, const Layers& l) noexcept {
  FlowIp ip;
  bool four = l.version == 4;
  std::size_t bytes = four ? 4 : 16, src = l.ip_at + (four ? 12 : 8);
  std::memcpy(ip.src.data(), frame.data() + src, bytes);
  std::memcpy(ip.dst.data(), frame.data() + src + bytes, bytes);
  ip.protocol = l.protocol;
  uint32_t word = uint32_t{number_at(frame, l.ip_at)} << 16 | number_at(frame, l.ip_at + 2);
  ip.traffic = static_cast<uint8_t>(four ? word >> 16 : word >> 20);
  ip.label = four ? 0 : word & 0xfffff;
  return ip;
}

bool same_under_mask(const FlowIp& a, const FlowIp& b, const FlowIp& mask) noexcept {
  for (std::size_t i = 0; i < a.src.size(); ++i) {
    if (((a.src[i] ^ b.src[i]) & mask.src[i]) != 0) return false;
    if (((a.dst[i] ^ b.dst[i]) & mask.dst[i]) != 0) return false;
  }
  return ((a.protocol ^ b.protocol) & mask.protocol) == 0 &&
         ((a.traffic ^ b.traffic) & mask.traffic) == 0 && ((a.label ^ b.label) & mask.label) == 0;
}

bool matches_deeper(const FlowSpec& r, const Header& h, std::span<const std::byte> frame) noexcept {
  if (r.ip_version == 0 && r.l4_protocol == 0) return true;
  Layers l = read_layers(frame, h);
  if (r.ip_version != 0 &&
      (l.version != r.ip_version || !same_under_mask(r.ip, read_ip(frame, l), r.ip_mask)))
    return false;
  if (r.l4_protocol == 0) return true;
  if (l.protocol != r.l4_protocol || l.ports_at == 0) return false;
  return ((r.ports.src ^ number_at(frame, l.ports_at)) & r.ports_mask.src) == 0 &&
         ((r.ports.dst ^ number_at(frame, l.ports_at + 2)) & r.ports_mask.dst) == 0;
}

bool matches(const FlowSpec& r, const Header& h, std::span<const std::byte> frame) noexcept {
  if (r.type == FlowSpec::Type::mc_default) return h.multicast();
  if (r.type != FlowSpec::Type::normal) return true;
  if (!matches_deeper(r, h, frame)) return false;
  if (!r.has_eth) return true;
  if (r.vlan_tag_mask != 0 && (!h.tagged || ((r.vlan_tag ^ h.vlan_tag) & r.vlan_tag_mask) != 0)) {
    return false;
  }
  return ((r.ether_type ^ h.ether_type) & r.ether_type_mask) == 0 &&
         same_under_mask(r.dst, h.dst, r.dst_mask) && same_under_mask(r.src, h.src, r.src_mask);
}

// Rules that match the same frames at the same place: one entry of the table with two destinations.
// Whoever asks has seen that both match the frame at hand, so masks decide.
bool same_entry(const FlowSpec& a, const FlowSpec& b) noexcept {
  if (a.type != b.type || a.priority != b.priority || a.has_eth != b.has_eth ||
      a.ip_version != b.ip_version || a.ip_mask != b.ip_mask || a.l4_protocol != b.l4_protocol ||
      a.ports_mask != b.ports_mask)
    return false;
  return !a.has_eth ||
         (a.dst_mask == b.dst_mask && a.src_mask == b.src_mask &&
          a.ether_type_mask == b.ether_type_mask && a.vlan_tag_mask == b.vlan_tag_mask);
}

// Where a type stands in the walk.
int rank(FlowSpec::Type t) noexcept {
  switch (t) {
    case FlowSpec::Type::sniffer:
      return 0;
    case FlowSpec::Type::normal:
      return 1;
    case FlowSpec::Type::mc_default:
    case FlowSpec::Type::all_default:
      break;
  }
  return 2;
}

bool before(const FlowSpec& a, const FlowSpec& b) noexcept {
  int x = rank(a.type), y = rank(b.type);
  if (x != y) return x < y;
  return x == 1 && a.priority < b.priority;
}

}  // namespace

Result<uint32_t> Steering::add(Qp* qp, const FlowSpec& spec) {
  if (spec.type > FlowSpec::Type::sniffer) return Error{EINVAL, "unknown type of flow rule"};
  if (spec.priority > last_priority) return Error{ENOSPC, "the priority is beyond the last one"};
  if (spec.port > 1) return Error{EINVAL, "a flow rule names a port that is not there"};
  if (rules_.size() >= max_rules) return Error{ENOMEM, "no more flow rules"};
  auto at = std::upper_bound(rules_.begin(), rules_.end(), spec,
                             [](const FlowSpec& a, const Rule& b) { return before(a, b.spec); });
  uint32_t number = next_number_++;
  rules_.insert(at, Rule{number, qp, spec});
  taken_.reserve(rules_.size());
  return number;
}

int Steering::remove(uint32_t rule) {
  auto gone = std::find_if(rules_.begin(), rules_.end(),
                           [rule](const Rule& r) { return r.number == rule; });
  if (gone == rules_.end()) return -ENOENT;
  rules_.erase(gone);
  return 0;
}

bool Steering::uses(const Qp* qp) const noexcept {
  return std::any_of(rules_.begin(), rules_.end(), [qp](const Rule& r) { return r.qp == qp; });
}

void Steering::take(Qp* qp) noexcept {
  if (std::find(taken_.begin(), taken_.end(), qp) == taken_.end()) taken_.push_back(qp);
}

std::span<Qp* const> Steering::match(std::span<const std::byte> frame) noexcept {
  taken_.clear();
  if (frame.size() < 14) return {};
  Header h = read_header(frame);
  const Rule* first = nullptr;
  for (const Rule& r : rules_) {
    if (!matches(r.spec, h, frame)) continue;
    if (r.spec.type == FlowSpec::Type::sniffer) {
      take(r.qp);
      continue;
    }
    if (first == nullptr) first = &r;
    bool same_rank = rank(r.spec.type) == rank(first->spec.type);
    if (!same_rank) break;
    if (h.multicast() || same_entry(r.spec, first->spec)) take(r.qp);
  }
  return taken_;
}

}  // namespace kilim::vhca
