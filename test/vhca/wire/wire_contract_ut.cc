// SPDX-License-Identifier: BSD-3-Clause
// What every wire does, whatever is behind it: one set of checks over each kind. Packet sockets are
// checked where a network namespace can be made, else the run ends with 77.
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "case_tables.hh"
#include "folder_fixture.hh"
#include "frames_fixture.hh"
#include "netns.hh"
#include "vhca/wire/make.hh"
#include "vhca/wire/row_wire.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace wire_contract_ut {
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
    {"shm", "shm:" + folder + "/shm", "shm:" + folder + "/shm", true},
    {"shm with tee and fault", "shm:" + folder + "/shm" + no_faults + "+tee:" + second,
     "shm:" + folder + "/shm" + no_faults, true},
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
  std::unique_ptr<wire::Wire> tx, rx;
  Kind kind;

  explicit Ends(const Kind& k) : kind(k) {
    std::string why;
    Result<std::unique_ptr<wire::Wire>> made = wire::make_wire(k.sender, &why);
    CU_ASSERT_FATAL(made.ok());
    tx = std::move(*made);
    if (k.receiver_first) open_receiver();
  }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  void open_receiver() {
    if (rx) return;
    rx = *wire::make_wire(kind.receiver);
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
      wire::Wire::Sent sent = e.tx->send(f);
      // A short queue: room comes when the receiver takes.
      for (; sent == wire::Wire::Sent::busy && came < i; sent = e.tx->send(f)) begin_next();
      EQUAL(sent, wire::Wire::Sent::taken);
      bytes += f.size();
    }
    while (came < 50) begin_next();
    CU_ASSERT(e.rx->peek().empty());
    EQUAL(e.tx->counters().tx_frames, 50);
    EQUAL(e.tx->counters().tx_bytes, bytes);
    EQUAL(e.rx->counters().rx_frames, 50);
    EQUAL(e.rx->counters().rx_bytes, bytes);
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
      EQUAL(e.tx->send(f), wire::Wire::Sent::taken);
    }
    for (std::size_t n : {std::size_t{0}, std::size_t{13}, longest + 9, std::size_t{65000}}) {
      EQUAL(e.tx->send(Bytes(n)), wire::Wire::Sent::refused);
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
    while (taken < 1000 && e.tx->send(numbered(taken)) == wire::Wire::Sent::taken) ++taken;
    CU_ASSERT(taken == 1000 || e.tx->counters().tx_busy == 1);
    CU_ASSERT(taken < 1000 || e.kind.name[0] != 'c');  // a cable's queue is shorter than that
    uint64_t came = 0;
    for (; came < taken && same(e.next(), numbered(came)); ++came) e.rx->drop();
    EQUAL(came, taken);
    EQUAL(e.rx->counters().rx_kernel_drops, 0);
    EQUAL(e.tx->send(numbered(came)), wire::Wire::Sent::taken);
  });
}

// Where nothing holds the sender back the kernel drops what finds no room, and says how much.
void what_finds_no_room_at_the_receiver_is_counted() {
  on_each_kind([](Ends& e) {
    const std::string_view name = e.kind.name;
    if (!name.starts_with("udp") && name != "af_packet" && name != "a tap that receives") return;
    e.open_receiver();
    constexpr uint64_t tries = 40'000, row = 40;
    for (uint64_t n = 0; n < tries; n += row) {
      e.tx->cork(true);  // frames of one length leave together
      for (uint64_t i = 0; i < row; i++) (void)e.tx->send(make_frame({.payload = 1400}));
      EQUAL(e.tx->flush(), true);
      e.tx->cork(false);
    }
    uint64_t came = 0, dropped = 0;
    for (int empty = 0; empty < 20; empty++) {
      for (; !e.rx->peek().empty(); came++) e.rx->drop(), empty = 0;
      dropped = e.rx->counters().rx_kernel_drops;
      if (came + dropped == tries) break;
      usleep(1000);
    }
    EQUAL(came + dropped, tries);
    CU_ASSERT(came > 100);
    CU_ASSERT(dropped > 100);
    EQUAL(e.rx->counters().rx_kernel_drops, dropped);  // asked for once more, counted once
  });
}

void an_interface_has_its_index() {
  on_each_kind([](Ends& e) {
    const std::string name(wire::interface_of_wire(e.kind.sender));
    CU_ASSERT(name.empty() != (e.kind.name[0] == 'a'));
    EQUAL(e.tx->interface(), name.empty() ? 0 : if_nametoindex(name.c_str()));
  });
  EQUAL(wire::interface_of_wire("tap:kt0+tee:/tmp/x"), "kt0");
  // Parts of paths, or no names: nothing is made of them.
  for (const char* bad : {"tap:..", "tap:../../etc", "af_packet:a/b", "tap:a b",
                          "tap:a-name-of-sixteen", "unix:eth0", "tap:", ""}) {
    CU_ASSERT(wire::interface_of_wire(bad).empty());
  }
}

std::set<int> open_numbers() {
  std::set<int> numbers;
  for (int fd = 3; fd < 1024; fd++)
    if (::fcntl(fd, F_GETFD) >= 0) numbers.insert(fd);
  return numbers;
}

// A program closes all numbers (closefrom(3)) and opens files of its own, which get the wire's. Not
// by a cable, which is memory and has none that it writes to.
void a_program_s_own_files_at_a_wire_s_numbers_are_left_alone() {
  constexpr std::string_view kept = "the program's own";
  for (const Kind& k : kinds) {
    if ((k.name[0] == 'a' && !have_namespace) || (k.name[1] == ' ' && !have_tap)) continue;
    if (std::string_view(k.name) == "cable") continue;
    (void)wire::always_readable();  // one for all wires, never closed
    auto rx = k.receiver_first ? std::move(*wire::make_wire(k.receiver)) : nullptr;
    const std::set<int> before = open_numbers();
    auto tx = std::move(*wire::make_wire(k.sender));
    EQUAL(tx->send(make_frame({})), wire::Wire::Sent::taken);
    std::map<int, Fd> own;
    for (const int fd : open_numbers()) {
      if (before.contains(fd)) continue;
      Fd file(::memfd_create("own", 0));
      EQUAL(::write(file.get(), kept.data(), kept.size()), static_cast<ssize_t>(kept.size()));
      EQUAL(::dup2(file.get(), fd), fd);
      own.emplace(fd, std::move(file));
    }
    CU_ASSERT(!own.empty());
    tx->cork(true);
    EQUAL(tx->send(make_frame({})), wire::Wire::Sent::taken);
    (void)tx->flush();
    CU_ASSERT(tx->peek().empty());
    tx->cork(false);
    EQUAL(tx->send(make_frame({})), wire::Wire::Sent::taken);
    tx.reset();
    for (const auto& [fd, file] : own) {
      struct stat at, ours;
      const bool there = ::fstat(fd, &at) == 0 && ::fstat(file.get(), &ours) == 0;
      const bool whole =
          there && at.st_ino == ours.st_ino && at.st_size == static_cast<off_t>(kept.size());
      if (!whole) std::printf(" %s closed or wrote to %d\n", k.name, fd);
      CU_ASSERT(whole);
      if (whole) ::close(fd);
    }
  }
}

constexpr Case cases[] = {
    {"a program's own files at a wire's numbers are left alone",
     a_program_s_own_files_at_a_wire_s_numbers_are_left_alone},
    {"frames arrive whole and in order", frames_arrive_whole_and_in_order},
    {"a frame stays until it is dropped", a_frame_stays_until_it_is_dropped},
    {"the shortest and the longest frame pass and no other",
     the_shortest_and_the_longest_frame_pass_and_no_other},
    {"a waiting receiver is woken", a_waiting_receiver_is_woken},
    {"a receiver that does not take loses nothing that was taken",
     a_receiver_that_does_not_take_loses_nothing_that_was_taken},
    {"what finds no room at the receiver is counted",
     what_finds_no_room_at_the_receiver_is_counted},
    {"a wire that is an interface of the machine says which", an_interface_has_its_index},
};

}  // namespace
}  // namespace wire_contract_ut

KILIM_TEST_MAIN(wire_contract) {
  wire_contract_ut::have_namespace = enter_namespace_with_veth();
  wire_contract_ut::have_tap = wire_contract_ut::have_namespace && command("ip link set lo up") &&
                               command("(echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6)") &&
                               command("ip tuntap add kt0 mode tap") &&
                               command("ip tuntap add kt1 mode tap") &&
                               command("ip link set kt0 up") && command("ip link set kt1 up");
  int failed = kilim::test::run_tables(
      "vhca/wire contract", {wire_contract_ut::cases, kilim::test::wire_kind_cases()}, argc, argv);
  std::filesystem::remove_all(wire_contract_ut::folder);
  if (failed == 0 && !wire_contract_ut::have_namespace) {
    std::printf("skipped for af_packet: no network namespace can be made here (root is needed)\n");
    return skipped;
  }
  return failed;
}
