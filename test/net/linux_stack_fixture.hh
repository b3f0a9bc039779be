// SPDX-License-Identifier: BSD-3-Clause
// For tests of offloads against Linux's own stack: two links with the stack at one end, at address
// 1 of both IP versions, and at the other a port of Kilim, whose station has address 2 and no
// stack. A veth pair hands over what the kernel has not finished; a TAP interface finishes it.
// Test only, one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "netns.hh"
#include "two_ports_fixture.hh"

namespace kilim::test {

using pool::Handle;
using pool::TxWord;
using Octets = std::vector<uint8_t>;

struct Link {
  std::string wire;  // of the port
  int wire_ns = -1;  // where it is
  int host_ns = -1;  // the stack's
  const char* device = "";
};

inline void enter(int ns) {
  if (setns(ns, CLONE_NEWNET) != 0) std::perror("setns");
}
inline int new_namespace() {
  if (unshare(CLONE_NEWNET) != 0) return -1;
  return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}
inline std::string path_of(int ns) {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(ns);
}

// Where the tests begin and end.
inline int home_namespace() {
  static const int ns = new_namespace();
  return ns;
}

inline bool give_addresses(const Link& link) {
  const std::string in = "nsenter --net=" + path_of(link.host_ns) + " ip ", dev = link.device;
  for (const std::string& line :
       {"link set lo up" + std::string(), "link set " + dev + " address 02:00:00:00:00:01",
        "link set " + dev + " up", "addr add 198.18.0.1/24 dev " + dev,
        "neigh add 198.18.0.2 lladdr 02:00:00:00:00:02 dev " + dev,
        "-6 addr add 2001:db8::1/64 nodad dev " + dev,
        "-6 neigh add 2001:db8::2 lladdr 02:00:00:00:00:02 dev " + dev})
    if (!command(in + line)) return false;
  return true;
}

// `host_ns` -1: it cannot be made here. One for all cases.
inline Link make_veth_link() {
  const int home = home_namespace();
  Link veth{"af_packet:ya", home, new_namespace(), "xa"};
  enter(home);
  const bool made =
      command("ip link add name ya type veth peer name xa") && command("ip link set ya up") &&
      command("ip link set xa netns " + path_of(veth.host_ns)) && give_addresses(veth);
  if (!made) veth.host_ns = -1;
  return veth;
}
inline const Link& veth_link() {
  static const Link link = make_veth_link();
  return link;
}
// One for each port: a device keeps its TAP interface as long as the process lives.
inline Link make_tap_link() {
  const int home = home_namespace(), ns = new_namespace();
  Link tap{"tap:ka", ns, ns, "ka"};
  if (!command("ip tuntap add dev ka mode tap") || !give_addresses(tap)) tap.host_ns = -1;
  enter(home);
  return tap;
}
template <typename Check>
void on_each_link(Check check) {
  check(veth_link());
  const Link tap = make_tap_link();
  CU_ASSERT_TRUE_FATAL(tap.host_ns >= 0);
  check(tap);
}

// What the stack counts: a column of `table` in /proc/net/snmp, as nstat says it.
inline uint64_t kernel_count(const Link& link, const std::string& table, const std::string& name) {
  enter(link.host_ns);
  std::ifstream file("/proc/thread-self/net/snmp");
  std::string names, values;
  while (std::getline(file, names) && std::getline(file, values))
    if (names.starts_with(table + ":")) break;
  enter(home_namespace());
  std::istringstream n(names), v(values);
  for (std::string a, b; n >> a && v >> b;)
    if (a == name) return std::stoull(b);
  CU_FAIL("the kernel has no such counter");
  return 0;
}
// Packets that the stack handed to its interface, those to be segmented as one.
inline uint64_t packets_out(const Link& link) {
  enter(link.host_ns);
  std::ifstream file("/proc/thread-self/net/dev");
  uint64_t out = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, number;
    words >> name;
    if (name != std::string(link.device) + ":") continue;
    for (int i = 0; i < 10 && words >> number; i++) out = std::stoull(number);
  }
  enter(home_namespace());
  return out;
}

struct Address {
  sockaddr_storage storage{};
  socklen_t bytes;
  Address(bool six, uint8_t station, uint16_t port) : bytes(sizeof(sockaddr_in)) {
    auto* in = reinterpret_cast<sockaddr_in*>(&storage);
    auto* in6 = reinterpret_cast<sockaddr_in6*>(&storage);
    in->sin_family = six ? AF_INET6 : AF_INET;
    in->sin_port = htons(port);
    const std::string text = (six ? "2001:db8::" : "198.18.0.") + std::to_string(station);
    if (six) bytes = sizeof(sockaddr_in6);
    inet_pton(in->sin_family, text.c_str(),
              six ? static_cast<void*>(&in6->sin6_addr) : &in->sin_addr);
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// A socket of the stack, bound to its address 1.
class Socket {
 public:
  Socket(const Link& link, bool six, int type, uint16_t port) {
    enter(link.host_ns);
    fd = socket(six ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0);
    enter(home_namespace());
    const timeval limit{0, 200'000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const Address at(six, 1, port);
    EQUAL(bind(fd, at.get(), at.bytes), 0);
  }
  ~Socket() { close(fd); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  // The next datagram; empty: none came.
  [[nodiscard]] Octets next() const {
    Octets b(65536);
    const ssize_t n = recv(fd, b.data(), b.size(), 0);
    b.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    return b;
  }
  int fd;
};

inline void put(Octets& b, std::size_t at, uint32_t v, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i++)
    b[at + i] = static_cast<uint8_t>(v >> 8 * (bytes - 1 - i));
}
inline uint32_t get(const Octets& b, std::size_t at, std::size_t bytes) {
  uint32_t v = 0;
  for (std::size_t i = 0; i < bytes; i++) v = v << 8 | b[at + i];
  return v;
}

inline constexpr std::size_t l3_at = 14;
inline constexpr uint16_t station_port = 4661;
constexpr std::size_t l4_of(bool six) {
  return l3_at + (six ? 40 : 20);
}

// From Kilim's station to the stack, with nonsense where checksums belong.
inline Octets headers(bool six, uint8_t protocol, uint16_t port, std::size_t payload) {
  const std::size_t l4 = l4_of(six), l4_bytes = protocol == IPPROTO_TCP ? 20 : 8;
  Octets f(l4 + l4_bytes);
  const uint8_t ethernet[] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
  std::memcpy(f.data(), ethernet, sizeof ethernet);
  const Address from(six, 2, 0), to(six, 1, 0);
  if (six) {
    put(f, 12, 0x86dd60, 3);
    put(f, l3_at + 4, static_cast<uint32_t>(l4_bytes + payload), 2);
    f[l3_at + 6] = protocol;
    f[l3_at + 7] = 64;
    std::memcpy(&f[l3_at + 8], &reinterpret_cast<const sockaddr_in6&>(from.storage).sin6_addr, 16);
    std::memcpy(&f[l3_at + 24], &reinterpret_cast<const sockaddr_in6&>(to.storage).sin6_addr, 16);
  } else {
    put(f, 12, 0x080045, 3);
    put(f, l3_at + 2, static_cast<uint32_t>(f.size() - l3_at + payload), 2);
    f[l3_at + 8] = 64;
    f[l3_at + 9] = protocol;
    put(f, l3_at + 10, 0xdead, 2);
    std::memcpy(&f[l3_at + 12], &reinterpret_cast<const sockaddr_in&>(from.storage).sin_addr, 4);
    std::memcpy(&f[l3_at + 16], &reinterpret_cast<const sockaddr_in&>(to.storage).sin_addr, 4);
  }
  put(f, l4, station_port, 2);
  put(f, l4 + 2, port, 2);
  put(f, l4 + (protocol == IPPROTO_TCP ? 16 : 6), 0xbeef, 2);
  if (protocol == IPPROTO_UDP) put(f, l4 + 4, static_cast<uint32_t>(8 + payload), 2);
  if (protocol == IPPROTO_TCP) put(f, l4 + 12, 0x5000ffff, 4);  // a window, no flags
  return f;
}

// What a completion says of right checksums: RTE_MBUF_F_RX_IP_CKSUM_GOOD, ..._L4_...
inline constexpr uint32_t good_sums = 1u << 7 | 1u << 8;

// A port with a link's other end as its wire.
struct Station {
  pool::ArenaMemory memory;
  pool::Pool pool;
  std::optional<pool::BufferCache> cache;
  std::unique_ptr<port::Port> port;

  explicit Station(const Link& link, const char* profile = "")
      : memory(TwoPorts::arena(2048, false)),
        pool(*std::move(pool::Pool::create(memory.arena(), {.name = "linux", .count = 2048}))) {
    cache.emplace(pool);
    enter(link.wire_ns);
    port = make_port(fresh("vhca"), link.wire, 0, {}, profile);
    enter(home_namespace());
    CU_ASSERT_TRUE_FATAL(port != nullptr);
    CU_ASSERT_TRUE_FATAL(port->configure({}, memory).ok());
    CU_ASSERT_TRUE_FATAL(port->set_rx(0, {.cache = &*cache, .config = {.side = true}}).ok());
    constexpr uint8_t both = queue::EthOffload::l3 | queue::EthOffload::l4;
    const port::TxSetup tx{.cache = &*cache,
                           .config = {.multi_seg = true, .offloads = true},
                           .words = {.checksums = both, .vlan = true, .tso = true}};
    CU_ASSERT_TRUE_FATAL(port->set_tx(0, tx).ok());
    CU_ASSERT_TRUE_FATAL(port->start().ok());
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

inline constexpr TxWord sums{.checksums = queue::EthOffload::l3 | queue::EthOffload::l4};

inline Octets random_octets(std::size_t n) {
  static std::mt19937 random{14};
  Octets b(n);
  for (uint8_t& o : b) o = static_cast<uint8_t>(random());
  return b;
}
inline Octets joined(Octets a, const Octets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
inline Octets part(const Octets& b, std::size_t from, std::size_t to) {
  return {b.begin() + static_cast<long>(from), b.begin() + static_cast<long>(to)};
}

// Cases of the program's other source.
std::span<const Case> received_cases();

}  // namespace kilim::test
