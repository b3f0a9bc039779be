// SPDX-License-Identifier: BSD-3-Clause
// Part of linux_stack_ut. What Linux sends by a device that it takes to finish checksums and to cut
// segments arrives finished and cut: datagrams, its TCP, and packets of any program with a header
// of <linux/virtio_net.h>.
#include <cerrno>

#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>

#include "linux_stack_fixture.hh"
#include "vhca/wire/packet.hh"

namespace linux_stack_receives_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

bool sums_are_right(const Octets& f) {
  const auto bytes = std::as_bytes(std::span(f));
  const vhca::wire::PacketView v = vhca::wire::parse_packet(bytes);
  return v.l4 != vhca::wire::L4::none && vhca::wire::l3_checksum_good(bytes, v) &&
         vhca::wire::l4_checksum_good(bytes, v);
}

void what_linux_sends(const Link& link, bool six) {
  const std::size_t l4 = l4_of(six);
  Station station(link);
  const Socket both(link, six, SOCK_DGRAM, 5002);
  const Address to(six, 2, station_port);
  for (const std::size_t n : {1u, 500u, 1200u, 1452u}) {
    const Octets data = random_octets(n);
    EQUAL(sendto(both.fd, data.data(), n, 0, to.get(), to.bytes), static_cast<ssize_t>(n));
    pool::SideRecord side;
    const Octets f = station.receive(
        [n, l4, six](const Octets& b) {  // not what TCP of a case before sends again
          return b.size() >= l4 + 8 + n && get(b, six ? 20 : 23, 1) == IPPROTO_UDP &&
                 get(b, l4 + 2, 2) == station_port;
        },
        side);
    CU_ASSERT_FALSE_FATAL(f.empty());
    EQUAL(side.flags & good_sums, good_sums);
    const Octets came = part(f, l4 + 8, l4 + 8 + n);
    CU_ASSERT_TRUE(came == data);
    station.send(joined(headers(six, IPPROTO_UDP, 5002, n), came), sums);
    CU_ASSERT_TRUE(both.next() == data);
  }
}

void what_linux_sends_is_good_and_comes_back() {
  for (const bool six : {false, true})
    on_each_link([six](const Link& link) { what_linux_sends(link, six); });
}

// The station as the server of one connection, which takes what comes in order.
struct Server {
  Station& station;
  bool six;
  std::size_t l4 = l4_of(six);
  Octets head{};      // of what it sends
  uint32_t next = 0;  // sequence number
  Octets data{};
  uint32_t segments = 0, unlike = 0;

  // Answers the client's SYN by one with the greatest segment (RFC 9293, 3.7.1).
  bool accept(uint16_t mss) {
    pool::SideRecord side;
    const Octets syn =
        station.receive([this](const Octets& b) { return is_ours(b) && b[l4 + 13] == 0x02; }, side);
    if (syn.empty()) return false;
    head = headers(six, IPPROTO_TCP, static_cast<uint16_t>(get(syn, l4, 2)), 4);
    put(head, l4 + 4, 7000, 4);
    head.resize(head.size() + 4);
    put(head, l4 + 20, 0x02040000u | mss, 4);
    next = get(syn, l4 + 4, 4) + 1;
    answer(0x6012);
    head.resize(head.size() - 4);
    const std::size_t length_at = l3_at + (six ? 4 : 2);
    put(head, length_at, get(head, length_at, 2) - 4, 2);
    put(head, l4 + 4, 7001, 4);
    return true;
  }
  void answer(uint32_t header_and_flags) {
    put(head, l4 + 8, next, 4);
    put(head, l4 + 12, header_and_flags, 2);
    station.send(head, sums);
  }
  [[nodiscard]] bool is_ours(const Octets& b) const {
    return b.size() >= l4 + 20 && b[l3_at + (six ? 6 : 9)] == IPPROTO_TCP &&
           get(b, l4 + 2, 2) == station_port;
  }
  // One segment with data. False: none came.
  bool take() {
    pool::SideRecord side;
    const Octets f =
        station.receive([this](const Octets& b) { return is_ours(b) && payload_of(b) != 0; }, side);
    if (f.empty()) return false;
    const std::size_t bytes = payload_of(f), at = l4 + (f[l4 + 12] >> 4) * 4;
    segments++;
    unlike += f.size() > 1514 || (side.flags & good_sums) != good_sums || !sums_are_right(f) ||
              get(f, l4 + 4, 4) != next;
    data.insert(data.end(), f.begin() + static_cast<long>(at),
                f.begin() + static_cast<long>(at + bytes));
    next += static_cast<uint32_t>(bytes);
    answer(0x5010);
    return true;
  }
  [[nodiscard]] std::size_t payload_of(const Octets& b) const {
    return get(b, l3_at + (six ? 4 : 2), 2) + (six ? 40u : 0u) - (l4 - l3_at) -
           (b[l4 + 12] >> 4) * 4;
  }
};

// Linux's TCP leaves segments of many times what a frame carries to the device.
void a_stream_of_linux(const Link& link, bool six) {
  Station station(link);
  const Socket client(link, six, SOCK_STREAM | SOCK_NONBLOCK, 5005);
  const Address to(six, 2, station_port);
  CU_ASSERT_TRUE(connect(client.fd, to.get(), to.bytes) == -1 && errno == EINPROGRESS);
  Server server{station, six};
  CU_ASSERT_TRUE_FATAL(server.accept(1400));
  const Octets data = random_octets(200'000);
  const uint64_t before = packets_out(link);
  std::size_t written = 0;
  while (server.data.size() < data.size()) {
    const ssize_t n = send(client.fd, data.data() + written, data.size() - written, MSG_NOSIGNAL);
    if (n > 0) written += static_cast<std::size_t>(n);
    CU_ASSERT_TRUE_FATAL(server.take());
    CU_ASSERT_TRUE_FATAL(server.unlike == 0);
  }
  CU_ASSERT_TRUE(server.data == data);
  CU_ASSERT_TRUE(server.segments >= data.size() / 1400);
  // The interface was handed fewer packets than frames came: the wire has cut them.
  if (link.wire.starts_with("af_packet"))
    CU_ASSERT_TRUE((packets_out(link) - before) * 2 < server.segments);
}

void streams_of_linux_arrive_cut() {
  for (const bool six : {false, true})
    on_each_link([six](const Link& link) { a_stream_of_linux(link, six); });
}

// struct virtio_net_hdr; <linux/virtio_net.h> is not C++.
struct VnetHeader {
  uint8_t flags = 1;  // VIRTIO_NET_HDR_F_NEEDS_CSUM
  uint8_t gso_type = 0;
  uint16_t header_bytes = 0, gso_size = 0, csum_start = 0, csum_offset = 0;
};

// From the stack's side, whose packet socket says what is left to do.
class VnetSocket {
 public:
  explicit VnetSocket(const Link& link) {
    enter(link.host_ns);
    fd_ = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = static_cast<int>(if_nametoindex(link.device));
    const int on = 1;
    EQUAL(setsockopt(fd_, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on), 0);
    EQUAL(bind(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    enter(home_namespace());
  }
  ~VnetSocket() { close(fd_); }
  VnetSocket(const VnetSocket&) = delete;
  VnetSocket& operator=(const VnetSocket&) = delete;
  void send(const VnetHeader& h, const Octets& frame) const {
    Octets all(sizeof h);
    std::memcpy(all.data(), &h, sizeof h);
    all = joined(all, frame);
    EQUAL(write(fd_, all.data(), all.size()), static_cast<ssize_t>(all.size()));
  }

 private:
  int fd_;
};

// A packet whose checksum is left to do: its field has the sum of the pseudo header.
struct Unfinished {
  Octets frame;
  VnetHeader head;
  std::size_t l4, payload_at;
};
Unfinished make_unfinished(bool six, uint8_t protocol, bool tagged, const Octets& data) {
  const bool tcp = protocol == IPPROTO_TCP;
  Unfinished u{joined(headers(six, protocol, station_port, data.size()), data), {}, l4_of(six), 0};
  Octets& f = u.frame;
  if (tcp) f[u.l4 + 13] = 0x18;
  // To the station, and by a header whose own sum is right.
  std::swap_ranges(f.begin(), f.begin() + 6, f.begin() + 6);
  const vhca::wire::PacketView v = vhca::wire::parse_packet(std::as_bytes(std::span(f)));
  vhca::wire::write_l3_checksum(std::as_writable_bytes(std::span(f)), v);
  const auto l4_bytes = static_cast<uint32_t>(f.size() - u.l4);
  const uint16_t pseudo =
      vhca::wire::fold_sum(vhca::wire::pseudo_header_sum(std::as_bytes(std::span(f)), v, l4_bytes));
  u.head.csum_start = static_cast<uint16_t>(u.l4 + (tagged ? 4 : 0));
  u.head.csum_offset = tcp ? 16 : 6;
  std::memcpy(&f[u.l4 + u.head.csum_offset], &pseudo, sizeof pseudo);
  if (tagged) {
    f.insert(f.begin() + 12, {0x81, 0x00, 0x60, 0x05});
    u.l4 += 4;
  }
  u.payload_at = u.l4 + (tcp ? 20 : 8);
  return u;
}

// The frame of a flow of ours, told by its last address byte and port.
Octets next_of(Station& station, const Unfinished& u, pool::SideRecord& side) {
  return station.receive(
      [&u](const Octets& b) {
        return b.size() >= u.payload_at && get(b, 6, 6) == get(u.frame, 6, 6) &&
               get(b, u.l4 + 2, 2) == station_port && get(b, u.l4, 2) == station_port;
      },
      side);
}

void unfinished_packets(const Link& link, bool six, bool tagged) {
  Station station(link);
  const VnetSocket from(link);
  pool::SideRecord side;
  for (const uint8_t protocol : {uint8_t{IPPROTO_UDP}, uint8_t{IPPROTO_TCP}}) {
    const Octets data = random_octets(777);
    const Unfinished u = make_unfinished(six, protocol, tagged, data);
    from.send(u.head, u.frame);
    const Octets f = next_of(station, u, side);
    EQUAL_FATAL(f.size(), u.frame.size());
    EQUAL(side.flags & good_sums, good_sums);
    CU_ASSERT_TRUE(sums_are_right(f));
    // Nothing but the sum is another.
    Octets like = u.frame;
    const std::size_t sum_at = u.l4 + u.head.csum_offset;
    put(like, sum_at, get(f, sum_at, 2), 2);
    CU_ASSERT_TRUE(f == like);
  }
  const Octets data = random_octets(10'000);
  Unfinished u = make_unfinished(six, IPPROTO_TCP, tagged, data);
  u.head.gso_type = six ? 4 : 1;  // VIRTIO_NET_HDR_GSO_TCPV6, ..._TCPV4
  u.head.gso_size = 1200;
  u.head.header_bytes = static_cast<uint16_t>(u.payload_at);
  from.send(u.head, u.frame);
  Octets got;
  while (got.size() < data.size()) {
    const Octets f = next_of(station, u, side);
    CU_ASSERT_TRUE_FATAL(f.size() > u.payload_at);
    CU_ASSERT_TRUE_FATAL(f.size() <= u.payload_at + 1200);
    EQUAL(side.flags & good_sums, good_sums);
    CU_ASSERT_TRUE(sums_are_right(f));
    EQUAL(get(f, u.l4 + 4, 4), got.size());
    if (tagged) EQUAL(get(f, 12, 4), 0x81006005u);
    got = joined(got, part(f, u.payload_at, f.size()));
  }
  CU_ASSERT_TRUE(got == data);
}

void packets_with_a_vnet_header_arrive_finished() {
  for (const bool six : {false, true})
    for (const bool tagged : {false, true})
      on_each_link([six, tagged](const Link& link) { unfinished_packets(link, six, tagged); });
}

constexpr Case received[] = {
    {"what Linux sends is good, and comes back", what_linux_sends_is_good_and_comes_back},
    {"Linux's TCP, which leaves cutting to the device, arrives cut", streams_of_linux_arrive_cut},
    {"packets with a vnet header arrive finished, with their tags",
     packets_with_a_vnet_header_arrive_finished},
};

}  // namespace
}  // namespace linux_stack_receives_ut

std::span<const kilim::test::Case> kilim::test::received_cases() {
  return linux_stack_receives_ut::received;
}
