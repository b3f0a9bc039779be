// SPDX-License-Identifier: BSD-3-Clause
// Steering rules: a short list in order of precedence, walked for each frame.
#include "vhca/ethernet/steering.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kilim/base/be.hh"
#include "vhca/ethernet/match_param.hh"

namespace kilim::vhca {

namespace {

constexpr uint16_t tag_type = 0x8100;

constexpr uint8_t tcp = 6, udp = 17;
constexpr std::size_t ether_bytes = 14;

struct Header {
  Mac dst, src;
  uint16_t ether_type;  // behind the tag, if there is one
  uint16_t vlan_tag;
  bool tagged;
  MatchParam outer;         // where rules look at it
  const DeepMatch* deeper;  // likewise
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

bool looks_deeper(const FlowSpec& r) noexcept {
  return r.ip_version != 0 || r.l4_protocol != 0;
}

// A rule's mask over a buffer ends with the addresses and the type, its first 14 bytes.
bool of_link_alone(const MatchParam& mask) noexcept {
  return std::all_of(mask.begin() + ether_bytes, mask.end(), [](uint8_t b) { return b == 0; });
}

// Index of Steering::of_reach_.
std::size_t reach_of(const FlowSpec& r) noexcept {
  Reach reach = Reach::link;
  if (looks_deeper(r)) {
    FlowIp kind_alone;
    kind_alone.protocol = r.ip_mask.protocol;
    const bool kind = r.ip_mask == kind_alone && r.ports_mask == FlowPorts{};
    reach = kind ? Reach::kind : Reach::all;
  }
  if (r.count != nullptr || r.deep || (r.by_buffer && !of_link_alone(r.buffer_mask)))
    reach = Reach::all;
  return static_cast<std::size_t>(reach);
}

bool matches_deeper(const FlowSpec& r, const Header& h, std::span<const std::byte> frame) noexcept {
  if (!looks_deeper(r)) return true;
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
  if (r.by_buffer)
    return equal_under_mask(r.buffer, h.outer, r.buffer_mask) &&
           (!r.deep || equal_under_mask(r.deeper, *h.deeper, r.deeper_mask));
  if (!matches_deeper(r, h, frame)) return false;
  if (!r.has_eth) return true;
  if (r.vlan_tag_mask != 0 && (!h.tagged || ((r.vlan_tag ^ h.vlan_tag) & r.vlan_tag_mask) != 0)) {
    return false;
  }
  return ((r.ether_type ^ h.ether_type) & r.ether_type_mask) == 0 &&
         same_under_mask(r.dst, h.dst, r.dst_mask) && same_under_mask(r.src, h.src, r.src_mask);
}

// Rules for groups alone have a table of their own behind those of all priorities, so a rule that
// takes both kinds of frames takes the groups' too (Linux drivers/infiniband/hw/mlx5/fs.c,
// flow_is_multicast_only(), raw_fs_is_multicast()).
bool for_groups_alone(const FlowSpec& s) noexcept {
  constexpr uint8_t group = 1, class_d = 0xe0, class_bits = 0xf0;
  constexpr std::size_t buffer_dst_at = 8, ipv4_dst_at = 60;  // in a buffer
  if (s.type != FlowSpec::Type::normal) return false;
  if (s.by_buffer)
    return (s.buffer[buffer_dst_at] & s.buffer_mask[buffer_dst_at] & group) != 0 ||
           ((s.buffer[ipv4_dst_at] & class_bits) == class_d &&
            (s.buffer_mask[ipv4_dst_at] & class_bits) == class_d);
  if (s.has_eth) return (s.dst[0] & s.dst_mask[0] & group) != 0;
  return s.ip_version == 4 && (s.ip.dst[0] & class_bits) == class_d;
}

// Where a rule stands in the walk.
int rank(const FlowSpec& s) noexcept {
  switch (s.type) {
    case FlowSpec::Type::sniffer:
      return 0;
    case FlowSpec::Type::normal:
      return for_groups_alone(s) ? 2 : 1;
    case FlowSpec::Type::mc_default:
    case FlowSpec::Type::all_default:
      break;
  }
  return 3;
}

bool before(const FlowSpec& a, const FlowSpec& b) noexcept {
  int x = rank(a), y = rank(b);
  if (x != y) return x < y;
  return x == 1 && a.priority < b.priority;
}

// Rules that match the same frames at the same place: one entry of the table with two destinations.
// Whoever asks has seen that both match the frame at hand, so masks decide.
bool same_entry(const FlowSpec& a, const FlowSpec& b) noexcept {
  if (before(a, b) || before(b, a)) return false;
  // The default rule of all frames has an entry for groups and one for the rest.
  if (a.type != FlowSpec::Type::normal) return true;
  if (a.has_eth != b.has_eth || a.ip_version != b.ip_version || a.ip_mask != b.ip_mask ||
      a.l4_protocol != b.l4_protocol || a.ports_mask != b.ports_mask ||
      a.by_buffer != b.by_buffer || a.buffer_mask != b.buffer_mask || a.deep != b.deep ||
      a.deeper_mask != b.deeper_mask)
    return false;
  return !a.has_eth ||
         (a.dst_mask == b.dst_mask && a.src_mask == b.src_mask &&
          a.ether_type_mask == b.ether_type_mask && a.vlan_tag_mask == b.vlan_tag_mask);
}

// Whether the values are the same too: one entry whatever the frame.
bool says_the_same(const FlowSpec& a, const FlowSpec& b) noexcept {
  if (!same_entry(a, b)) return false;
  if (a.by_buffer)
    return equal_under_mask(a.buffer, b.buffer, a.buffer_mask) &&
           equal_under_mask(a.deeper, b.deeper, a.deeper_mask);
  return same_under_mask(a.dst, b.dst, a.dst_mask) && same_under_mask(a.src, b.src, a.src_mask) &&
         ((a.ether_type ^ b.ether_type) & a.ether_type_mask) == 0 &&
         ((a.vlan_tag ^ b.vlan_tag) & a.vlan_tag_mask) == 0 &&
         same_under_mask(a.ip, b.ip, a.ip_mask) && a.l4_protocol == b.l4_protocol &&
         ((a.ports.src ^ b.ports.src) & a.ports_mask.src) == 0 &&
         ((a.ports.dst ^ b.ports.dst) & a.ports_mask.dst) == 0;
}

bool special(const FlowSpec& s) noexcept {
  return s.drops || s.tags || s.prepend != nullptr || s.rewrite != nullptr;
}

// One entry cannot do both: Linux drivers/net/ethernet/mellanox/mlx5/core/fs_core.c,
// check_conflicting_ftes().
bool conflicts(const FlowSpec& a, const FlowSpec& b) noexcept {
  const bool differ = a.drops != b.drops || a.prepend != b.prepend || a.rewrite != b.rewrite ||
                      (a.tags && a.tag != b.tag);
  return differ && says_the_same(a, b);
}

}  // namespace

Result<uint32_t> Steering::add(Qp* qp, const FlowSpec& spec) {
  if (spec.type > FlowSpec::Type::sniffer) return Error{EINVAL, "unknown type of flow rule"};
  if (spec.priority > last_priority) return Error{ENOSPC, "the priority is beyond the last one"};
  if (spec.port > 1) return Error{EINVAL, "a flow rule names a port that is not there"};
  const bool plain = !special(spec) && specials_ == 0;  // most clients' rules: nothing can conflict
  if (!plain && std::any_of(rules_.begin(), rules_.end(),
                            [&spec](const Rule& r) { return conflicts(spec, r.spec); }))
    return Error{EEXIST, "the same rule does something else"};
  if (rules_.size() >= max_rules) return Error{ENOMEM, "no more flow rules"};
  auto at = std::upper_bound(rules_.begin(), rules_.end(), spec,
                             [](const FlowSpec& a, const Rule& b) { return before(a, b.spec); });
  uint32_t number = next_number_++;
  rules_.insert(at, Rule{number, qp, spec});
  buffers_ += spec.by_buffer;
  deeps_ += spec.deep;
  specials_ += special(spec);
  taken_.reserve(rules_.size());
  hits_.reserve(rules_.size());
  of_reach_[reach_of(spec)]++;
  version_++;
  return number;
}

int Steering::remove(uint32_t rule) {
  auto gone = std::find_if(rules_.begin(), rules_.end(),
                           [rule](const Rule& r) { return r.number == rule; });
  if (gone == rules_.end()) return -ENOENT;
  buffers_ -= gone->spec.by_buffer;
  deeps_ -= gone->spec.deep;
  specials_ -= special(gone->spec);
  of_reach_[reach_of(gone->spec)]--;
  version_++;
  rules_.erase(gone);
  return 0;
}

bool Steering::uses(const Qp* qp) const noexcept {
  return std::any_of(rules_.begin(), rules_.end(), [qp](const Rule& r) { return r.qp == qp; });
}

void Steering::take(const Rule& rule) noexcept {
  if (rule.spec.count != nullptr) hits_.push_back(rule.spec.count);
  if (rule.spec.prepend != nullptr) prepend_ = rule.spec.prepend;
  if (rule.spec.rewrite != nullptr) rewrite_ = rule.spec.rewrite;
  if (rule.qp == nullptr) return;
  auto same = [&rule](const FlowTarget& t) { return t.qp == rule.qp; };
  if (std::none_of(taken_.begin(), taken_.end(), same))
    taken_.push_back({rule.qp, rule.spec.tags ? rule.spec.tag : 0});
}

void Steering::count_hits(uint64_t bytes) noexcept {
  for (FlowCount* count : hits_) {
    count->packets++;
    count->bytes += bytes;
  }
}

std::span<const FlowTarget> Steering::match(std::span<const std::byte> frame) noexcept {
  taken_.clear();
  hits_.clear();
  dropped_ = false;
  prepend_ = nullptr;
  rewrite_ = nullptr;
  if (frame.size() < 14) return {};
  Header h = read_header(frame);
  if (buffers_ != 0) h.outer = outer_headers(frame);
  if (deeps_ != 0) deeper_ = deep_headers(frame);
  h.deeper = &deeper_;
  const Rule* first = nullptr;
  for (const Rule& r : rules_) {
    if (!matches(r.spec, h, frame)) continue;
    if (r.spec.type == FlowSpec::Type::sniffer) {
      take(r);
      continue;
    }
    if (first == nullptr) first = &r;
    if (before(first->spec, r.spec)) break;
    if (!same_entry(r.spec, first->spec)) continue;
    take(r);
    if (r.spec.drops || r.spec.misses) {
      dropped_ = r.spec.drops;
      break;
    }
  }
  return taken_;
}

}  // namespace kilim::vhca
