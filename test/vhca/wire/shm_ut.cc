// SPDX-License-Identifier: BSD-3-Clause
// The switch in shared memory: who gets a frame, who wakes, what the dead leave, and neighbours
// that write into the shared ring what they like.
#include <array>
#include <cstddef>
#include <string>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "folder_fixture.hh"
#include "vhca/wire/shm.hh"
#include "vhca/wire/shm_ring.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace {

struct SharedFolder : Folder {
  SharedFolder() { kind = "shm:"; }
};

// Somebody sleeps on the descriptor, and another thread takes what there is: the sleeper still
// wakes for the next frame.
void who_sleeps_wakes_though_another_takes() {
  SharedFolder f;
  auto a = f.open(), b = f.open();
  const Bytes frame = frame_to(*b->mac(), *a->mac(), 'x');
  a->send(frame);
  for (int i = 0; i < 200 && b->peek().empty(); i++) continue;
  b->drop();
  for (int round = 0; round < 3; round++) {
    CU_ASSERT(b->peek().empty());
    pollfd sleeper{b->fd(), POLLIN, 0};
    EQUAL(poll(&sleeper, 1, 0), 0);
    auto take = [&b] {
      for (int i = 0; i < 200; i++) {
        if (!b->peek().empty()) b->drop();
      }
    };
    std::thread(take).join();
    a->send(frame);
    std::thread(take).join();
    EQUAL(poll(&sleeper, 1, 0), 1);
  }
}

// Within a second.
std::string heard(Wire& w) {
  for (int i = 0; i < 1000; i++) {
    if (std::string all = taken(w); !all.empty()) return all;
    usleep(1000);
  }
  return {};
}

// What a wire hears that looks as often as it likes.
std::string heard_now(Wire& w) {
  std::string all;
  for (int i = 0; i < 200; i++) all += taken(w);
  return all;
}

bool readable(const Wire& w, int ms = 0) {
  pollfd p{w.fd(), POLLIN, 0};
  return poll(&p, 1, ms) == 1;
}

void a_frame_goes_to_its_slot_and_to_nobody_else() {
  SharedFolder f;
  auto a = f.open(), b = f.open(), c = f.open();
  EQUAL(*b->mac(), (Mac{0x02, 0x4b, 0x4c, 0, 1, 1}));
  a->send(frame_to(*b->mac(), *a->mac(), 'b'));
  a->send(frame_to(*c->mac(), *a->mac(), 'c'));
  CU_ASSERT(heard(*b) == "b" && heard(*c) == "c" && heard_now(*a).empty());
  const Mac own{0x02, 9, 9, 9, 9, 9};
  a->send(frame_to(own, *a->mac(), '1'));
  CU_ASSERT(heard(*b) == "1" && heard(*c) == "1");
  b->send(frame_to(*a->mac(), own, '2'));
  EQUAL(heard(*a), "2");
  a->send(frame_to(own, *a->mac(), '3'));
  CU_ASSERT(heard(*b) == "3" && heard_now(*c).empty());
  Gid gid{0xfd};
  b->publish(own, {&gid, 1});
  CU_ASSERT(a->find(gid) == own);
}

// Frames of all lengths, in a ring that is full most of the time.
void a_full_ring_loses_nothing() {
  SharedFolder f;
  auto a = f.open(), b = f.open();
  auto numbered = [&](std::size_t i) {
    Bytes frame = frame_to(*b->mac(), *a->mac(), static_cast<uint8_t>(i));
    frame.resize(14 + i * 977 % 9000, static_cast<std::byte>(i));
    return frame;
  };
  std::size_t sent = 0, came = 0;
  bool all_same = true;
  for (constexpr std::size_t many = 3000; came < many && all_same;) {
    while (sent < many && a->send(numbered(sent)) == Wire::Sent::taken) sent++;
    a->cork(sent % 2 == 0);
    (void)a->flush();
    if (b->peek().empty()) continue;
    all_same = same(b->peek(), numbered(came++));
    b->drop();
  }
  CU_ASSERT(all_same && b->peek().empty());
  CU_ASSERT(a->counters().tx_busy > 0);
}

void who_is_blocked_wakes_when_there_is_room() {
  SharedFolder f;
  auto a = f.open(), b = f.open();
  const Bytes frame = frame_to(*b->mac(), *a->mac(), 'x');
  std::size_t sent = 0;
  while (a->send(frame) == Wire::Sent::taken) sent++;
  CU_ASSERT(!a->has_room() && !readable(*a));
  CU_ASSERT(a->tells_room());
  std::size_t came = 0;
  for (int i = 0; i < 200 && b->peek().empty(); i++) continue;  // until he knows of us
  for (; came < sent / 8; came++) {
    CU_ASSERT_FATAL(!b->peek().empty());
    b->drop();
  }
  CU_ASSERT(!a->has_room());
  pollfd blocked{a->fd(), POLLIN, 0};
  EQUAL(poll(&blocked, 1, 0), 0);
  while (came < sent && !b->peek().empty()) b->drop(), came++;
  (void)b->peek();
  EQUAL(poll(&blocked, 1, 1000), 1);
  CU_ASSERT(readable(*a, 1000) && a->has_room());
  EQUAL(a->send(frame), Wire::Sent::taken);
  EQUAL(a->counters().tx_busy, 1);
}

void corked_frames_come_with_the_flush() {
  SharedFolder f;
  auto a = f.open(), b = f.open();
  a->send(frame_to(*b->mac(), *a->mac(), '0'));
  EQUAL(heard(*b), "0");
  a->cork(true);
  a->send(frame_to(*b->mac(), *a->mac(), '1'));
  a->send(frame_to(*b->mac(), *a->mac(), '2'));
  CU_ASSERT(heard_now(*b).empty());
  (void)a->flush();
  EQUAL(heard_now(*b), "12");
}

void what_the_dead_have_sent_still_comes() {
  SharedFolder f;
  auto a = f.open();
  const pid_t child = fork();
  if (child == 0) {
    auto b = f.open();
    for (char c : {'1', '2', '3'}) b->send(frame_to(*a->mac(), *b->mac(), static_cast<uint8_t>(c)));
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  EQUAL(heard(*a), "123");
  const Mac dead{0x02, 0x4b, 0x4c, 0, 1, 1};
  EQUAL(a->send(frame_to(dead, *a->mac(), 'x')), Wire::Sent::taken);
  EQUAL(a->counters().tx_lost, 1);
  auto heir = f.open();
  EQUAL(*heir->mac(), dead);
  a->send(frame_to(dead, *a->mac(), 'y'));
  EQUAL(heard(*heir), "y");
}

void who_dies_with_a_full_ring_makes_room() {
  SharedFolder f;
  auto a = f.open();
  auto b = f.open();
  const Bytes frame = frame_to(*b->mac(), *a->mac(), 'x');
  while (a->send(frame) == Wire::Sent::taken) continue;
  CU_ASSERT(!a->has_room());
  b.reset();
  CU_ASSERT(readable(*a, 1000) && a->has_room());
  EQUAL(a->send(frame), Wire::Sent::taken);
  EQUAL(a->counters().tx_lost, 1);
}

// As another program would build it: indices in lines of 64 bytes, then 1 MiB from byte 4,096 on.
constexpr std::size_t memory_bytes = 4096 + ShmRing::bytes;
struct Forged {
  int memory = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  std::byte* at = nullptr;
  explicit Forged(std::size_t bytes = memory_bytes, bool sealed = true) {
    EQUAL_FATAL(ftruncate(memory, static_cast<off_t>(bytes)), 0);
    if (sealed) EQUAL_FATAL(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    at = static_cast<std::byte*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0));
  }
  Forged(const Forged&) = delete;
  Forged& operator=(const Forged&) = delete;
  ~Forged() { close(memory); }
  void tail(uint64_t v) const { std::memcpy(at, &v, sizeof(v)); }
  void word(std::size_t place, uint32_t v) const { std::memcpy(at + 4096 + place, &v, sizeof(v)); }
};

struct Greeting {
  uint64_t magic = 0x31306d68736c6b;
  uint64_t slot = 7;
};

void say_hello(int fd, int memory, Greeting hello, std::size_t bytes) {
  iovec piece{&hello, bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr m{};
  m.msg_iov = &piece;
  m.msg_iovlen = 1;
  m.msg_control = memory < 0 ? nullptr : control;
  m.msg_controllen = memory < 0 ? 0 : sizeof(control);
  if (memory >= 0) {
    *CMSG_FIRSTHDR(&m) = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &memory, sizeof(memory));
  }
  CU_ASSERT(sendmsg(fd, &m, MSG_NOSIGNAL) >= 0);
}

// A neighbour of our own making; -1: the wire does not listen.
int greet(const Folder& f, int memory, Greeting hello = {}, std::size_t bytes = sizeof(Greeting)) {
  sockaddr_un to{AF_UNIX, {}};
  (f.name + "/0").copy(to.sun_path, sizeof(to.sun_path) - 1);
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) return -1;
  say_hello(fd, memory, hello, bytes);
  return fd;
}

// Whether the other end of this connection is still there.
bool is_kept(int fd) {
  char c;
  return recv(fd, &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

void a_forged_ring_costs_its_putter_the_connection() {
  SharedFolder f;
  auto a = f.open();
  struct Lie {
    uint64_t tail;
    uint32_t first, second;  // lengths at 0 and at 8
    bool broken;
  };
  constexpr Lie lies[] = {
      {72, 60, 0, false},                 // the truth
      {ShmRing::bytes + 8, 60, 0, true},  // more than there is
      {~uint64_t{7}, 60, 0, true},        // behind
      {71, 60, 0, true},                  // no multiple of eight
      {64, 60, 0, true},                  // a frame longer than what is filled
      {72, 1 << 20, 0, true},             // than the ring
      {72, 0xfffffff0, 0, true},          // than everything
      {72, ~0u, 0, true},                 // the rest is empty, and ends behind the tail
      {8, 0, 0, false},                   // no frame, counted
      {8 + 20000, 20000, 0, false},       // a frame that no port takes
  };
  for (const Lie& lie : lies) {
    Forged ring;
    ring.word(0, lie.first);
    ring.tail(lie.tail);
    const int fd = greet(f, ring.memory);
    (void)heard_now(*a);
    EQUAL(is_kept(fd), !lie.broken);
    close(fd);
    (void)heard_now(*a);
  }
  const WireCounters& c = a->counters();
  CU_ASSERT(c.rx_frames == 1 && c.rx_malformed == 7 && c.rx_too_long == 2);
  auto b = f.open();
  b->send(frame_to(*a->mac(), *b->mac(), 'b'));
  EQUAL(heard(*a), "b");
}

void what_is_no_ring_is_not_mapped() {
  SharedFolder f;
  auto a = f.open();
  const Forged good, short_one(4096), long_one(memory_bytes + 4096), open_one(memory_bytes, false);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  struct Row {
    int memory;
    Greeting hello;
    std::size_t bytes;
  };
  const Row rows[] = {{short_one.memory, {}, sizeof(Greeting)},
                      {long_one.memory, {}, sizeof(Greeting)},
                      {open_one.memory, {}, sizeof(Greeting)},  // its owner may cut it: SIGBUS
                      {null, {}, sizeof(Greeting)},
                      {-1, {}, sizeof(Greeting)},
                      {good.memory, {.magic = 1}, sizeof(Greeting)},
                      {good.memory, {.slot = 1u << 16}, sizeof(Greeting)},
                      {good.memory, {}, 8}};
  for (const Row& row : rows) {
    const int fd = greet(f, row.memory, row.hello, row.bytes);
    (void)heard_now(*a);
    CU_ASSERT(!is_kept(fd));
    close(fd);
  }
  const int fd = greet(f, good.memory);
  (void)heard_now(*a);
  CU_ASSERT(is_kept(fd));
  close(fd);
  close(null);
}

// Between the connection and the hello the wire may look.
void a_hello_may_come_late() {
  SharedFolder f;
  auto a = f.open();
  sockaddr_un to{AF_UNIX, {}};
  (f.name + "/0").copy(to.sun_path, sizeof(to.sun_path) - 1);
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  EQUAL_FATAL(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  CU_ASSERT(readable(*a));
  (void)heard_now(*a);
  CU_ASSERT(is_kept(fd));
  CU_ASSERT(!readable(*a));
  const Forged ring;
  ring.word(0, 60);
  ring.tail(72);
  say_hello(fd, ring.memory, {}, sizeof(Greeting));
  CU_ASSERT(readable(*a));
  CU_ASSERT(!heard(*a).empty());
  close(fd);
}

// Who takes may lie about how far he is.
void a_taker_that_lies_loses_the_ring() {
  SharedFolder f;
  auto a = f.open();
  std::string name = f.name + "/1", lock = f.name + "/slot-1";
  int slot = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  sockaddr_un us{AF_UNIX, {}};
  name.copy(us.sun_path, sizeof(us.sun_path) - 1);
  int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  EQUAL_FATAL(bind(listener, reinterpret_cast<sockaddr*>(&us), sizeof(us)), 0);
  EQUAL_FATAL(listen(listener, 8), 0);
  const Bytes frame = frame_to({0x02, 0x4b, 0x4c, 0, 1, 1}, *a->mac(), 'x');
  EQUAL(a->send(frame), Wire::Sent::taken);
  int fd = accept(listener, nullptr, nullptr);
  Greeting hello;
  iovec piece{&hello, sizeof(hello)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr m{};
  m.msg_iov = &piece;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof(control);
  EQUAL(recvmsg(fd, &m, 0), static_cast<ssize_t>(sizeof(hello)));
  int memory = -1;
  std::memcpy(&memory, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(memory));
  auto* at = static_cast<std::byte*>(
      mmap(nullptr, memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0));
  CU_ASSERT_FATAL(at != MAP_FAILED);
  CU_ASSERT(ftruncate(memory, 0) != 0);  // it is sealed
  const uint64_t ahead = 1u << 30;
  std::memcpy(at + 64, &ahead, sizeof(ahead));
  for (int i = 0; i < 100'000 && a->counters().tx_lost == 0; i++) a->send(frame);
  EQUAL(a->counters().tx_lost, 1);
  EQUAL(a->counters().tx_busy, 0);
  for (int i = 0; i < 1000; i++) a->send(frame);  // by a new ring
  EQUAL(a->counters().tx_lost, 1);
  munmap(at, memory_bytes);
  for (int each : {slot, listener, fd, memory}) close(each);
}

// More connections than there is room for, and bytes without an end on one: others go on.
void a_crowd_of_strangers_does_no_harm() {
  SharedFolder f;
  auto a = f.open(), b = f.open();
  b->send(frame_to(*a->mac(), *b->mac(), '1'));
  EQUAL(heard(*a), "1");
  std::vector<int> crowd;
  for (std::size_t i = 0; i < ShmWire::most_sources + 20; i++) {
    const Forged ring;
    crowd.push_back(greet(f, i % 2 == 0 ? ring.memory : -1));
    (void)heard_now(*a);
  }
  for (int i = 0; i < 100; i++)
    for (int fd : crowd) (void)!::send(fd, "xyz", 3, MSG_DONTWAIT | MSG_NOSIGNAL);
  b->send(frame_to(*a->mac(), *b->mac(), '2'));
  EQUAL(heard(*a), "2");
  for (int fd : crowd) close(fd);
  (void)heard_now(*a);
  auto c = f.open();
  c->send(frame_to(*a->mac(), *c->mac(), '3'));
  EQUAL(heard(*a), "3");
}

// Two processes; one is killed while it sends. Every frame that came is whole, and in order.
void a_killed_sender_leaves_whole_frames() {
  SharedFolder f;
  auto a = f.open();
  const Mac ours = *a->mac();
  const pid_t child = fork();
  if (child == 0) {
    auto b = f.open();
    for (uint32_t i = 0;; i++) {
      Bytes frame = frame_to(ours, *b->mac(), static_cast<uint8_t>(i));
      frame.resize(60 + i * 131 % 8000, static_cast<std::byte>(i));
      put16(frame, 20, i >> 16);
      put16(frame, 22, i);
      while (b->send(frame) == Wire::Sent::busy) poll(nullptr, 0, 1);
    }
  }
  uint32_t came = 0;
  bool good = true;
  auto take = [&] {
    std::span<const std::byte> got = a->peek();
    if (got.empty()) return false;
    const Bytes copy(got.begin(), got.end());
    const uint32_t number = get16(copy, 20) << 16 | get16(copy, 22);
    good = good && number == came && copy.size() == 60 + number * 131 % 8000 &&
           copy.back() == static_cast<std::byte>(number);
    came++;
    a->drop();
    return true;
  };
  while (came < 5000) {
    if (!take()) poll(nullptr, 0, 1);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  for (int i = 0; i < 1000; i++) {
    while (take()) continue;
  }
  CU_ASSERT(good);
  CU_ASSERT(a->counters().rx_malformed == 0);
}

constexpr Case cases[] = {
    {"a frame goes to its slot and to nobody else", a_frame_goes_to_its_slot_and_to_nobody_else},
    {"a full ring loses nothing", a_full_ring_loses_nothing},
    {"who is blocked wakes when there is room", who_is_blocked_wakes_when_there_is_room},
    {"who sleeps wakes though another takes", who_sleeps_wakes_though_another_takes},
    {"corked frames come with the flush", corked_frames_come_with_the_flush},
    {"what the dead have sent still comes", what_the_dead_have_sent_still_comes},
    {"who dies with a full ring makes room", who_dies_with_a_full_ring_makes_room},
    {"a forged ring costs its putter the connection",
     a_forged_ring_costs_its_putter_the_connection},
    {"what is no ring is not mapped", what_is_no_ring_is_not_mapped},
    {"a hello may come late", a_hello_may_come_late},
    {"a taker that lies loses the ring", a_taker_that_lies_loses_the_ring},
    {"a crowd of strangers does no harm", a_crowd_of_strangers_does_no_harm},
    {"a killed sender leaves whole frames", a_killed_sender_leaves_whole_frames},
};

}  // namespace

KILIM_UT_MAIN("vhca/wire shm", cases)
