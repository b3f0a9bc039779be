// SPDX-License-Identifier: BSD-3-Clause
// The packet socket wire against the kernel's own TCP and UDP: what its stack leaves to the card is
// finished. A bridge of two wires joins two network namespaces, and their TCP talks through it.
#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <tuple>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include "frames_fixture.hh"
#include "netns.hh"
#include "ut.hh"
#include "vhca/wire/kernel_rules.hh"
#include "vhca/wire/make.hh"
#include "vhca/wire/packet.hh"
#include "vhca/wire/tunnel.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace af_packet_ut {
namespace {

constexpr std::size_t stream_bytes = 4u << 20;
int home = -1, host_a = -1, host_b = -1;  // network namespaces

void enter(int ns) {
  if (setns(ns, CLONE_NEWNET) != 0) std::perror("setns");
}

// host a -- xa | ya -- bridge -- yb | xb -- host b
bool build() {
  if (unshare(CLONE_NEWNET) != 0) return false;
  home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  for (auto [ns, x, address] : {std::tuple{&host_a, "a", "1"}, std::tuple{&host_b, "b", "2"}}) {
    if (unshare(CLONE_NEWNET) != 0) return false;
    *ns = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    enter(home);
    std::string n = x;
    // `ip` wants a process or a descriptor of its own to name the namespace.
    std::string pid = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(*ns);
    if (!command("ip link add name y" + n + " type veth peer name x" + n) ||
        !command("nsenter --net=" + pid + " true") || !command("ip link set y" + n + " up"))
      return false;
    if (!command("ip link set x" + n + " netns " + pid)) return false;
    std::string in = "nsenter --net=" + pid + " ";
    if (!command(in + "ip link set lo up") || !command(in + "ip link set x" + n + " up") ||
        !command(in + "ip addr add 198.18.0." + address + "/24 dev x" + n) ||
        !command(in + "ip -6 addr add 2001:db8::" + address + "/64 dev x" + n + " nodad"))
      return false;
  }
  return true;
}

struct Seen {
  uint64_t frames = 0, bad = 0, long_ones = 0, tagged = 0;
  uint64_t tunneled = 0;
};

void look(std::span<const std::byte> f, uint32_t mtu, Seen& s) {
  wire::PacketView v = wire::parse_packet(f);
  s.frames++;
  s.tagged += v.tags;
  s.long_ones += f.size() > mtu + 14 + 4 * std::size_t{v.tags};
  s.bad += v.l3 != wire::L3::none && !wire::l3_checksum_good(f, v);
  const wire::TunnelView t = wire::parse_tunnel(f, v);
  const bool unsummed =
      t.kind == wire::TunnelKind::vxlan && wire::get_be<uint16_t>(f, v.l4_at + 6) == 0;
  s.bad += v.l4 != wire::L4::none && !unsummed && !wire::l4_checksum_good(f, v);
  s.tunneled += t.inner.l4 == wire::L4::tcp;
  s.bad += t.inner.l3 != wire::L3::none && !wire::l3_checksum_good(f, t.inner);
  s.bad += t.inner.l4 != wire::L4::none && !wire::l4_checksum_good(f, t.inner);
}

// Carries frames both ways until told to stop, looking at each.
struct Bridge {
  std::unique_ptr<wire::Wire> a = *wire::make_wire("af_packet:ya"),
                              b = *wire::make_wire("af_packet:yb");
  Seen seen;
  std::atomic<bool> stop{false};
  std::thread worker{[this] {
    while (!stop) {
      if (carry(*a, *b) + carry(*b, *a) == 0) usleep(50);
    }
  }};
  ~Bridge() { finish(); }
  void finish() {
    stop = true;
    if (worker.joinable()) worker.join();
  }
  unsigned carry(wire::Wire& from, wire::Wire& to) {
    unsigned n = 0;
    for (std::span<const std::byte> f; n < 64 && !(f = from.peek()).empty(); ++n) {
      if (to.send(f) == wire::Wire::Sent::busy) break;
      look(f, from.mtu(), seen);
      from.drop();
    }
    return n;
  }
};

struct Address {
  sockaddr_storage storage{};
  socklen_t bytes;
  Address(int family, const char* text, uint16_t port) {
    storage.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_INET) {
      auto* in = reinterpret_cast<sockaddr_in*>(&storage);
      inet_pton(family, text, &in->sin_addr);
      in->sin_port = htons(port);
      bytes = sizeof(*in);
    } else {
      auto* in = reinterpret_cast<sockaddr_in6*>(&storage);
      inet_pton(family, text, &in->sin6_addr);
      in->sin6_port = htons(port);
      bytes = sizeof(*in);
    }
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

int socket_in(int ns, int family, int type) {
  enter(ns);
  int s = socket(family, type | SOCK_CLOEXEC, 0);
  enter(home);
  timeval limit{5, 0};
  setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  return s;
}

std::byte pattern(std::size_t i) {
  return static_cast<std::byte>(i * 2654435761u >> 24);
}

void send_pattern(int client) {
  Bytes data(stream_bytes);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = pattern(i);
  for (std::size_t done = 0; done < data.size();) {
    ssize_t n = write(client, data.data() + done, data.size() - done);
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  shutdown(client, SHUT_WR);
}

// Bytes that arrive as they were sent, of a stream from host a to host b.
std::size_t stream(int family, const char* server) {
  Address at(family, server, 5201);
  int listener = socket_in(host_b, family, SOCK_STREAM);
  int client = socket_in(host_a, family, SOCK_STREAM);
  std::size_t right = 0;
  if (bind(listener, at.get(), at.bytes) == 0 && listen(listener, 1) == 0 &&
      connect(client, at.get(), at.bytes) == 0) {
    int server_side = accept(listener, nullptr, nullptr);
    std::thread sender([client] { send_pattern(client); });
    Bytes piece(1 << 16);
    for (ssize_t n; (n = read(server_side, piece.data(), piece.size())) > 0;) {
      for (ssize_t i = 0; i < n && piece[static_cast<std::size_t>(i)] == pattern(right); ++i) {
        ++right;
      }
    }
    sender.join();
    close(server_side);
  }
  close(listener);
  close(client);
  return right;
}

Seen tcp_through_two_wires(int family, const char* server) {
  Bridge bridge;
  EQUAL(stream(family, server), stream_bytes);
  bridge.finish();
  CU_ASSERT(bridge.seen.frames > stream_bytes / 1500);
  EQUAL(bridge.seen.bad, 0);
  EQUAL(bridge.seen.long_ones, 0);
  for (const auto& w : {&bridge.a, &bridge.b}) {
    const wire::WireCounters& c = (*w)->counters();
    EQUAL(c.rx_kernel_drops, 0);
    EQUAL(c.rx_malformed, 0);
    EQUAL(c.rx_too_long, 0);
    EQUAL(c.tx_bad_length + c.tx_lost, 0);
  }
  return bridge.seen;
}

void the_kernels_tcp_over_ipv4_passes_with_right_checksums() {
  tcp_through_two_wires(AF_INET, "198.18.0.2");
}

void the_kernels_tcp_over_ipv6_passes_with_right_checksums() {
  tcp_through_two_wires(AF_INET6, "2001:db8::2");
}

// The kernel says of a packet in VXLAN that TCP is to be cut as it says it of one without.
// `net`: of the tunnel's addresses.
void tcp_in_a_tunnel(const std::string& net, const char* more) {
  const std::pair<int, const char*> hosts[] = {{host_a, "a"}, {host_b, "b"}};
  bool made = true;
  for (std::size_t i = 0; i < 2; i++) {
    const std::string ip = "nsenter --net=/proc/" + std::to_string(getpid()) + "/fd/" +
                           std::to_string(hosts[i].first) + " ip ";
    const std::string own = std::to_string(i + 1), peer = std::to_string(2 - i);
    const std::string x = hosts[i].second;
    made = made &&
           command(ip + "link add name t" + x + " type vxlan id 7 dstport 4789 local 198.18.0." +
                   own + " remote 198.18.0." + peer + " dev x" + x + more) &&
           command(ip + "link set t" + x + " up") &&
           command(ip + "addr add " + net + own + "/24 dev t" + x);
  }
  CU_ASSERT_TRUE_FATAL(made);
  const Seen seen = tcp_through_two_wires(AF_INET, (net + "2").c_str());
  CU_ASSERT(seen.tunneled > stream_bytes / 1450);
  for (const auto& [ns, x] : hosts)
    command("nsenter --net=/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(ns) +
            " ip link del t" + x);
}

void the_kernels_tcp_in_a_tunnel_passes() {
  tcp_in_a_tunnel("198.18.8.", "");
  tcp_in_a_tunnel("198.18.9.", " udpcsum");
}

void udp_that_the_kernel_left_unsegmented_arrives_in_pieces() {
  Bridge bridge;
  Address at(AF_INET, "198.18.0.2", 5202);
  int rx = socket_in(host_b, AF_INET, SOCK_DGRAM), tx = socket_in(host_a, AF_INET, SOCK_DGRAM);
  EQUAL(bind(rx, at.get(), at.bytes), 0);
  EQUAL(connect(tx, at.get(), at.bytes), 0);
  int piece = 1000;
  EQUAL(setsockopt(tx, IPPROTO_UDP, 103 /* UDP_SEGMENT */, &piece, sizeof(piece)), 0);
  Bytes data(10500), got(2000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = pattern(i);
  EQUAL(write(tx, data.data(), data.size()), 10500);
  for (std::size_t i = 0; i < 11; ++i) {
    ssize_t n = read(rx, got.data(), got.size());
    EQUAL(n, i < 10 ? 1000 : 500);
    CU_ASSERT(n > 0);
    EQUAL(std::memcmp(got.data(), data.data() + i * 1000, static_cast<std::size_t>(n)), 0);
  }
  bridge.finish();
  EQUAL(bridge.seen.bad, 0);
  EQUAL(bridge.seen.long_ones, 0);
  close(rx);
  close(tx);
}

void a_tag_that_the_kernel_took_out_is_back_in_the_frame() {
  std::unique_ptr<wire::Wire> near = *wire::make_wire("af_packet:ya");
  enter(host_a);
  std::unique_ptr<wire::Wire> far = *wire::make_wire("af_packet:xa");
  enter(home);
  for (int tags : {0, 1, 2}) {
    Bytes frame = make_frame({.tcp = false, .tags = tags, .payload = 300});
    EQUAL(far->send(frame), wire::Wire::Sent::taken);
    bool found = false;
    for (int i = 0; i < 200 && !found; ++i) {
      for (std::span<const std::byte> f; !found && !(f = near->peek()).empty(); near->drop()) {
        found = f.size() == frame.size() && std::memcmp(f.data(), frame.data(), f.size()) == 0;
      }
      if (!found) usleep(1000);
    }
    CU_ASSERT(found);
  }
}

// A datagram from host a to the kernel whose interface is the wire, and whether both have seen it.
struct Datagrams {
  static constexpr uint16_t port = 7777;
  wire::Wire* wire;
  Fd to, from;
  int sent = 0;

  explicit Datagrams(wire::Wire& w) : wire(&w), to(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const Address here(AF_INET, "198.18.0.100", port);
    EQUAL_FATAL(bind(to.get(), here.get(), here.bytes), 0);
    enter(host_a);
    from = Fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    enter(home);
  }
  bool wire_sees() const {
    for (std::span<const std::byte> f; !(f = wire->peek()).empty(); wire->drop()) {
      const wire::PacketView v = wire::parse_packet(f);
      if (v.l4 == wire::L4::udp && wire::get_be<uint16_t>(f, v.l4_at + 2) == port) {
        wire->drop();
        return true;
      }
    }
    return false;
  }
  // The kernel has handed it over, or not, when the wire has seen it.
  bool kernel_sees() {
    const Address there(AF_INET, "198.18.0.100", port);
    sent++;
    EQUAL(sendto(from.get(), &sent, sizeof(sent), 0, there.get(), there.bytes), sizeof(sent));
    bool seen = false;
    for (int i = 0; i < 2000 && !(seen = wire_sees()); i++) usleep(1000);
    CU_ASSERT(seen);
    usleep(20'000);
    int got = 0;
    return recv(to.get(), &got, sizeof(got), MSG_DONTWAIT) == sizeof(got) && got == sent;
  }
};

wire::FrameMatch to_port(uint16_t port) {
  using From = wire::FrameMatch::From;
  wire::FrameMatch m;
  m.compares.push_back({From::type, 0, 2, false, {0xff, 0xff}, {8, 0}});
  m.compares.push_back({From::protocol, 0, 1, false, {0xff}, {17}});
  m.compares.push_back({From::transport,
                        2,
                        2,
                        false,
                        {0xff, 0xff},
                        {static_cast<uint8_t>(port >> 8), static_cast<uint8_t>(port)}});
  return m;
}

void what_a_rule_takes_the_kernel_does_not_see() {
  CU_ASSERT(command("ip addr add 198.18.0.100/24 dev ya"));
  std::unique_ptr<wire::Wire> wire = *wire::make_wire("af_packet:ya+exclusive");
  wire::KernelRules* rules = wire->kernel_rules();
  CU_ASSERT_FATAL(rules != nullptr);
  Datagrams d(*wire);
  CU_ASSERT(d.kernel_sees());  // asks for the address of the wire's end, too
  const wire::FrameMatch all, ours = to_port(Datagrams::port), others = to_port(9);
  rules->add(1, 0, {&others, 1}, false);
  CU_ASSERT(d.kernel_sees());
  rules->add(2, 1, {&all, 1}, false);
  CU_ASSERT(!d.kernel_sees());
  // A rule that leaves frames to the kernel stands where the port has it.
  rules->add(3, 0, {&ours, 1}, true);
  CU_ASSERT(d.kernel_sees());
  rules->add(4, 3, {&ours, 1}, false);
  CU_ASSERT(d.kernel_sees());
  rules->remove(3);
  CU_ASSERT(!d.kernel_sees());
  CU_ASSERT(!rules->has(3));
  CU_ASSERT(rules->has(4));
  rules->remove(4);
  CU_ASSERT(!d.kernel_sees());
  rules->remove(2);
  CU_ASSERT(d.kernel_sees());
  rules->add(5, 1, {&all, 1}, false);
  CU_ASSERT(!d.kernel_sees());
  // The wire takes its rules along.
  wire.reset();
  wire = *wire::make_wire("af_packet:ya");
  d.wire = wire.get();
  CU_ASSERT(d.kernel_sees());
  CU_ASSERT(wire->kernel_rules() == nullptr);
}

constexpr Case cases[] = {
    {"the kernel's TCP over IPv4 passes with right checksums",
     the_kernels_tcp_over_ipv4_passes_with_right_checksums},
    {"the kernel's TCP over IPv6 passes with right checksums",
     the_kernels_tcp_over_ipv6_passes_with_right_checksums},
    {"the kernel's TCP in a tunnel passes, cut as it is outside of one",
     the_kernels_tcp_in_a_tunnel_passes},
    {"UDP that the kernel left unsegmented arrives in pieces",
     udp_that_the_kernel_left_unsegmented_arrives_in_pieces},
    {"a tag that the kernel took out is back in the frame",
     a_tag_that_the_kernel_took_out_is_back_in_the_frame},
    {"what a rule takes the kernel does not see", what_a_rule_takes_the_kernel_does_not_see},
};

}  // namespace
}  // namespace af_packet_ut

KILIM_TEST_MAIN(af_packet) {
  if (!af_packet_ut::build()) {
    std::printf(
        "skipped: network namespaces and veth pairs cannot be made here (root, iproute2 "
        "and util-linux are needed)\n");
    return skipped;
  }
  return run_cases("vhca/wire af_packet", af_packet_ut::cases, argc, argv);
}
