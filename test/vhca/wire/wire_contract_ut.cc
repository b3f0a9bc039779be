// SPDX-License-Identifier: BSD-3-Clause
// What every wire does, whatever is behind it: one set of checks over each kind. Packet sockets are
// checked where a network namespace can be made, else the run ends with 77.
#include <cstdio>
#include <filesystem>
#include <functional>

#include <net/if.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "frames_fixture.hh"
#include "netns_fixture.hh"
#include "ut.hh"
#include "vhca/wire/make.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace {

// How to get a wire to send on, and, when it has sent, one that receives the same frames.
struct Kind {
  const char* name;
  std::string sender;
  std::string receiver;
  bool receiver_first;  // else it is opened when all is sent
};
// A file without a name in any folder.
const std::string capture = "/proc/self/fd/" + std::to_string(memfd_create("capture", 0));
std::string new_folder() {
  char name[] = "/tmp/kilim-wire-XXXXXX";
  return mkdtemp(name) != nullptr ? name : "";
}
const std::string folder = new_folder();
const std::string second = "/proc/self/fd/" + std::to_string(memfd_create("second", 0));
const std::string no_faults = "+fault:drop:0:dup:0:reorder:0:corrupt:0:seed:7";
const Kind kinds[] = {
    {"unix", "unix:" + folder, "unix:" + folder, true},
    {"unix with tee and fault", "unix:" + folder + no_faults + "+tee:" + second,
     "unix:" + folder + no_faults, true},
    {"udp", "udp:127.0.0.1:47911:127.0.0.1:47912", "udp:127.0.0.1:47912:127.0.0.1:47911", true},
    {"udp6", "udp:[::1]:47911:[::1]:47912", "udp:[::1]:47912:[::1]:47911", true},
    {"dgram", "dgram:" + folder + "/one:" + folder + "/two",
     "dgram:" + folder + "/two:" + folder + "/one", true},
    {"a tap that sends", "tap:kt0", "af_packet:kt0", true},
    {"a tap that receives", "af_packet:kt1", "tap:kt1", true},
    {"cable", "cable:contract", "cable:contract", true},
    {"pcap", "pcap::" + capture, "pcap:" + capture, false},
    {"af_packet", "af_packet:va", "af_packet:vb", true},
};
bool have_namespace = false;
bool have_tap = false;

struct Ends {
  std::unique_ptr<Wire> tx, rx;
  Kind kind;

  explicit Ends(const Kind& k) : kind(k) {
    std::string why;
    Result<std::unique_ptr<Wire>> made = make_wire(k.sender, &why);
    CU_ASSERT_FATAL(made.ok());
    tx = std::move(*made);
    if (k.receiver_first) open_receiver();
  }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  void open_receiver() {
    if (rx) return;
    rx = *make_wire(kind.receiver);
    // The kernel sends on a tap a while after somebody listens there.
    if (kind.receiver.starts_with("tap"))
      CU_ASSERT(
          command("for i in $(seq 200); do ip link show kt1 | grep -q 'state UP' && sleep 0.05 && "
                  "exit 0; sleep "
                  "0.01; done; exit 1"));
  }
  // The next frame that comes within a second.
  std::span<const std::byte> next() {
    open_receiver();
    for (int i = 0; i < 1000; ++i) {
      if (std::span<const std::byte> f = rx->peek(); !f.empty() || rx->ended()) return f;
      usleep(1000);
    }
    return {};
  }
};

void on_each_kind(const std::function<void(Ends&)>& check) {
  for (const Kind& k : kinds) {
    if (k.name[0] == 'a' && !have_namespace) continue;
    if (k.name[1] == ' ' && !have_tap) continue;
    std::printf(" %s", k.name);
    Ends ends(k);
    check(ends);
  }
}

bool same(std::span<const std::byte> a, const Bytes& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), b.size()) == 0;
}

void frames_arrive_whole_and_in_order() {
  on_each_kind([](Ends& e) {
    uint64_t bytes = 0;
    std::size_t came = 0;
    auto numbered = [](std::size_t i) {
      return make_frame({.ipv6 = i % 2 == 0, .tcp = i % 3 == 0, .payload = 20 * i});
    };
    auto begin_next = [&] {
      CU_ASSERT(same(e.next(), numbered(came++)));
      e.rx->drop();
    };
    for (std::size_t i = 0; i < 50; ++i) {
      Bytes f = numbered(i);
      Wire::Sent sent = e.tx->send(f);
      // A short queue: room comes when the receiver takes.
      for (; sent == Wire::Sent::busy && came < i; sent = e.tx->send(f)) begin_next();
      EQUAL(sent, Wire::Sent::taken);
      bytes += f.size();
    }
    while (came < 50) begin_next();
    CU_ASSERT(e.rx->peek().empty());
    CU_ASSERT(e.tx->counters().tx_frames == 50 && e.tx->counters().tx_bytes == bytes);
    CU_ASSERT(e.rx->counters().rx_frames == 50 && e.rx->counters().rx_bytes == bytes);
  });
}

void a_frame_stays_until_it_is_dropped() {
  on_each_kind([](Ends& e) {
    Bytes a = make_frame({.payload = 1}), b = make_frame({.payload = 2});
    e.tx->send(a);
    e.tx->send(b);
    CU_ASSERT(same(e.next(), a));
    CU_ASSERT(same(e.next(), a));
    e.rx->drop();
    CU_ASSERT(same(e.next(), b));
    e.rx->drop();
    e.rx->drop();
    CU_ASSERT(e.rx->peek().empty());
    EQUAL(e.rx->counters().rx_frames, 2);
  });
}

void the_shortest_and_the_longest_frame_pass_and_no_other() {
  on_each_kind([](Ends& e) {
    std::size_t longest = e.tx->mtu() + 14;
    for (std::size_t n : {std::size_t{14}, longest}) {
      Bytes f(n, std::byte{5});
      put16(f, 12, 0x88b5);
      EQUAL(e.tx->send(f), Wire::Sent::taken);
    }
    for (std::size_t n : {std::size_t{0}, std::size_t{13}, longest + 9, std::size_t{65000}}) {
      EQUAL(e.tx->send(Bytes(n)), Wire::Sent::refused);
    }
    EQUAL(e.tx->counters().tx_bad_length, 4);
    EQUAL(e.next().size(), 14);
    e.rx->drop();
    EQUAL(e.next().size(), longest);
    e.rx->drop();
  });
}

void a_waiting_receiver_is_woken() {
  on_each_kind([](Ends& e) {
    e.open_receiver();
    CU_ASSERT(e.rx->peek().empty());
    pollfd p{e.rx->fd(), POLLIN, 0};
    if (p.fd < 0) return;
    EQUAL(poll(&p, 1, 0), 0);
    e.tx->send(make_frame({}));
    EQUAL(poll(&p, 1, 1000), 1);
    CU_ASSERT(!e.next().empty());
    e.rx->drop();
    CU_ASSERT(e.rx->peek().empty());
    p.fd = e.rx->fd();
    EQUAL(poll(&p, 1, 0), 0);
  });
}

void a_receiver_that_does_not_take_loses_nothing_that_was_taken() {
  on_each_kind([](Ends& e) {
    auto numbered = [](uint64_t n) {
      return make_frame({.payload = 1400, .seq = static_cast<uint32_t>(n)});
    };
    uint64_t taken = 0;
    while (taken < 1000 && e.tx->send(numbered(taken)) == Wire::Sent::taken) ++taken;
    CU_ASSERT(taken == 1000 || e.tx->counters().tx_busy == 1);
    CU_ASSERT(taken < 1000 || e.kind.name[0] != 'c');  // a cable's queue is shorter than that
    uint64_t came = 0;
    for (; came < taken && same(e.next(), numbered(came)); ++came) e.rx->drop();
    EQUAL(came, taken);
    EQUAL(e.rx->counters().rx_kernel_drops, 0);
    EQUAL(e.tx->send(numbered(came)), Wire::Sent::taken);
  });
}

void a_cable_has_two_ends_and_may_be_plugged_again() {
  auto a = make_wire("cable:c"), b = make_wire("cable:c");
  CU_ASSERT(a.ok() && b.ok());
  CU_ASSERT(!make_wire("cable:c").ok() && make_wire("cable:c").error().code == EBUSY);
  (*a)->send(make_frame({}));
  b->reset();
  EQUAL((*a)->send(make_frame({})), Wire::Sent::taken);
  b = make_wire("cable:c");
  CU_ASSERT(b.ok() && (*b)->peek().empty());
  (*a)->send(make_frame({}));
  CU_ASSERT(!(*b)->peek().empty());
}

// Frames of all lengths in a cable that is full most of the time: nothing is put over what is still
// to be read, wherever in the ring it lies.
void a_full_cable_loses_nothing() {
  auto a = make_wire("cable:full"), b = make_wire("cable:full");
  CU_ASSERT_FATAL(a.ok() && b.ok());
  auto numbered = [](std::size_t i) {
    Bytes f(14 + i * 977 % 1500, static_cast<std::byte>(i));
    put16(f, 0, i);
    put16(f, 12, 0x88b5);
    return f;
  };
  std::size_t sent = 0, came = 0;
  bool all_same = true;
  for (constexpr std::size_t many = 20'000; came < many && all_same; (*b)->drop()) {
    while (sent < many && (*a)->send(numbered(sent)) == Wire::Sent::taken) sent++;
    all_same = same((*b)->peek(), numbered(came++));
  }
  CU_ASSERT(all_same && (*b)->peek().empty());
}

// The first word of who sends to nobody comes with his next frame.
void a_late_neighbour_misses_no_frame() {
  auto a = make_wire("udp:127.0.0.1:47921:127.0.0.1:47922");
  CU_ASSERT_FATAL(a.ok());
  EQUAL((*a)->send(make_frame({.payload = 9})), Wire::Sent::taken);
  auto b = make_wire("udp:127.0.0.1:47922:127.0.0.1:47921");
  CU_ASSERT_FATAL(b.ok());
  const Bytes heard = make_frame({.payload = 7});
  CU_ASSERT((*a)->send(heard) == Wire::Sent::taken && (*a)->counters().tx_lost == 0);
  for (int i = 0; i < 10'000 && (*b)->peek().empty(); i++) usleep(1000);
  CU_ASSERT(same((*b)->peek(), heard));
}

sockaddr_un address_of(const std::string& name) {
  sockaddr_un a{AF_UNIX, {}};
  name.copy(a.sun_path, sizeof(a.sun_path) - 1);
  return a;
}

// A neighbour that is no wire may send anything.
void what_is_no_frame_is_counted_and_passed_over() {
  const std::string one = folder + "/x", two = folder + "/y";
  auto wire = make_wire("dgram:" + one + ":" + two);
  CU_ASSERT_FATAL(wire.ok());
  const sockaddr_un us = address_of(one), them = address_of(two);
  int fd = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  EQUAL(::bind(fd, reinterpret_cast<const sockaddr*>(&them), sizeof(them)), 0);
  const std::size_t longest = max_frame((*wire)->mtu());
  for (std::size_t bytes : {std::size_t{0}, std::size_t{13}, longest + 1, longest + 9, longest}) {
    const Bytes f(bytes, static_cast<std::byte>(bytes));
    EQUAL(::sendto(fd, f.data(), f.size(), 0, reinterpret_cast<const sockaddr*>(&us), sizeof(us)),
          static_cast<ssize_t>(bytes));
  }
  CU_ASSERT(same((*wire)->peek(), Bytes(longest, static_cast<std::byte>(longest))));
  EQUAL((*wire)->counters().rx_malformed, 2);
  EQUAL((*wire)->counters().rx_too_long, 2);
  ::close(fd);
}

void leave_a_socket(const std::string& name) {
  const sockaddr_un a = address_of(name);
  int fd = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  EQUAL(::bind(fd, reinterpret_cast<const sockaddr*>(&a), sizeof(a)), 0);
  ::close(fd);
}

// The socket's file is ours alone while we live; what a dead process left is taken over, and a file
// of another kind is nobody's socket.
void a_pair_of_sockets_belongs_to_two() {
  const std::string one = folder + "/a", two = folder + "/b", to = "dgram:";
  auto a = make_wire(to + one + ":" + two);
  CU_ASSERT_FATAL(a.ok());
  EQUAL((*a)->send(make_frame({})), Wire::Sent::taken);  // nobody there yet
  CU_ASSERT(!make_wire(to + one + ":" + two).ok());      // it lives
  auto stranger = make_wire(to + folder + "/c:" + one);
  auto b = make_wire(to + two + ":" + one);
  CU_ASSERT_FATAL(stranger.ok() && b.ok());
  Bytes heard = make_frame({.payload = 7});
  EQUAL((*stranger)->send(make_frame({.payload = 9})), Wire::Sent::taken);
  EQUAL((*b)->send(heard), Wire::Sent::taken);
  CU_ASSERT(same((*a)->peek(), heard));
  EQUAL((*a)->counters().rx_malformed, 1);
  a->reset();
  CU_ASSERT(!std::filesystem::exists(one));
  EQUAL((*b)->send(heard), Wire::Sent::taken);
  leave_a_socket(one);
  CU_ASSERT(make_wire(to + one + ":" + two).ok());
  CU_ASSERT(command("echo mine > " + one));
  CU_ASSERT(!make_wire(to + one + ":" + two).ok());
  CU_ASSERT(std::filesystem::is_regular_file(one));
}

void specs_that_are_no_wire_are_refused_with_a_sentence() {
  for (const char* bad : {"",
                          "x",
                          "cable",
                          "cable:",
                          "pcap:",
                          "pcap::",
                          "pcap:a:b:c",
                          "af_packet:",
                          "dgram:a",
                          "dgram::b",
                          "dgram:a:b:c",
                          "dgram:a:a",
                          "tun:t0",
                          "af_packet:nosuchif0",
                          "pcap:/nonexistent/x",
                          "cable:a,b",
                          "cable:a=b",
                          "cable:a+drop",
                          "cable:a+",
                          "cable:a+tee:",
                          "cable:a+fault:",
                          "cable:a+fault:drop",
                          "cable:a+fault:drop:1.5",
                          "cable:a+fault:drop:-1",
                          "cable:a+fault:drop:nan",
                          "cable:a+fault:seed:x",
                          "cable:a+fault:lose:0.1",
                          "unix:",
                          "unix:/nonexistent/x",
                          "tap:a-name-of-sixteen",
                          "tap:a%d",
                          "udp:1",
                          "udp:127.0.0.1:1:127.0.0.1",
                          "udp:name:1:127.0.0.1:2",
                          "udp:[::1:1:[::1]:2",
                          "udp:127.0.0.1:1:[::1]:2",
                          "udp:127.0.0.1:1:127.0.0.1:2:3"}) {
    std::string why;
    CU_ASSERT(!make_wire(bad, &why).ok());
    CU_ASSERT(why.find(std::string("'") + bad + "'") != std::string::npos);
    CU_ASSERT(why.find("cable:NAME") != std::string::npos);
  }
}

void an_interface_has_its_index() {
  on_each_kind([](Ends& e) {
    const std::string name(interface_of_wire(e.kind.sender));
    CU_ASSERT(name.empty() != (e.kind.name[0] == 'a'));
    EQUAL(e.tx->interface(), name.empty() ? 0 : if_nametoindex(name.c_str()));
  });
  EQUAL(interface_of_wire("tap:kt0+tee:/tmp/x"), "kt0");
  // Parts of paths, or no names: nothing is made of them.
  for (const char* bad : {"tap:..", "tap:../../etc", "af_packet:a/b", "tap:a b",
                          "tap:a-name-of-sixteen", "unix:eth0", "tap:", ""}) {
    CU_ASSERT(interface_of_wire(bad).empty());
  }
}

constexpr Case cases[] = {
    {"frames arrive whole and in order", frames_arrive_whole_and_in_order},
    {"a frame stays until it is dropped", a_frame_stays_until_it_is_dropped},
    {"the shortest and the longest frame pass and no other",
     the_shortest_and_the_longest_frame_pass_and_no_other},
    {"a waiting receiver is woken", a_waiting_receiver_is_woken},
    {"a receiver that does not take loses nothing that was taken",
     a_receiver_that_does_not_take_loses_nothing_that_was_taken},
    {"a cable has two ends and may be plugged again",
     a_cable_has_two_ends_and_may_be_plugged_again},
    {"a full cable loses nothing", a_full_cable_loses_nothing},
    {"a late neighbour misses no frame", a_late_neighbour_misses_no_frame},
    {"what is no frame is counted and passed over", what_is_no_frame_is_counted_and_passed_over},
    {"a wire that is an interface of the machine says which", an_interface_has_its_index},
    {"a pair of sockets belongs to two", a_pair_of_sockets_belongs_to_two},
    {"specs that are no wire are refused with a sentence",
     specs_that_are_no_wire_are_refused_with_a_sentence},
};

}  // namespace

int main(int argc, char** argv) {
  have_namespace = enter_namespace_with_veth();
  have_tap = have_namespace && command("ip link set lo up") &&
             command("(echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6)") &&
             command("ip tuntap add kt0 mode tap") && command("ip tuntap add kt1 mode tap") &&
             command("ip link set kt0 up") && command("ip link set kt1 up");
  int failed = run_cases("vhca/wire contract", cases, argc, argv);
  std::filesystem::remove_all(folder);
  if (failed == 0 && !have_namespace) {
    std::printf("skipped for af_packet: no network namespace can be made here (root is needed)\n");
    return skipped;
  }
  return failed;
}
