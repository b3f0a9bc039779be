// SPDX-License-Identifier: BSD-3-Clause
// Part of shm_ut. Neighbours that write into the shared ring what they like, and connect as they
// like.
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "shm_fixture.hh"
#include "vhca/wire/shm.hh"
#include "vhca/wire/shm_ring.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace shm_hostile_ut {
namespace {

// As another program would build it: indices in lines of 64 bytes, then 1 MiB from byte 4,096 on.
constexpr std::size_t memory_bytes = 4096 + wire::ShmRing::bytes;
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
      {72, 60, 0, false},                       // the truth
      {wire::ShmRing::bytes + 8, 60, 0, true},  // more than there is
      {~uint64_t{7}, 60, 0, true},              // behind
      {71, 60, 0, true},                        // no multiple of eight
      {64, 60, 0, true},                        // a frame longer than what is filled
      {72, 1 << 20, 0, true},                   // than the ring
      {72, 0xfffffff0, 0, true},                // than everything
      {72, ~0u, 0, true},                       // the rest is empty, and ends behind the tail
      {8, 0, 0, false},                         // no frame, counted
      {8 + 20000, 20000, 0, false},             // a frame that no port takes
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
  const wire::WireCounters& c = a->counters();
  EQUAL(c.rx_frames, 1);
  EQUAL(c.rx_malformed, 7);
  EQUAL(c.rx_too_long, 2);
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
  EQUAL(a->send(frame), wire::Wire::Sent::taken);
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
  for (std::size_t i = 0; i < wire::ShmWire::most_sources + 20; i++) {
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

constexpr Case of_hostile[] = {
    {"a forged ring costs its putter the connection",
     a_forged_ring_costs_its_putter_the_connection},
    {"what is no ring is not mapped", what_is_no_ring_is_not_mapped},
    {"a hello may come late", a_hello_may_come_late},
    {"a taker that lies loses the ring", a_taker_that_lies_loses_the_ring},
    {"a crowd of strangers does no harm", a_crowd_of_strangers_does_no_harm},
};

}  // namespace
}  // namespace shm_hostile_ut

std::span<const kilim::test::Case> kilim::test::shm_hostile_cases() {
  return shm_hostile_ut::of_hostile;
}
