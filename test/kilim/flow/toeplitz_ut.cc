// SPDX-License-Identifier: BSD-3-Clause
// The Toeplitz hash against the published vectors (Microsoft, "Verifying the RSS Hash
// Calculation"), and which parts of a frame are hashed.
#include <array>
#include <cstring>
#include <vector>

#include <arpa/inet.h>

#include "kilim/detail/flow/match.hh"
#include "kilim/detail/flow/toeplitz.hh"
#include "ut.hh"

namespace toeplitz_ut {
namespace {

using namespace kilim;
using namespace kilim::flow;

using Frame = std::vector<std::byte>;

struct Vector {
  const char* src;
  const char* dst;
  uint16_t src_port, dst_port;
  uint32_t by_address, by_ports;
};
constexpr Vector vectors[] = {
    {"66.9.149.187", "161.142.100.80", 2794, 1766, 0x323e8fc2, 0x51ccc178},
    {"199.92.111.2", "65.69.140.83", 14230, 4739, 0xd718262a, 0xc626b0ea},
    {"24.19.198.95", "12.22.207.184", 12898, 38024, 0xd2d0a5de, 0x5c2b394a},
    {"38.27.205.30", "209.142.163.6", 48228, 2217, 0x82989176, 0xafc7327f},
    {"153.39.163.191", "202.188.127.2", 44251, 1303, 0x5d1809c5, 0x10e828a2},
    {"3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 2794, 1766, 0x2cc18cd5, 0x40207d3d},
    {"3ffe:501:8::260:97ff:fe40:efab", "ff02::1", 14230, 4739, 0x0f0c461c, 0xdde51bbf},
    {"3ffe:1900:4545:3:200:f8ff:fe21:67cf", "fe80::200:f8ff:fe21:67cf", 44251, 38024, 0x4b61e985,
     0x02d1feef},
};

bool is_ipv4(const Vector& v) {
  return std::strchr(v.src, ':') == nullptr;
}

void put16(Frame& f, std::size_t at, uint32_t value) {
  f[at] = static_cast<std::byte>(value >> 8);
  f[at + 1] = static_cast<std::byte>(value);
}

// With a VLAN tag, and with options or an extension header, if so asked.
Frame frame_of(const Vector& v, uint8_t protocol, bool tagged = false, bool longer = false) {
  const bool four = is_ipv4(v);
  const std::size_t ip = tagged ? 18 : 14;
  Frame f(ip + (four ? 20 : 40) + (longer ? 8 : 0) + 20);
  if (tagged) put16(f, 12, type_vlan);
  put16(f, ip - 2, four ? type_ipv4 : type_ipv6);
  const std::size_t addresses = ip + (four ? 12 : 8), each = four ? 4 : 16;
  inet_pton(four ? AF_INET : AF_INET6, v.src, f.data() + addresses);
  inet_pton(four ? AF_INET : AF_INET6, v.dst, f.data() + addresses + each);
  std::size_t l4 = addresses + 2 * each;
  if (four) {
    f[ip] = std::byte(longer ? 0x47 : 0x45);
    f[ip + 9] = std::byte(protocol);
  } else {
    f[ip] = std::byte(0x60);
    f[ip + 6] = std::byte(longer ? 0 : protocol);  // hop-by-hop options
    if (longer) f[l4] = std::byte(protocol);
  }
  if (longer) l4 += 8;
  put16(f, l4, v.src_port);
  put16(f, l4 + 2, v.dst_port);
  return f;
}

HashKind kind(bool four, HashKind of_ipv4) {
  return four ? of_ipv4 : static_cast<HashKind>(static_cast<int>(of_ipv4) + 3);
}

void published_vectors() {
  for (const Vector& v : vectors) {
    for (const bool tagged : {false, true}) {
      for (const bool longer : {false, true}) {
        const Frame tcp = frame_of(v, protocol_tcp, tagged, longer);
        FrameHash h = hash_frame(tcp, HashTypes::all, default_key);
        EQUAL(h.value, v.by_ports);
        EQUAL(h.kind, kind(is_ipv4(v), HashKind::tcp4));
        h = hash_frame(tcp, HashTypes::ip | HashTypes::udp, default_key);
        EQUAL(h.value, v.by_address);
        EQUAL(h.kind, kind(is_ipv4(v), HashKind::ipv4));
        h = hash_frame(frame_of(v, protocol_udp, tagged, longer), HashTypes::udp, default_key);
        EQUAL(h.value, v.by_ports);
        EQUAL(h.kind, kind(is_ipv4(v), HashKind::udp4));
      }
    }
  }
}

void frames_without_a_hash() {
  const Frame tcp = frame_of(vectors[0], protocol_tcp);
  EQUAL(hash_frame(tcp, HashTypes::udp | HashTypes::ipv6, default_key).kind, HashKind::none);
  Frame arp = tcp;
  put16(arp, 12, 0x0806);
  EQUAL(hash_frame(arp, HashTypes::all, default_key).kind, HashKind::none);
  Frame wrong = tcp;
  wrong[14] = std::byte(0x44);  // a header of 16 bytes
  EQUAL(hash_frame(wrong, HashTypes::all, default_key).kind, HashKind::none);
  for (std::size_t n = 0; n < 34; n++)
    EQUAL(hash_frame({tcp.data(), n}, HashTypes::all, default_key).kind, HashKind::none);
  const std::vector<uint16_t> table = {3, 1, 2, 0};
  EQUAL(queue_of({}, table), 3u);
  EQUAL(queue_of({HashKind::tcp4, 0x51ccc17a}, table), 2u);
}

// Fragments, also the first, which has ports; other protocols; ports cut off.
void only_addresses() {
  for (const Vector& v : vectors) {
    const HashKind by_address = kind(is_ipv4(v), HashKind::ipv4);
    Frame icmp = frame_of(v, 1);
    EQUAL(hash_frame(icmp, HashTypes::all, default_key).kind, by_address);
    Frame cut = frame_of(v, protocol_udp);
    cut.resize(cut.size() - 17);
    EQUAL(hash_frame(cut, HashTypes::all, default_key).kind, by_address);
    EQUAL(hash_frame(cut, HashTypes::all, default_key).value, v.by_address);
    if (!is_ipv4(v)) continue;
    Frame first = frame_of(v, protocol_udp);
    first[20] = std::byte(0x20);  // more fragments
    EQUAL(hash_frame(first, HashTypes::all, default_key).value, v.by_address);
    first[20] = std::byte(0x40);  // do not fragment
    EQUAL(hash_frame(first, HashTypes::all, default_key).value, v.by_ports);
  }
}

// Where only UDP is hashed, its fragments are too, by their addresses; other fragments are not.
void fragments_of_a_protocol() {
  for (const Vector& v : vectors) {
    if (!is_ipv4(v)) continue;
    for (const uint8_t protocol : {protocol_udp, protocol_tcp}) {
      Frame first = frame_of(v, protocol);
      first[20] = std::byte(0x20);
      const FrameHash h = hash_frame(first, HashTypes::udp, default_key);
      EQUAL(h.kind, protocol == protocol_udp ? HashKind::ipv4 : HashKind::none);
      EQUAL(h.value, protocol == protocol_udp ? v.by_address : 0u);
    }
  }
}

// Tags of both kinds, up to two.
void behind_tags() {
  for (const Vector& v : vectors) {
    const Frame plain = frame_of(v, protocol_udp);
    for (const uint8_t type : {uint8_t{0x81}, uint8_t{0x88}}) {
      Frame f = plain;
      for (int tags = 1; tags <= 3; tags++) {
        const std::array tag{std::byte(tags == 1 ? 0x81 : type),
                             std::byte(tags == 1 || type == 0x81 ? 0x00 : 0xa8), std::byte(0x20),
                             std::byte(0x64)};
        f.insert(f.begin() + 12, tag.begin(), tag.end());
        const FrameHash h = hash_frame(f, HashTypes::all, default_key);
        EQUAL(h.value, tags == 3 ? 0u : v.by_ports);
      }
    }
  }
}

void symmetric() {
  for (const Vector& v : vectors) {
    const Vector back{v.dst, v.src, v.dst_port, v.src_port, 0, 0};
    const FrameHash there = hash_frame(frame_of(v, protocol_tcp), HashTypes::all, symmetric_key);
    EQUAL(there.value,
          hash_frame(frame_of(back, protocol_tcp), HashTypes::all, symmetric_key).value);
    CU_ASSERT_TRUE(there.value != 0);
    CU_ASSERT_TRUE(v.by_ports !=
                   hash_frame(frame_of(back, protocol_tcp), HashTypes::all, default_key).value);
  }
}

void tables() {
  EQUAL(table_of({}, 1).size(), 1u);
  const std::vector<uint16_t> three = table_of({}, 3);
  EQUAL(three.size(), default_table);
  for (std::size_t i = 0; i < three.size(); i++) EQUAL(three[i], i % 3);
  Rss own;
  own.table = {5, 4};
  EQUAL(table_of(own, 3).size(), 2u);
}

const kilim::test::Case cases[] = {
    {"the published vectors come out, with tags and longer headers too", published_vectors},
    {"frames of other kinds have no hash and go to the first entry", frames_without_a_hash},
    {"fragments and protocols without ports are hashed by address", only_addresses},
    {"fragments of a protocol that is hashed have a hash", fragments_of_a_protocol},
    {"a hash is found behind two tags of either kind", behind_tags},
    {"the symmetric key gives both directions one value", symmetric},
    {"queues stand in the table in turn", tables},
};

}  // namespace
}  // namespace toeplitz_ut

KILIM_TEST_SUITE(toeplitz, toeplitz_ut::cases)
