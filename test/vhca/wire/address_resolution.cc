// SPDX-License-Identifier: BSD-3-Clause
// Part of packet_ut. ARP and neighbour discovery: frames byte for byte, what is
// learned of whom, and frames that lie.
#include "vhca/wire/address_resolution.hh"

#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "resolution_cases.hh"
#include "ut.hh"
#include "vhca/core/address.hh"
#include "vhca/wire/wire.hh"

using namespace kilim;
using namespace kilim::vhca;
using kilim::test::Case;

namespace address_resolution_ut {
namespace {

constexpr uint64_t second = 1'000'000'000;
constexpr Mac ours = {2, 0, 0, 0, 0, 1}, theirs = {2, 0, 0, 0, 0, 2}, others = {2, 0, 0, 0, 0, 3};
constexpr Gid v4(uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 7, 0, last};
}
constexpr Gid v6(uint8_t last) {
  return {0xfd, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
}
constexpr Gid link_local = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1};

using Frame = wire::AddressResolution::Frame;
using Bytes = std::vector<std::byte>;

wire::AddressResolution station(const Mac& mac, uint8_t last) {
  wire::AddressResolution r;
  const Gid gids[] = {link_local, v4(last), v6(last)};
  r.publish(mac, gids);
  return r;
}

Bytes bytes_of(const std::string& hex) {
  Bytes out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<std::byte>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  return out;
}

// As RFC 826 and RFC 4861 lay them out, by hand; without the zeros behind ARP.
const char arp_who_has[] =
    "ffffffffffff020000000002080600010800060400010200000000020a070002000000000000"
    "0a070001";
const char arp_is_at[] =
    "020000000002020000000001080600010800060400020200000000010a070001020000000002"
    "0a070002";
const char nd_solicitation[] =
    "3333ff00000102000000000286dd6000000000203afffd070000000000000000000000000002"
    "ff0200000000000000000001ff000001"
    "8700"
    "0000"
    "00000000"
    "fd070000000000000000000000000001"
    "0101020000000002";

// The sum of RFC 4443 in 32 bits, by another way than the code's.
void put_sum(Bytes& f) {
  f[56] = f[57] = std::byte{0};
  uint64_t sum = 58 + (f.size() - 54);
  for (std::size_t at = 22; at < f.size(); at++)
    sum += static_cast<uint64_t>(f[at]) << (at % 2 == 0 ? 8 : 0);
  while (sum >> 16 != 0) sum = (sum >> 16) + (sum & 0xffff);
  f[56] = static_cast<std::byte>(~sum >> 8);
  f[57] = static_cast<std::byte>(~sum);
}
Bytes solicitation() {
  Bytes f = bytes_of(nd_solicitation);
  put_sum(f);
  return f;
}

void who_asks_by_arp_is_answered_and_known() {
  wire::AddressResolution r = station(ours, 1);
  Frame answer;
  EQUAL(r.handle(bytes_of(arp_who_has), answer), wire::ether_min_frame);
  const Bytes wanted = bytes_of(arp_is_at);
  EQUAL(std::memcmp(answer.data(), wanted.data(), wanted.size()), 0);
  CU_ASSERT(r.find(v4(2)) == theirs);
  Bytes for_another = bytes_of(arp_who_has);
  for_another.back() = std::byte{9};
  for_another[31] = std::byte{5};
  EQUAL(r.handle(for_another, answer), 0);
  CU_ASSERT(!r.find(v4(5)));
  Bytes of_group = bytes_of(arp_who_has);  // a sender that is a group is none
  of_group[22] = std::byte{0xff};
  EQUAL(r.handle(of_group, answer), 0);
}

void who_asks_by_discovery_is_answered_and_known() {
  wire::AddressResolution r = station(ours, 1), peer = station(theirs, 2);
  Frame answer, none;
  EQUAL(r.handle(solicitation(), answer), answer.size());
  CU_ASSERT(r.find(v6(2)) == theirs);
  const Bytes a(answer.begin(), answer.end());
  Bytes summed = a;
  put_sum(summed);
  CU_ASSERT(summed == a);
  EQUAL(static_cast<unsigned>(a[54]), 136);
  EQUAL(static_cast<unsigned>(a[58]), 0x60);  // solicited, override
  EQUAL(std::memcmp(a.data(), theirs.data(), 6), 0);
  // It tells a station that has asked, and nobody else.
  EQUAL(peer.handle(a, none), 0);
  CU_ASSERT(!peer.find(v6(1)));
  EQUAL(peer.ask(v6(1), second, none), none.size());
  EQUAL(peer.handle(a, none), 0);
  CU_ASSERT(peer.find(v6(1)) == ours);
}

// RFC 4861, 7.2.4: who looks whether an address is free has none itself.
void a_probe_is_answered_to_all() {
  wire::AddressResolution r = station(ours, 1);
  Bytes probe = bytes_of(nd_solicitation);
  std::fill(probe.begin() + 22, probe.begin() + 38, std::byte{0});
  put_sum(probe);
  Frame answer;
  EQUAL(r.handle(probe, answer), 0);  // nobody has no address to tell
  probe.resize(78);
  probe[19] = std::byte{24};
  put_sum(probe);
  EQUAL(r.handle(probe, answer), answer.size());
  EQUAL(static_cast<unsigned>(answer[58]), 0x20);
  EQUAL(static_cast<unsigned>(answer[0]), 0x33);
  EQUAL(static_cast<unsigned>(answer[38]), 0xff);
}

void a_question_is_asked_once_a_second() {
  wire::AddressResolution r = station(ours, 1), peer = station(theirs, 2);
  Frame question, answer, none;
  EQUAL(r.ask(v4(2), second, question), wire::ether_min_frame);
  EQUAL(r.ask(v4(2), second + 999'999'999, none), 0);
  EQUAL(r.ask(v4(2), 2 * second, question), wire::ether_min_frame);
  EQUAL(peer.handle(question, answer), wire::ether_min_frame);
  EQUAL(r.handle(answer, none), 0);
  EQUAL(r.find(v4(2)), theirs);
  EQUAL(peer.find(v4(1)), ours);
  EQUAL(r.ask(v6(2), second, question), question.size());
  EQUAL(peer.handle(question, answer), answer.size());
  EQUAL(r.handle(answer, none), 0);
  EQUAL(r.find(v6(2)), theirs);
  EQUAL(peer.find(v6(1)), ours);
  EQUAL(r.ask(Gid{}, second, question), 0);
  EQUAL(r.ask(Gid{0xff, 2}, second, question), 0);
}

void only_who_was_asked_becomes_known_unasked() {
  wire::AddressResolution r = station(ours, 1);
  Frame none;
  Bytes reply = bytes_of(arp_is_at);  // 10.7.0.1 is at 02::1, told to 10.7.0.2
  reply[31] = std::byte{5};
  reply[11] = reply[27] = std::byte{2};
  EQUAL(r.handle(reply, none), 0);
  CU_ASSERT(!r.find(v4(5)));
  (void)r.ask(v4(5), second, none);
  CU_ASSERT(!r.find(v4(5)));
  (void)r.handle(reply, none);
  CU_ASSERT(r.find(v4(5)) == theirs);
  reply[27] = std::byte{3};  // it has moved, and tells so
  (void)r.handle(reply, none);
  CU_ASSERT(r.find(v4(5)) == others);
  // Nobody takes an address of ours.
  reply[31] = std::byte{1};
  (void)r.handle(reply, none);
  CU_ASSERT(!r.find(v4(1)));
}

// The frame of a management datagram, up to its base transport header.
Bytes management(bool four, uint8_t last) {
  Bytes f = bytes_of(four ? "020000000001020000000002080045000048000000004011"
                            "0000"
                            "0a0700020a070001"
                          : "02000000000102000000000286dd60000000003411ff"
                            "fd070000000000000000000000000002fd070000000000000000000000000001");
  const Bytes rest = bytes_of(
      "c00012b700340000"
      "6440ffff0000000100000007");
  f.insert(f.end(), rest.begin(), rest.end());
  f[four ? 29 : 37] = static_cast<std::byte>(last);
  return f;
}

void who_sends_to_queue_pair_1_is_known() {
  Frame none;
  for (const bool four : {true, false}) {
    wire::AddressResolution r = station(ours, 1);
    const Gid from = four ? v4(2) : v6(2);
    const std::size_t qpn_at = four ? 49 : 69, to_at = four ? 33 : 53, port_at = qpn_at - 12;
    for (const std::size_t wrong : {qpn_at, to_at, port_at}) {
      Bytes f = management(four, 2);
      f[wrong] ^= std::byte{4};
      EQUAL(r.handle(f, none), 0);
      CU_ASSERT(!r.find(from));
    }
    EQUAL(r.handle(management(four, 2), none), 0);
    CU_ASSERT(r.find(from) == theirs);
    Bytes other = management(four, 2);  // nobody else takes his place so
    other[11] = std::byte{3};
    (void)r.handle(other, none);
    CU_ASSERT(r.find(from) == theirs);
    for (std::size_t n = 0; n < other.size(); n++)
      EQUAL(r.handle(std::span(other).first(n), none), 0);
  }
}

void damaged_discovery_is_none() {
  Frame answer;
  const Bytes good = solicitation();
  for (std::size_t at = 20; at < good.size(); at++) {
    wire::AddressResolution r = station(ours, 1);
    Bytes f = good;
    f[at] ^= std::byte{0x10};
    EQUAL(r.handle(f, answer), 0);
    CU_ASSERT(!r.find(v6(2)));
  }
  for (std::size_t n = 0; n < good.size(); n++) {
    wire::AddressResolution r = station(ours, 1);
    EQUAL(r.handle(std::span(good).first(n), answer), 0);
  }
  wire::AddressResolution r = station(ours, 1);
  Bytes endless = good;  // an option of no length
  endless[79] = std::byte{0};
  put_sum(endless);
  EQUAL(r.handle(endless, answer), 0);
  CU_ASSERT(!r.find(v6(2)));
}

void any_frames_leave_a_station_in_order() {
  wire::AddressResolution r = station(ours, 1);
  std::mt19937 rng(7);
  Frame answer;
  for (int i = 0; i < 200'000; i++) {
    Bytes f = i % 2 == 0 ? bytes_of(arp_who_has) : solicitation();
    for (int k = 0; k < 3; k++) f[rng() % f.size()] = static_cast<std::byte>(rng());
    if (i % 2 != 0 && i % 3 == 0) put_sum(f);
    f.resize(f.size() - rng() % 4);
    (void)r.handle(f, answer);
  }
  // Room is there for who is asked now.
  (void)r.ask(v4(77), second, answer);
  Bytes reply = bytes_of(arp_is_at);
  reply[31] = std::byte{77};
  reply[11] = reply[27] = std::byte{2};
  (void)r.handle(reply, answer);
  CU_ASSERT(r.find(v4(77)) == theirs);
}

constexpr Case all[] = {
    {"who asks by ARP is answered, and known", who_asks_by_arp_is_answered_and_known},
    {"who asks by neighbour discovery is answered, and known",
     who_asks_by_discovery_is_answered_and_known},
    {"a probe for an address is answered to all", a_probe_is_answered_to_all},
    {"a question is asked once a second", a_question_is_asked_once_a_second},
    {"only who was asked becomes known unasked", only_who_was_asked_becomes_known_unasked},
    {"who sends to queue pair 1 is known", who_sends_to_queue_pair_1_is_known},
    {"damaged neighbour discovery is none", damaged_discovery_is_none},
    {"any frames leave a station in order", any_frames_leave_a_station_in_order},
};

}  // namespace
}  // namespace address_resolution_ut

namespace kilim::vhca::test {
std::span<const Case> resolution_cases() {
  return address_resolution_ut::all;
}
}  // namespace kilim::vhca::test
