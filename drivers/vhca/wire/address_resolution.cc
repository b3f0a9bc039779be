// SPDX-License-Identifier: BSD-3-Clause
// ARP and neighbour discovery, byte for byte.
#include "vhca/wire/address_resolution.hh"

#include <algorithm>
#include <cstring>

#include "vhca/core/address.hh"
#include "vhca/core/port_ip.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::wire {

namespace {

using Bytes = std::span<const std::byte>;

constexpr uint16_t ethertype_ipv4 = 0x0800, ethertype_arp = 0x0806, ethertype_ipv6 = 0x86dd;
constexpr std::size_t ipv4_bytes = 20;
constexpr uint8_t udp = 17;
constexpr uint16_t roce_port = 4791;
constexpr std::size_t arp_bytes = 28, ipv6_bytes = 40, solicitation_bytes = 24, option_bytes = 8;
constexpr uint16_t arp_request = 1, arp_reply = 2;
constexpr uint8_t icmp6 = 58, solicitation = 135, advertisement = 136;
constexpr uint8_t source_link_layer = 1, target_link_layer = 2;  // RFC 4861, 4.6.1
constexpr uint8_t hop_limit = 255;                               // RFC 4861, 7.1.1: not forwarded
constexpr uint64_t between_questions_ns = 1'000'000'000;
constexpr Mac everybody = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

uint8_t byte_at(Bytes f, std::size_t at) noexcept {
  return static_cast<uint8_t>(f[at]);
}
uint16_t word_at(Bytes f, std::size_t at) noexcept {
  return static_cast<uint16_t>(byte_at(f, at) << 8 | byte_at(f, at + 1));
}
template <typename T>
T value_at(Bytes f, std::size_t at) noexcept {
  T t;
  std::memcpy(t.data(), &f[at], t.size());
  return t;
}
Gid ipv4_at(Bytes f, std::size_t at) noexcept {
  Gid gid{};
  gid[10] = gid[11] = 0xff;
  std::memcpy(&gid[12], &f[at], 4);
  return gid;
}
bool is_station(const Mac& m) noexcept {
  return (m[0] & 1) == 0 && m != Mac{};
}
bool is_nobody(const Gid& g) noexcept {
  return g == Gid{} || (is_ipv4(g) && g[12] == 0 && g[13] == 0 && g[14] == 0 && g[15] == 0);
}
// Writes one value behind the other.
class Writer {
 public:
  explicit Writer(AddressResolution::Frame& f) noexcept : f_(f) { f_.fill(std::byte{0}); }
  Writer& put8(unsigned v) noexcept {
    f_[at_++] = static_cast<std::byte>(v);
    return *this;
  }
  Writer& put16(unsigned v) noexcept { return put8(v >> 8).put8(v & 0xff); }
  Writer& put(const void* from, std::size_t n) noexcept {
    std::memcpy(&f_[at_], from, n);
    at_ += n;
    return *this;
  }
  Writer& put(const Mac& m) noexcept { return put(m.data(), m.size()); }
  Writer& put(const Gid& g) noexcept { return put(g.data(), g.size()); }
  Writer& zeros(std::size_t n) noexcept {
    at_ += n;
    return *this;
  }

 private:
  AddressResolution::Frame& f_;
  std::size_t at_ = 0;
};

struct Arp {
  uint16_t operation = 0;
  Gid ours{}, theirs{};
  Mac peer{};
};
std::size_t write_arp(AddressResolution::Frame& f, const Mac& mac, const Arp& a) noexcept {
  const bool asks = a.operation == arp_request;
  Writer(f)
      .put(a.peer)
      .put(mac)
      .put16(ethertype_arp)
      .put16(1)
      .put16(0x0800)
      .put8(6)
      .put8(4)
      .put16(a.operation)
      .put(mac)
      .put(&a.ours[12], 4)
      .put(asks ? Mac{} : a.peer)
      .put(&a.theirs[12], 4);
  return ether_min_frame;
}

// RFC 4443, 2.3: over a pseudo header of both addresses, length and next header.
uint16_t icmp6_sum(Bytes ip) noexcept {
  uint32_t sum = word_at(ip, 4) + uint32_t{icmp6};
  for (std::size_t at = 8; at + 1 < ip.size(); at += 2) sum += word_at(ip, at);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

struct Discovery {
  uint8_t type = 0, flags = 0;
  Gid source{}, destination{}, target{};
  Mac peer{};
};
std::size_t write_discovery(AddressResolution::Frame& f, const Mac& mac,
                            const Discovery& d) noexcept {
  constexpr std::size_t payload = solicitation_bytes + option_bytes;
  const uint8_t option = d.type == solicitation ? source_link_layer : target_link_layer;
  Writer(f)
      .put(d.peer)
      .put(mac)
      .put16(ethertype_ipv6)
      .put16(0x6000)
      .put16(0)
      .put16(payload)
      .put8(icmp6)
      .put8(hop_limit)
      .put(d.source)
      .put(d.destination)
      .put8(d.type)
      .put8(0)
      .put16(0)
      .put8(d.flags)
      .zeros(3)
      .put(d.target)
      .put8(option)
      .put8(1)
      .put(mac);
  constexpr std::size_t sum_at = ether_header_bytes + ipv6_bytes + 2;
  const auto sum = static_cast<uint16_t>(~icmp6_sum(Bytes(f).subspan(ether_header_bytes)));
  f[sum_at] = static_cast<std::byte>(sum >> 8);
  f[sum_at + 1] = static_cast<std::byte>(sum & 0xff);
  return f.size();
}

bool has_whole_options(Bytes ip) noexcept {
  std::size_t at = ipv6_bytes + solicitation_bytes;
  while (at + option_bytes <= ip.size() && byte_at(ip, at + 1) != 0)
    at += std::size_t{byte_at(ip, at + 1)} * 8;
  return at == ip.size();
}

// A neighbour discovery message that is right (RFC 4861, 7.1.1 and 7.1.2), behind its frame's
// header; empty: it is none.
Bytes discovery_in(Bytes frame) noexcept {
  Bytes ip = frame.subspan(ether_header_bytes);
  if (ip.size() < ipv6_bytes + solicitation_bytes || byte_at(ip, 0) >> 4 != 6) return {};
  if (byte_at(ip, 6) != icmp6 || byte_at(ip, 7) != hop_limit) return {};
  const std::size_t payload = word_at(ip, 4);
  if (payload < solicitation_bytes || ipv6_bytes + payload > ip.size()) return {};
  const uint8_t type = byte_at(ip, ipv6_bytes);
  if ((type != solicitation && type != advertisement) || byte_at(ip, ipv6_bytes + 1) != 0)
    return {};
  ip = ip.first(ipv6_bytes + payload);
  // The sum goes by pairs of bytes; options are multiples of eight.
  if (payload % 8 != 0 || icmp6_sum(ip) != 0xffff || !has_whole_options(ip)) return {};
  return is_group_gid(value_at<Gid>(ip, ipv6_bytes + 8)) ? Bytes{} : ip;
}

// The link-layer address in an option of this kind.
std::optional<Mac> option_in(Bytes ip, uint8_t kind) noexcept {
  for (std::size_t at = ipv6_bytes + solicitation_bytes; at < ip.size();) {
    const std::size_t bytes = std::size_t{byte_at(ip, at + 1)} * 8;
    if (byte_at(ip, at) == kind && bytes == option_bytes) return value_at<Mac>(ip, at + 2);
    at += bytes;
  }
  return std::nullopt;
}

// RFC 4291, 2.7.1: the group of all stations whose addresses end so.
Gid solicited_group(const Gid& g) noexcept {
  return {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, g[13], g[14], g[15]};
}

}  // namespace

void AddressResolution::publish(const Mac& mac, std::span<const Gid> gids) noexcept {
  mac_ = mac;
  gid_count_ = std::min(gids.size(), most_gids);
  std::copy_n(gids.begin(), gid_count_, gids_.begin());
}

bool AddressResolution::is_own(const Gid& gid) const noexcept {
  return std::find(gids_.begin(), gids_.begin() + gid_count_, gid) != gids_.begin() + gid_count_;
}

const Gid* AddressResolution::source_for(const Gid& to) const noexcept {
  const Gid* found = nullptr;
  for (std::size_t i = 0; i < gid_count_; i++) {
    if (is_ipv4(gids_[i]) != is_ipv4(to)) continue;
    if (found == nullptr || common_prefix(gids_[i], to) > common_prefix(*found, to))
      found = &gids_[i];
  }
  return found;
}

AddressResolution::Entry* AddressResolution::entry_of(const Gid& gid) noexcept {
  for (Entry& e : entries_)
    if (e.used && e.gid == gid) return &e;
  return nullptr;
}
AddressResolution::Entry& AddressResolution::place_for(const Gid& gid) noexcept {
  if (Entry* there = entry_of(gid)) return *there;
  Entry& e = entries_[next_++ % most];
  e = {};
  e.gid = gid;
  e.used = true;
  return e;
}

void AddressResolution::learn(const Gid& gid, const Mac& mac, bool new_too) noexcept {
  if (!is_station(mac) || is_nobody(gid) || is_group_gid(gid) || is_own(gid)) return;
  if (entry_of(gid) == nullptr && !new_too) return;
  Entry& e = place_for(gid);
  e.mac = mac;
  e.known = true;
}

std::size_t AddressResolution::handle(Bytes frame, Frame& answer) noexcept {
  if (frame.size() < ether_header_bytes || gid_count_ == 0) return 0;
  if (value_at<Mac>(frame, 6) == mac_) return 0;  // our own, come back
  const uint16_t type = word_at(frame, 12);
  if (type == ethertype_arp) return handle_arp(frame, answer);
  learn_manager(frame);
  return type == ethertype_ipv6 ? handle_icmp6(frame, answer) : 0;
}

void AddressResolution::learn_manager(Bytes frame) noexcept {
  const bool four = word_at(frame, 12) == ethertype_ipv4;
  if (!four && word_at(frame, 12) != ethertype_ipv6) return;
  const Bytes ip = frame.subspan(ether_header_bytes);
  const std::size_t udp_at = four ? ipv4_bytes : ipv6_bytes;
  constexpr std::size_t udp_bytes = 8, qpn_at = udp_bytes + 5;
  if (ip.size() < udp_at + qpn_at + 3 || byte_at(ip, four ? 9 : 6) != udp) return;
  if (four && byte_at(ip, 0) != 0x45) return;
  if (word_at(ip, udp_at + 2) != roce_port || byte_at(ip, udp_at + qpn_at) != 0 ||
      word_at(ip, udp_at + qpn_at + 1) != 1)
    return;
  const Gid from = four ? ipv4_at(ip, 12) : value_at<Gid>(ip, 8);
  const Gid to = four ? ipv4_at(ip, 16) : value_at<Gid>(ip, 24);
  if (is_own(to) && !find(from)) learn(from, value_at<Mac>(frame, 6), true);
}

std::size_t AddressResolution::handle_arp(Bytes frame, Frame& answer) noexcept {
  if (frame.size() < ether_header_bytes + arp_bytes) return 0;
  const Bytes arp = frame.subspan(ether_header_bytes);
  if (word_at(arp, 0) != 1 || word_at(arp, 2) != 0x0800 || word_at(arp, 4) != 0x0604) return 0;
  const auto sender_mac = value_at<Mac>(arp, 8);
  const Gid sender = ipv4_at(arp, 14), target = ipv4_at(arp, 24);
  const bool asks = word_at(arp, 6) == arp_request, asks_us = asks && is_own(target);
  if (!asks && word_at(arp, 6) != arp_reply) return 0;
  learn(sender, sender_mac, asks_us);
  if (!asks_us || !is_station(sender_mac)) return 0;
  return write_arp(answer, mac_, {arp_reply, target, sender, sender_mac});
}

std::size_t AddressResolution::handle_icmp6(Bytes frame, Frame& answer) noexcept {
  const Bytes ip = discovery_in(frame);
  if (ip.empty()) return 0;
  const auto source = value_at<Gid>(ip, 8), target = value_at<Gid>(ip, ipv6_bytes + 8);
  if (byte_at(ip, ipv6_bytes) == advertisement) {
    if (std::optional<Mac> mac = option_in(ip, target_link_layer)) learn(target, *mac, false);
    return 0;
  }
  if (!is_own(target) || is_ipv4(target)) return 0;
  const std::optional<Mac> mac = option_in(ip, source_link_layer);
  constexpr uint8_t solicited = 0x40, override = 0x20;
  // RFC 4861, 7.2.4: who has no address yet is answered by the group of all nodes.
  Discovery d{advertisement, override, target, {}, target, {}};
  if (is_nobody(source) && mac) return 0;
  if (is_nobody(source)) {
    d.destination = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    d.peer = group_mac(d.destination);
    return write_discovery(answer, mac_, d);
  }
  if (is_group_gid(source)) return 0;
  if (mac) learn(source, *mac, true);
  d.destination = source;
  d.peer = mac.value_or(value_at<Mac>(frame, 6));
  d.flags |= solicited;
  return is_station(d.peer) ? write_discovery(answer, mac_, d) : 0;
}

std::optional<Mac> AddressResolution::find(const Gid& gid) const noexcept {
  for (const Entry& e : entries_)
    if (e.used && e.known && e.gid == gid) return e.mac;
  return std::nullopt;
}

std::size_t AddressResolution::ask(const Gid& gid, uint64_t now_ns, Frame& question) noexcept {
  const Gid* source = source_for(gid);
  if (source == nullptr || is_nobody(gid) || is_group_gid(gid)) return 0;
  Entry& e = place_for(gid);
  if (e.asked_ns != 0 && now_ns - e.asked_ns < between_questions_ns) return 0;
  e.asked_ns = now_ns;
  if (is_ipv4(gid)) return write_arp(question, mac_, {arp_request, *source, gid, everybody});
  const Gid group = solicited_group(gid);
  return write_discovery(question, mac_, {solicitation, 0, *source, group, gid, group_mac(group)});
}

}  // namespace kilim::vhca::wire
