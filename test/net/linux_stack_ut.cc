// SPDX-License-Identifier: BSD-3-Clause
// Offloads against Linux's own stack on the other end of a veth pair: it takes what the device
// checksummed, tagged and cut, and drops what was not; what it sends the device finds good. Needs
// root; skips elsewhere.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "netns.hh"
#include "two_ports_fixture.hh"
#include "vhca/wire/make.hh"
#include "vhca/wire/packet.hh"

namespace {

using namespace kilim;
using pool::Handle;
using pool::TxWord;
using test::command;
using Octets = std::vector<uint8_t>;

int home = -1, host = -1;  // network namespaces

// Kilim's device -- ya | xa in a namespace of its own. Kilim's station has address 2 and no stack.
bool build() {
  if (unshare(CLONE_NEWNET) != 0) return false;
  home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  if (unshare(CLONE_NEWNET) != 0) return false;
  host = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  if (setns(home, CLONE_NEWNET) != 0) return false;
  const std::string ns = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(host);
  const std::string in = "nsenter --net=" + ns + " ip ";
  const char* lines[] = {"link set lo up", "link set xa address 02:00:00:00:00:01",
                         "link set xa up", "addr add 198.18.0.1/24 dev xa",
                         "neigh add 198.18.0.2 lladdr 02:00:00:00:00:02 dev xa"};
  if (!command("ip link add name ya type veth peer name xa") || !command("ip link set ya up") ||
      !command("ip link set xa netns " + ns))
    return false;
  for (const char* line : lines)
    if (!command(in + line)) return false;
  return true;
}

void enter(int ns) {
  if (setns(ns, CLONE_NEWNET) != 0) std::perror("setns");
}

sockaddr_in address(uint8_t station, uint16_t port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  a.sin_addr.s_addr = htonl(198u << 24 | 18u << 16 | station);
  return a;
}

// A socket of the host's stack, bound to its address 1.
class Socket {
 public:
  Socket(int type, uint16_t port) {
    enter(host);
    fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    enter(home);
    const timeval limit{0, 200'000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const sockaddr_in at = address(1, port);
    EQUAL(bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  }
  ~Socket() { close(fd); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  // The next datagram; empty: none came.
  Octets next() const {
    Octets b(65536);
    const ssize_t n = recv(fd, b.data(), b.size(), 0);
    b.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    return b;
  }
  int fd;
};

void put(Octets& b, std::size_t at, uint32_t v, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i++)
    b[at + i] = static_cast<uint8_t>(v >> 8 * (bytes - 1 - i));
}
uint32_t get(const Octets& b, std::size_t at, std::size_t bytes) {
  uint32_t v = 0;
  for (std::size_t i = 0; i < bytes; i++) v = v << 8 | b[at + i];
  return v;
}

constexpr std::size_t l3 = 14, l4 = 34;

// From Kilim's station to the host, with nonsense where checksums belong.
Octets headers(uint8_t protocol, uint16_t port, std::size_t payload) {
  const std::size_t l4_bytes = protocol == IPPROTO_TCP ? 20 : 8;
  Octets f(l4 + l4_bytes);
  const uint8_t ethernet[] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45};
  std::memcpy(f.data(), ethernet, sizeof ethernet);
  put(f, l3 + 2, static_cast<uint32_t>(f.size() - l3 + payload), 2);
  f[l3 + 8] = 64;
  f[l3 + 9] = protocol;
  put(f, l3 + 10, 0xdead, 2);
  put(f, l3 + 12, ntohl(address(2, 0).sin_addr.s_addr), 4);
  put(f, l3 + 16, ntohl(address(1, 0).sin_addr.s_addr), 4);
  put(f, l4, 4661, 2);
  put(f, l4 + 2, port, 2);
  put(f, l4 + (protocol == IPPROTO_TCP ? 16 : 6), 0xbeef, 2);
  if (protocol == IPPROTO_UDP) put(f, l4 + 4, static_cast<uint32_t>(8 + payload), 2);
  return f;
}

// A port with the veth's other end as its wire.
struct Station {
  pool::ArenaMemory memory;
  pool::Pool pool;
  std::optional<pool::BufferCache> cache;
  std::unique_ptr<port::Port> port;

  explicit Station(const char* profile = "")
      : memory(test::TwoPorts::arena(2048, false)),
        pool(*std::move(pool::Pool::create(memory.arena(), {.name = "linux", .count = 2048}))) {
    cache.emplace(pool);
    port = test::make_port(test::fresh("vhca"), "af_packet:ya", 0, {}, profile);
    CU_ASSERT_TRUE_FATAL(port != nullptr && port->configure({}, memory).ok());
    CU_ASSERT_TRUE_FATAL(port->set_rx(0, {.cache = &*cache, .config = {.side = true}}).ok());
    constexpr uint8_t both = queue::EthOffload::l3 | queue::EthOffload::l4;
    const port::TxSetup tx{.cache = &*cache,
                           .config = {.multi_seg = true, .offloads = true},
                           .words = {.checksums = both, .vlan = true, .tso = true}};
    CU_ASSERT_TRUE_FATAL(port->set_tx(0, tx).ok() && port->start().ok());
  }
  ~Station() {
    port->unconfigure();
    cache->flush();
    EQUAL(pool.size() - pool.available(), 0u);
  }
  void run() { port->poller().fn(port->poller().context, 256); }

  // In pieces of 2,000 bytes.
  void send(const Octets& frame, TxWord word) {
    std::vector<Handle> h((frame.size() + 1999) / 2000);
    EQUAL_FATAL(cache->alloc(h, 0), h.size());
    for (std::size_t i = 0; i < h.size(); i++) {
      const std::size_t n = std::min<std::size_t>(2000, frame.size() - i * 2000);
      std::memcpy(memory.arena().data(h[i]), &frame[i * 2000], n);
      h[i].length = static_cast<uint16_t>(n);
      h[i].meta = i + 1 < h.size() ? Handle::more : uint16_t{0};
    }
    h[0].meta |= Handle::offload;
    memory.arena().side(h[0]).tx = word;
    EQUAL_FATAL(port->tx(0, h), h.size());
    run();
    (void)port->reclaim(0);
  }
  // The next frame of which `wanted` is true, with what the device found; empty: none came.
  Octets receive(const std::function<bool(const Octets&)>& wanted, pool::SideRecord& side) {
    for (int turn = 0; turn < 2000; turn++) {
      run();
      Handle h;
      while (port->rx(0, {&h, 1}) == 1) {
        const auto* at = reinterpret_cast<const uint8_t*>(memory.arena().data(h));
        Octets f(at, at + h.length);
        side = memory.arena().side(h);
        cache->free_one(h);
        if (wanted(f)) return f;
      }
      usleep(100);
    }
    return {};
  }
};

constexpr TxWord sums{.checksums = queue::EthOffload::l3 | queue::EthOffload::l4};

Octets random_octets(std::size_t n) {
  static std::mt19937 random{14};
  Octets b(n);
  for (uint8_t& o : b) o = static_cast<uint8_t>(random());
  return b;
}
Octets joined(Octets a, const Octets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void linux_takes_what_has_checksums_and_nothing_else() {
  Station station;
  const Socket rx(SOCK_DGRAM, 5001);
  for (const std::size_t n : {1u, 2u, 17u, 18u, 100u, 999u, 1471u, 1472u}) {
    const Octets data = random_octets(n);
    const Octets frame = joined(headers(IPPROTO_UDP, 5001, n), data);
    for (const uint8_t some : {uint8_t{0}, uint8_t{queue::EthOffload::l3}})
      station.send(frame, {.checksums = some});
    station.send(frame, sums);
    CU_ASSERT_TRUE_FATAL(rx.next() == data);
  }
  CU_ASSERT_TRUE(rx.next().empty());
}

// A packet socket of the host sees the frame as its stack does, which took the tag out, and the
// tag; the wire puts them together again.
void linux_sees_the_tag() {
  for (const char* profile : {"cx6dx", "inline-l2"}) {
    Station station(profile);
    enter(host);
    std::unique_ptr<vhca::Wire> seen = *vhca::make_wire("af_packet:xa");
    enter(home);
    for (const pool::VlanTag tag : {pool::VlanTag::customer, pool::VlanTag::service}) {
      const Octets data = random_octets(700);
      TxWord word = sums;
      word.tag = tag;
      word.tci = 3 << 13 | 5;
      station.send(joined(headers(IPPROTO_UDP, 5001, data.size()), data), word);
      std::span<const std::byte> f;
      for (int turn = 0; turn < 200 && (f = seen->peek()).empty(); turn++) usleep(1000);
      EQUAL_FATAL(f.size(), l4 + 4 + 8 + data.size());
      const auto* octets = reinterpret_cast<const uint8_t*>(f.data());
      const Octets b(octets, octets + f.size());
      EQUAL(get(b, 12, 4),
            (tag == pool::VlanTag::customer ? 0x8100'0000u : 0x88a8'0000u) | word.tci);
      CU_ASSERT_TRUE(
          std::equal(data.begin(), data.end(), b.end() - static_cast<long>(data.size())));
      const vhca::PacketView v = vhca::parse_packet(f);
      CU_ASSERT_TRUE(vhca::l3_checksum_good(f, v) && vhca::l4_checksum_good(f, v));
      seen->drop();
    }
  }
}

void what_linux_sends_is_good_and_comes_back() {
  Station station;
  const Socket both(SOCK_DGRAM, 5002);
  const sockaddr_in to = address(2, 4661);
  for (const std::size_t n : {1u, 500u, 1200u, 1472u}) {
    const Octets data = random_octets(n);
    EQUAL(sendto(both.fd, data.data(), n, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to),
          static_cast<ssize_t>(n));
    pool::SideRecord side;
    const Octets f = station.receive(
        [n](const Octets& b) { return b.size() >= l4 + 8 + n && get(b, l4 + 2, 2) == 4661; }, side);
    CU_ASSERT_FALSE_FATAL(f.empty());
    constexpr uint32_t good = 1u << 7 | 1u << 8;  // RTE_MBUF_F_RX_IP_CKSUM_GOOD, ..._L4_...
    EQUAL(side.flags & good, good);
    const Octets came(f.begin() + l4 + 8, f.begin() + static_cast<long>(l4 + 8 + n));
    CU_ASSERT_TRUE(came == data);
    station.send(joined(headers(IPPROTO_UDP, 5002, n), came), sums);
    CU_ASSERT_TRUE(both.next() == data);
  }
}

void a_segmented_udp_packet_is_many_datagrams() {
  Station station;
  const Socket rx(SOCK_DGRAM, 5003);
  const Octets data = random_octets(12 * 1000);
  Octets h = headers(IPPROTO_UDP, 5003, 1000);
  station.send(joined(h, data), {.mss = 1000, .headers = static_cast<uint16_t>(h.size())});
  for (long i = 0; i < 12; i++)
    CU_ASSERT_TRUE(rx.next() == Octets(data.begin() + i * 1000, data.begin() + (i + 1) * 1000));
}

// A handshake by hand, then 30,000 bytes in one packet.
void a_segmented_tcp_packet_is_a_stream() {
  Station station;
  const Socket listener(SOCK_STREAM, 5004);
  EQUAL_FATAL(listen(listener.fd, 1), 0);
  Octets h = headers(IPPROTO_TCP, 5004, 0);
  put(h, l4 + 4, 1000, 4);
  put(h, l4 + 12, 0x5002ffff, 4);  // SYN
  station.send(h, sums);
  pool::SideRecord side;
  const Octets answer = station.receive(
      [](const Octets& b) { return b.size() >= l4 + 20 && b[l4 + 13] == 0x12; }, side);
  CU_ASSERT_FALSE_FATAL(answer.empty());
  put(h, l4 + 4, 1001, 4);
  put(h, l4 + 8, get(answer, l4 + 4, 4) + 1, 4);
  put(h, l4 + 12, 0x5010ffff, 4);  // ACK
  station.send(h, sums);
  const Octets data = random_octets(30000);
  h[l4 + 13] = 0x18;  // and PSH
  station.send(joined(h, data), {.mss = 1448, .headers = static_cast<uint16_t>(h.size())});
  const int stream = accept(listener.fd, nullptr, nullptr);
  CU_ASSERT_TRUE_FATAL(stream >= 0);
  const timeval limit{0, 500'000};
  setsockopt(stream, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  Octets got(data.size());
  EQUAL(recv(stream, got.data(), got.size(), MSG_WAITALL), static_cast<ssize_t>(data.size()));
  CU_ASSERT_TRUE(got == data);
  close(stream);
}

constexpr test::Case cases[] = {
    {"Linux takes what has checksums, and nothing else",
     linux_takes_what_has_checksums_and_nothing_else},
    {"Linux sees the tag", linux_sees_the_tag},
    {"what Linux sends is good, and comes back", what_linux_sends_is_good_and_comes_back},
    {"a segmented UDP packet is many datagrams", a_segmented_udp_packet_is_many_datagrams},
    {"a segmented TCP packet is a stream", a_segmented_tcp_packet_is_a_stream},
};

}  // namespace

int main(int argc, char** argv) {
  if (!build()) {
    std::printf(
        "skipped: network namespaces and veth pairs cannot be made here (root, iproute2 "
        "and util-linux are needed)\n");
    return test::skipped;
  }
  return test::run_cases("linux_stack", cases, argc, argv);
}
