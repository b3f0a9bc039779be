// SPDX-License-Identifier: BSD-3-Clause
// How many ports a unix wire's folder has room for, and how often it is looked at.
#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder_fixture.hh"
#include "frames_fixture.hh"
#include "ut.hh"
#include "vhca/core/core_clock.hh"
#include "vhca/wire/make.hh"
#include "vhca/wire/residents.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace {
unsigned looks = 0;
}

// In the place of libc's: how often a folder is asked for a file.
extern "C" int fstatat(int folder, const char* name, struct stat* st, int flags) noexcept {
  looks++;
  return static_cast<int>(syscall(SYS_newfstatat, folder, name, st, flags));
}

namespace {

// Slots 0 to count - 1 are taken, as by so many ports: processes hold as many files as they may.
class Crowd {
 public:
  Crowd(const Folder& f, uint32_t count) {
    constexpr uint32_t each = 900;
    int ready[2];
    EQUAL_FATAL(pipe(ready), 0);
    for (uint32_t first = 0; first < count; first += each) {
      children_.push_back(fork());
      if (children_.back() == 0) hold(f, first, std::min(first + each, count), ready[1]);
      char c = 0;
      CU_ASSERT(read(ready[0], &c, 1) == 1 && c == 'y');
    }
    close(ready[0]);
    close(ready[1]);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  ~Crowd() {
    for (pid_t child : children_) kill(child, SIGKILL);
    for (pid_t child : children_) waitpid(child, nullptr, 0);
  }

 private:
  [[noreturn]] static void hold(const Folder& f, uint32_t first, uint32_t end, int ready) {
    bool all = true;
    for (uint32_t slot = first; slot < end; slot++) {
      std::string file = f.name + "/slot-" + std::to_string(slot);
      int lock = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      all = all && lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0;
    }
    (void)!write(ready, all ? "y" : "n", 1);
    for (;;) pause();
  }
  std::vector<pid_t> children_;
};

void slots_go_on_behind_256() {
  Folder f;
  Crowd crowd(f, 300);
  auto a = f.open(), b = f.open();
  EQUAL_FATAL(*a->mac(), (Mac{0x02, 0x4b, 0x4c, 1, 44, 1}));
  EQUAL(*b->mac(), (Mac{0x02, 0x4b, 0x4c, 1, 45, 1}));
  a->send(frame_to(*b->mac(), *a->mac(), '1'));
  b->send(frame_to(*a->mac(), *b->mac(), '2'));
  EQUAL(taken(*b), "1");
  EQUAL(taken(*a), "2");
  Mac all{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  a->send(frame_to(all, *a->mac(), '3'));
  b->send(frame_to(all, *b->mac(), '4'));
  EQUAL(taken(*b), "3");
  EQUAL(taken(*a), "4");
}

void there_are_65536_slots() {
  Folder f;
  Crowd crowd(f, 65535);
  auto last = f.open();
  EQUAL(*last->mac(), (Mac{0x02, 0x4b, 0x4c, 0xff, 0xff, 1}));
  auto none = wire::make_wire("unix:" + f.name);
  CU_ASSERT(!none.ok() && none.error().code == EBUSY);
}

void other_files_stay() {
  Folder f;
  const std::string file = f.name + "/0";
  const int plain = open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  CU_ASSERT_FATAL(plain >= 0);
  EQUAL_FATAL(write(plain, "mine", 4), 4);
  EQUAL_FATAL(close(plain), 0);
  auto refused = wire::make_wire("unix:" + f.name);
  CU_ASSERT(!refused.ok() && refused.error().code == EADDRINUSE);
  EQUAL(::access(file.c_str(), F_OK), 0);
  EQUAL_FATAL(unlink(file.c_str()), 0);
  CU_ASSERT(wire::make_wire("unix:" + f.name).ok());
  CU_ASSERT(::access(file.c_str(), F_OK) != 0);  // its socket goes with the wire
}

// Two ports with one address: frames to it go to all others, and nobody learns where it is.
void ports_with_one_address() {
  Folder f;
  auto a = f.open(), b = f.open(), c = f.open();
  const Mac one{0x02, 1, 2, 3, 4, 5}, other = *c->mac();
  a->publish(one, {});
  b->publish(one, {});
  c->publish(other, {});
  for (int i = 0; i < 2; i++) {
    a->send(frame_to(one, one, '1'));
    EQUAL(taken(*b), "1");
    EQUAL(taken(*c), "1");
    CU_ASSERT(taken(*a).empty());
    b->send(frame_to(one, one, '2'));
    EQUAL(taken(*a), "2");
    EQUAL(taken(*c), "2");
    CU_ASSERT(taken(*b).empty());
  }
  a->send(frame_to(*b->mac(), one, '3'));
  EQUAL(taken(*b), "3");
  CU_ASSERT(taken(*c).empty());
}

// Who listens is known to the others of a folder until he says no more, or is gone.
void services_of_others() {
  Folder f;
  auto a = f.open();
  {
    auto b = f.open();
    b->serve(0x1061d2f, true);
    CU_ASSERT(a->is_served(0x1061d2f));
    CU_ASSERT(!a->is_served(0x1061d2e));
    CU_ASSERT(!b->is_served(0x1061d2f));  // his own is none of another's
    b->serve(0x1061d2f, false);
    CU_ASSERT(!a->is_served(0x1061d2f));
    b->serve(0x1061d2f, true);
  }
  CU_ASSERT(!a->is_served(0x1061d2f));
  auto next = f.open();  // in the same slot
  CU_ASSERT(!a->is_served(0x1061d2f));
}

// A note is there for the others until it is taken back, or who left it is gone.
void notes_of_others() {
  Folder f;
  auto a = f.open();
  const Bytes one(24, std::byte{1}), two(48, std::byte{2});
  {
    auto b = f.open(), c = f.open();
    b->leave_note(0x1061d2f, two);
    c->leave_note(0x1061d2f, one);
    EQUAL(a->notes_of_others(0x1061d2f).size(), 72);
    CU_ASSERT(a->notes_of_others(7).empty());
    CU_ASSERT(b->notes_of_others(0x1061d2f) == one);  // its own is none of another's
    b->leave_note(0x1061d2f, one);
    EQUAL(a->notes_of_others(0x1061d2f).size(), 48);
    b->leave_note(0x1061d2f, {});
    CU_ASSERT(a->notes_of_others(0x1061d2f) == one);
    const std::string note = f.name + "/note-0000000001061d2f-2", more = f.name + "/more";
    EQUAL(::link(note.c_str(), more.c_str()), 0);
    CU_ASSERT(a->notes_of_others(0x1061d2f).empty());  // a file that has another name too
    EQUAL(::unlink(more.c_str()), 0);
    const Fd held = a->hold_notes();
    CU_ASSERT(bool{held});
    CU_ASSERT(!b->hold_notes());
  }
  CU_ASSERT(bool{a->hold_notes()});
  CU_ASSERT(a->notes_of_others(0x1061d2f).empty());
}

// The one that lives behind a port's address; life 0: nobody.
wire::Resident resident_at(wire::Wire& wire, const Mac& mac) {
  bool whole = false;
  for (const wire::Resident& one : wire::residents_of(wire, whole))
    if (one.mac == mac) return one;
  CU_ASSERT_TRUE(whole);
  return {};
}

// A process with a port, until it is killed.
pid_t port_of_a_child(const std::string& spec, const Mac& mac) {
  int ready[2];
  EQUAL_FATAL(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto wire = wire::make_wire(spec);
    if (wire.ok()) (*wire)->publish(mac, {});
    (void)!write(ready[1], "y", 1);
    for (;;) pause();
  }
  char c = 0;
  EQUAL(read(ready[0], &c, 1), 1);
  close(ready[0]);
  close(ready[1]);
  return child;
}

// A process that is stopped lives; one that was killed does not, and who comes to its slot with its
// address is another.
void residents_of_slots() {
  for (const char* kind : {"unix:", "shm:"}) {
    Folder f;
    const std::string spec = kind + f.name;
    const Mac mac{2, 0, 0, 0, 0, 9};
    auto wire = wire::make_wire(spec);
    CU_ASSERT_FATAL(wire.ok());
    (*wire)->publish(Mac{2, 0, 0, 0, 0, 8}, {});
    EQUAL(resident_at(**wire, mac).life, 0);
    const pid_t child = port_of_a_child(spec, mac);
    const wire::Resident one = resident_at(**wire, mac);
    CU_ASSERT_TRUE(one.life != 0);
    EQUAL(one.slot, 1);
    EQUAL(one.pid, static_cast<uint32_t>(child));
    CU_ASSERT_FALSE(wire::is_stopped(one));
    int status = 0;
    kill(child, SIGSTOP);
    waitpid(child, &status, WUNTRACED);
    CU_ASSERT_TRUE(wire::is_stopped(one));
    EQUAL(resident_at(**wire, mac).life, one.life);
    kill(child, SIGCONT);
    waitpid(child, &status, WCONTINUED);
    CU_ASSERT_FALSE(wire::is_stopped(one));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    EQUAL(resident_at(**wire, mac).life, 0);
    CU_ASSERT_FALSE(wire::is_stopped(one));
    const pid_t next = port_of_a_child(spec, mac);
    const wire::Resident two = resident_at(**wire, mac);
    CU_ASSERT_TRUE(two.life != 0);
    CU_ASSERT_TRUE(two.life != one.life);
    EQUAL(two.slot, one.slot);
    kill(next, SIGKILL);
    waitpid(next, &status, 0);
  }
}

// Unknown addresses and groups: the folder is not looked at for each of their frames.
void a_frame_to_all_makes_no_look_at_the_folder() {
  for (const char* kind : {"shm:", "unix:"}) {
    Folder f;
    f.kind = kind;
    auto a = f.open(), b = f.open();
    constexpr Mac unknown{0x02, 1, 1, 1, 1, 1};
    const Bytes frame = frame_to(unknown, *a->mac(), 'f');
    const uint64_t begun = clock_ns();
    const unsigned before = looks;
    std::size_t heard = 0;
    for (int i = 0; i < 20'000; i++) {
      EQUAL(a->send(frame), wire::Wire::Sent::taken);
      heard += taken(*b).size();
    }
    const uint64_t milliseconds = (clock_ns() - begun) / 1'000'000;
    EQUAL(heard, 20'000);
    CU_ASSERT(looks - before <= milliseconds + 2);
    CU_ASSERT(looks - before < 20'000);
    // Who comes later is heard of all the same, soon.
    auto c = f.open();
    std::string last;
    for (int i = 0; i < 1000 && last.empty(); i++) {
      usleep(1000);
      a->send(frame);
      (void)taken(*b);
      last = taken(*c);
    }
    CU_ASSERT(!last.empty());
    EQUAL(last.find_first_not_of('f'), std::string::npos);
  }
}

constexpr Case cases[] = {
    {"residents of slots", residents_of_slots},
    {"a frame to all makes no look at the folder", a_frame_to_all_makes_no_look_at_the_folder},
    {"notes of others", notes_of_others},
    {"ports with one address hear each other", ports_with_one_address},
    {"services of others", services_of_others},
    {"a plain file with a slot's number stays", other_files_stay},
    {"slots go on behind 256", slots_go_on_behind_256},
    {"there are 65536 slots", there_are_65536_slots},
};

}  // namespace

KILIM_TEST_SUITE(slots, cases)
