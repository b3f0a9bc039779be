// SPDX-License-Identifier: BSD-3-Clause
// Part of wire_contract_ut. What only one kind of wire does: cables, neighbours that come late or
// err, sockets that two own; and the specs that are no wire.
#include <array>
#include <filesystem>

#include <linux/sock_diag.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "folder_fixture.hh"
#include "netns.hh"
#include "vhca/wire/make.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace wire_kinds_ut {
namespace {

void a_cable_has_two_ends_and_may_be_plugged_again() {
  auto a = wire::make_wire("cable:c"), b = wire::make_wire("cable:c");
  CU_ASSERT(a.ok());
  CU_ASSERT(b.ok());
  CU_ASSERT(!wire::make_wire("cable:c").ok());
  EQUAL(wire::make_wire("cable:c").error().code, EBUSY);
  (*a)->send(make_frame({}));
  b->reset();
  EQUAL((*a)->send(make_frame({})), wire::Wire::Sent::taken);
  b = wire::make_wire("cable:c");
  CU_ASSERT(b.ok() && (*b)->peek().empty());
  (*a)->send(make_frame({}));
  CU_ASSERT(!(*b)->peek().empty());
}

// Frames of all lengths in a cable that is full most of the time: nothing is put over what is still
// to be read, wherever in the ring it lies.
void a_full_cable_loses_nothing() {
  auto a = wire::make_wire("cable:full"), b = wire::make_wire("cable:full");
  CU_ASSERT_FATAL(a.ok());
  CU_ASSERT_FATAL(b.ok());
  auto numbered = [](std::size_t i) {
    Bytes f(14 + i * 977 % 1500, static_cast<std::byte>(i));
    put16(f, 0, i);
    put16(f, 12, 0x88b5);
    return f;
  };
  std::size_t sent = 0, came = 0;
  bool all_same = true;
  for (constexpr std::size_t many = 20'000; came < many && all_same; (*b)->drop()) {
    while (sent < many && (*a)->send(numbered(sent)) == wire::Wire::Sent::taken) sent++;
    all_same = same((*b)->peek(), numbered(came++));
  }
  CU_ASSERT(all_same);
  CU_ASSERT((*b)->peek().empty());
}

// The first word of who sends to nobody comes with his next frame.
void a_late_neighbour_misses_no_frame() {
  auto a = wire::make_wire("udp:127.0.0.1:47921:127.0.0.1:47922");
  CU_ASSERT_FATAL(a.ok());
  EQUAL((*a)->send(make_frame({.payload = 9})), wire::Wire::Sent::taken);
  auto b = wire::make_wire("udp:127.0.0.1:47922:127.0.0.1:47921");
  CU_ASSERT_FATAL(b.ok());
  const Bytes heard = make_frame({.payload = 7});
  EQUAL((*a)->send(heard), wire::Wire::Sent::taken);
  EQUAL((*a)->counters().tx_lost, 0);
  for (int i = 0; i < 10'000 && (*b)->peek().empty(); i++) usleep(1000);
  CU_ASSERT(same((*b)->peek(), heard));
}

// What comes back for each frame that nobody hears is read: it takes no room of what comes, and
// does not wake a thread for ever.
void news_of_an_absent_neighbour_do_not_pile_up() {
  auto a = wire::make_wire("udp:127.0.0.1:47935:127.0.0.1:47936");
  CU_ASSERT_FATAL(a.ok());
  for (int i = 0; i < 300; i++) {
    EQUAL((*a)->send(make_frame({.payload = 9})), wire::Wire::Sent::taken);
    CU_ASSERT((*a)->peek().empty());
  }
  pollfd p{(*a)->fd(), POLLIN, 0};
  for (int i = 0; i < 100 && ::poll(&p, 1, 10) != 0; i++) CU_ASSERT((*a)->peek().empty());
  EQUAL(p.revents, 0);
  std::array<uint32_t, SK_MEMINFO_VARS> memory{};
  socklen_t bytes = sizeof memory;
  EQUAL(getsockopt(p.fd, SOL_SOCKET, SO_MEMINFO, memory.data(), &bytes), 0);
  EQUAL(memory[SK_MEMINFO_RMEM_ALLOC], 0);
  EQUAL((*a)->counters().tx_frames, 300);
}

// Frames of one length in a row are one message to the kernel; whatever it does with them, the
// neighbour gets what was sent.
void rows_of_frames_come_as_they_were() {
  auto a = wire::make_wire("udp:127.0.0.1:47931:127.0.0.1:47932");
  auto b = wire::make_wire("udp:127.0.0.1:47932:127.0.0.1:47931");
  CU_ASSERT_FATAL(a.ok());
  CU_ASSERT_FATAL(b.ok());
  auto numbered = [](std::size_t i) {
    const std::size_t bytes = i < 40 ? 1000 : i < 80 ? 9014 : i % 3 == 0 ? 14 : 14 + i * 37 % 500;
    Bytes f(bytes, static_cast<std::byte>(i));
    put16(f, 12, 0x88b5);
    return f;
  };
  (*a)->cork(true);
  std::size_t sent = 0, came = 0;
  for (; sent < 100; sent++) EQUAL((*a)->send(numbered(sent)), wire::Wire::Sent::taken);
  CU_ASSERT((*a)->flush());
  for (int i = 0; came < sent && i < 1000; i++) {
    for (; !(*b)->peek().empty(); (*b)->drop()) CU_ASSERT(same((*b)->peek(), numbered(came++)));
    usleep(1000);
  }
  EQUAL(came, sent);
  EQUAL((*b)->counters().rx_malformed, 0);
  EQUAL((*a)->counters().tx_lost, 0);
}

sockaddr_un address_of(const std::string& name) {
  sockaddr_un a{AF_UNIX, {}};
  name.copy(a.sun_path, sizeof(a.sun_path) - 1);
  return a;
}

// A neighbour that is no wire may send anything.
void what_is_no_frame_is_counted_and_passed_over() {
  const Folder f;
  const std::string one = f.name + "/x", two = f.name + "/y";
  auto wire = wire::make_wire("dgram:" + one + ":" + two);
  CU_ASSERT_FATAL(wire.ok());
  const sockaddr_un us = address_of(one), them = address_of(two);
  int fd = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  EQUAL(::bind(fd, reinterpret_cast<const sockaddr*>(&them), sizeof(them)), 0);
  const std::size_t longest = wire::max_frame((*wire)->mtu());
  for (std::size_t bytes : {std::size_t{0}, std::size_t{13}, longest + 1, longest + 9, longest}) {
    const Bytes sent(bytes, static_cast<std::byte>(bytes));
    EQUAL(::sendto(fd, sent.data(), sent.size(), 0, reinterpret_cast<const sockaddr*>(&us),
                   sizeof(us)),
          static_cast<ssize_t>(bytes));
  }
  CU_ASSERT(same((*wire)->peek(), Bytes(longest, static_cast<std::byte>(longest))));
  EQUAL((*wire)->counters().rx_too_short, 2);
  EQUAL((*wire)->counters().rx_malformed, 0);
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
  const Folder f;
  const std::string one = f.name + "/a", two = f.name + "/b", to = "dgram:";
  auto a = wire::make_wire(to + one + ":" + two);
  CU_ASSERT_FATAL(a.ok());
  EQUAL((*a)->send(make_frame({})), wire::Wire::Sent::taken);  // nobody there yet
  CU_ASSERT(!wire::make_wire(to + one + ":" + two).ok());      // it lives
  auto stranger = wire::make_wire(to + f.name + "/c:" + one);
  auto b = wire::make_wire(to + two + ":" + one);
  CU_ASSERT_FATAL(stranger.ok());
  CU_ASSERT_FATAL(b.ok());
  Bytes heard = make_frame({.payload = 7});
  EQUAL((*stranger)->send(make_frame({.payload = 9})), wire::Wire::Sent::taken);
  EQUAL((*b)->send(heard), wire::Wire::Sent::taken);
  CU_ASSERT(same((*a)->peek(), heard));
  EQUAL((*a)->counters().rx_malformed, 1);
  a->reset();
  CU_ASSERT(!std::filesystem::exists(one));
  EQUAL((*b)->send(heard), wire::Wire::Sent::taken);
  leave_a_socket(one);
  CU_ASSERT(wire::make_wire(to + one + ":" + two).ok());
  CU_ASSERT(command("echo mine > " + one));
  CU_ASSERT(!wire::make_wire(to + one + ":" + two).ok());
  CU_ASSERT(std::filesystem::is_regular_file(one));
}

constexpr const char* no_wires[] = {"",
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
                                    "shm:",
                                    "shm:/nonexistent/x",
                                    "unix:/nonexistent/x",
                                    "tap:a-name-of-sixteen",
                                    "tap:a%d",
                                    "udp:1",
                                    "udp:127.0.0.1:1:127.0.0.1",
                                    "udp:name:1:127.0.0.1:2",
                                    "udp:[::1:1:[::1]:2",
                                    "udp:127.0.0.1:1:[::1]:2",
                                    "udp:127.0.0.1:1:127.0.0.1:2:3"};

void specs_that_are_no_wire_are_refused_with_a_sentence() {
  for (const char* bad : no_wires) {
    std::string why;
    CU_ASSERT(!wire::make_wire(bad, &why).ok());
    CU_ASSERT(why.find(std::string("'") + bad + "'") != std::string::npos);
    // What a wire is, is told of a spec that is none; else only why this one cannot be had.
    EQUAL(why.find("cable:NAME") != std::string::npos, !wire::check_wire_spec(bad).ok());
    CU_ASSERT(!wire::check_wire_spec(bad).ok() || why.size() < 160);
  }
}

constexpr Case of_one_kind[] = {
    {"a cable has two ends and may be plugged again",
     a_cable_has_two_ends_and_may_be_plugged_again},
    {"a full cable loses nothing", a_full_cable_loses_nothing},
    {"a late neighbour misses no frame", a_late_neighbour_misses_no_frame},
    {"news of an absent neighbour do not pile up", news_of_an_absent_neighbour_do_not_pile_up},
    {"rows of frames come as they were", rows_of_frames_come_as_they_were},
    {"what is no frame is counted and passed over", what_is_no_frame_is_counted_and_passed_over},
    {"a pair of sockets belongs to two", a_pair_of_sockets_belongs_to_two},
    {"specs that are no wire are refused with a sentence",
     specs_that_are_no_wire_are_refused_with_a_sentence},
};

}  // namespace
}  // namespace wire_kinds_ut

std::span<const kilim::test::Case> kilim::test::wire_kind_cases() {
  return wire_kinds_ut::of_one_kind;
}
