// SPDX-License-Identifier: BSD-3-Clause
// Offloads against Linux's own stack on the other end of a link: it takes what the device
// checksummed, tagged and cut, drops what was not, and counts the same. Needs root; skips
// elsewhere.
#include "case_tables.hh"
#include "linux_stack_fixture.hh"
#include "vhca/wire/make.hh"
#include "vhca/wire/packet.hh"

namespace linux_stack_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

// By both links and IP versions.
void everywhere(void (*check)(const Link&, bool six)) {
  for (const bool six : {false, true})
    on_each_link([check, six](const Link& link) { check(link, six); });
}

void linux_takes_what_has_checksums(const Link& link, bool six) {
  Station station(link);
  const Socket rx(link, six, SOCK_DGRAM, 5001);
  const uint64_t taken = kernel_count(link, "Udp", "InDatagrams");
  const uint64_t bad_udp = kernel_count(link, "Udp", "InCsumErrors");
  const uint64_t bad_ip = kernel_count(link, "Ip", "InHdrErrors");
  const std::size_t lengths[] = {1, 2, 17, 18, 100, 999, 1451, 1452};
  for (const std::size_t n : lengths) {
    const Octets data = random_octets(n);
    const Octets frame = joined(headers(six, IPPROTO_UDP, 5001, n), data);
    for (const uint8_t some : {uint8_t{0}, uint8_t{queue::EthOffload::l3}})
      station.send(frame, {.checksums = some});
    station.send(frame, sums);
    CU_ASSERT_TRUE_FATAL(rx.next() == data);
  }
  CU_ASSERT_TRUE(rx.next().empty());
  if (six) return;  // the kernel counts those elsewhere
  EQUAL(kernel_count(link, "Udp", "InDatagrams") - taken, std::size(lengths));
  EQUAL(kernel_count(link, "Udp", "InCsumErrors") - bad_udp, std::size(lengths));
  EQUAL(kernel_count(link, "Ip", "InHdrErrors") - bad_ip, std::size(lengths));
}

void linux_takes_what_has_checksums_and_nothing_else() {
  everywhere(linux_takes_what_has_checksums);
}

// A packet socket of the host sees the frame as its stack does, which took the tag out, and the
// tag; the wire puts them together again.
void linux_sees_the_tag(const Link& link, const char* profile) {
  constexpr std::size_t l4 = l4_of(false);
  Station station(link, profile);
  enter(link.host_ns);
  std::unique_ptr<vhca::wire::Wire> seen =
      *vhca::wire::make_wire(std::string("af_packet:") + link.device);
  enter(home_namespace());
  for (const pool::VlanTag tag : {pool::VlanTag::customer, pool::VlanTag::service}) {
    const Octets data = random_octets(700);
    TxWord word = sums;
    word.tag = tag;
    word.tci = 3 << 13 | 5;
    station.send(joined(headers(false, IPPROTO_UDP, 5001, data.size()), data), word);
    std::span<const std::byte> f;
    const auto ours = [&f] { return f.size() > 14 && f[11] == std::byte{2}; };
    for (int turn = 0; turn < 2000 && !ours(); turn++) {
      if (!f.empty()) seen->drop();
      if (f = seen->peek(); f.empty()) usleep(100);
    }
    EQUAL_FATAL(f.size(), l4 + 4 + 8 + data.size());
    const auto* octets = reinterpret_cast<const uint8_t*>(f.data());
    const Octets b(octets, octets + f.size());
    EQUAL(get(b, 12, 4), (tag == pool::VlanTag::customer ? 0x8100'0000u : 0x88a8'0000u) | word.tci);
    CU_ASSERT_TRUE(std::equal(data.begin(), data.end(), b.end() - static_cast<long>(data.size())));
    const vhca::wire::PacketView v = vhca::wire::parse_packet(f);
    CU_ASSERT_TRUE(vhca::wire::l3_checksum_good(f, v));
    CU_ASSERT_TRUE(vhca::wire::l4_checksum_good(f, v));
    seen->drop();
  }
}

void linux_sees_tags() {
  for (const char* profile : {"cx6dx", "inline-l2"})
    on_each_link([profile](const Link& link) { linux_sees_the_tag(link, profile); });
}

void a_segmented_udp_packet(const Link& link, bool six) {
  Station station(link);
  const Socket rx(link, six, SOCK_DGRAM, 5003);
  const Octets data = random_octets(std::size_t{12} * 1000);
  const Octets h = headers(six, IPPROTO_UDP, 5003, 1000);
  station.send(joined(h, data), {.mss = 1000, .headers = static_cast<uint16_t>(h.size())});
  for (std::size_t i = 0; i < 12; i++)
    CU_ASSERT_TRUE(rx.next() == part(data, i * 1000, (i + 1) * 1000));
}

void a_segmented_udp_packet_is_many_datagrams() {
  everywhere(a_segmented_udp_packet);
}

// A handshake by hand, then 30,000 bytes in one packet, of which the kernel counts the segments.
void a_segmented_tcp_packet(const Link& link, bool six) {
  const std::size_t l4 = l4_of(six);
  Station station(link);
  const Socket listener(link, six, SOCK_STREAM, 5004);
  EQUAL_FATAL(listen(listener.fd, 1), 0);
  Octets h = headers(six, IPPROTO_TCP, 5004, 0);
  put(h, l4 + 4, 1000, 4);
  h[l4 + 13] = 0x02;  // SYN
  station.send(h, sums);
  pool::SideRecord side;
  const Octets answer = station.receive(
      [l4](const Octets& b) { return b.size() >= l4 + 20 && b[l4 + 13] == 0x12; }, side);
  CU_ASSERT_FALSE_FATAL(answer.empty());
  put(h, l4 + 4, 1001, 4);
  put(h, l4 + 8, get(answer, l4 + 4, 4) + 1, 4);
  h[l4 + 13] = 0x10;  // ACK
  station.send(h, sums);
  const Octets data = random_octets(30000);
  const uint64_t bad = kernel_count(link, "Tcp", "InCsumErrors");
  const uint64_t errors = kernel_count(link, "Tcp", "InErrs");
  const uint64_t segments = kernel_count(link, "Tcp", "InSegs");
  h[l4 + 13] = 0x18;  // and PSH
  station.send(joined(h, data), {.mss = 1428, .headers = static_cast<uint16_t>(h.size())});
  const int stream = accept(listener.fd, nullptr, nullptr);
  CU_ASSERT_TRUE_FATAL(stream >= 0);
  const timeval limit{0, 500'000};
  setsockopt(stream, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  Octets got(data.size());
  EQUAL(recv(stream, got.data(), got.size(), MSG_WAITALL), static_cast<ssize_t>(data.size()));
  CU_ASSERT_TRUE(got == data);
  EQUAL(kernel_count(link, "Tcp", "InCsumErrors"), bad);
  EQUAL(kernel_count(link, "Tcp", "InErrs"), errors);
  EQUAL(kernel_count(link, "Tcp", "InSegs") - segments, (30000u + 1427) / 1428);
  // One whose sum is wrong is counted.
  h[l4 + 13] = 0x10;
  station.send(h, {.checksums = queue::EthOffload::l3});
  EQUAL(kernel_count(link, "Tcp", "InCsumErrors"), bad + 1);
  close(stream);
}

void a_segmented_tcp_packet_is_a_stream() {
  everywhere(a_segmented_tcp_packet);
}

constexpr Case sent[] = {
    {"Linux takes what has checksums, and nothing else",
     linux_takes_what_has_checksums_and_nothing_else},
    {"Linux sees the tag", linux_sees_tags},
    {"a segmented UDP packet is many datagrams", a_segmented_udp_packet_is_many_datagrams},
    {"a segmented TCP packet is a stream", a_segmented_tcp_packet_is_a_stream},
};

}  // namespace
}  // namespace linux_stack_ut

KILIM_TEST_MAIN(linux_stack) {
  if (kilim::test::veth_link().host_ns < 0 || kilim::test::make_tap_link().host_ns < 0) {
    std::printf(
        "skipped: network namespaces, veth pairs and TAP interfaces cannot be made here (root, "
        "iproute2 and util-linux are needed)\n");
    return kilim::test::skipped;
  }
  return kilim::test::run_tables("linux_stack",
                                 {linux_stack_ut::sent, kilim::test::received_cases()}, argc, argv);
}
