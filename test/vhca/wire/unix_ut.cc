// SPDX-License-Identifier: BSD-3-Clause
// The switch that is a folder, what is left of the dead in it, and bad cables.
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "case_tables.hh"
#include "folder_fixture.hh"
#include "frames_fixture.hh"
#include "vhca/wire/looks.hh"
#include "vhca/wire/make.hh"
#include "vhca/wire/unix.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace unix_ut {
namespace {

void each_port_gets_the_lowest_free_slot_and_an_address_of_it() {
  Folder f;
  auto a = f.open(), b = f.open(), c = f.open();
  EQUAL(*a->mac(), (Mac{0x02, 0x4b, 0x4c, 0, 0, 1}));
  EQUAL(*b->mac(), (Mac{0x02, 0x4b, 0x4c, 0, 1, 1}));
  EQUAL(*c->mac(), (Mac{0x02, 0x4b, 0x4c, 0, 2, 1}));
  b.reset();
  auto again = f.open();
  EQUAL(*again->mac(), (Mac{0x02, 0x4b, 0x4c, 0, 1, 1}));
}

void a_frame_goes_to_its_slot_and_to_nobody_else() {
  Folder f;
  auto a = f.open(), b = f.open(), c = f.open();
  a->send(frame_to(*b->mac(), *a->mac(), 'b'));
  a->send(frame_to(*c->mac(), *a->mac(), 'c'));
  EQUAL(taken(*b), "b");
  EQUAL(taken(*c), "c");
  CU_ASSERT(taken(*a).empty());
  EQUAL(a->send(frame_to(*a->mac(), *a->mac(), 'a')), wire::Wire::Sent::taken);
  CU_ASSERT(taken(*a).empty());
}

void an_unknown_address_is_flooded_until_it_has_been_seen() {
  Folder f;
  auto a = f.open(), b = f.open(), c = f.open();
  Mac own{0x02, 9, 9, 9, 9, 9};
  a->send(frame_to(own, *a->mac(), '1'));
  EQUAL(taken(*b), "1");
  EQUAL(taken(*c), "1");
  b->send(frame_to(*a->mac(), own, '2'));
  EQUAL(taken(*a), "2");
  a->send(frame_to(own, *a->mac(), '3'));
  EQUAL(taken(*b), "3");
  CU_ASSERT(taken(*c).empty());
  a->send(frame_to({0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, *a->mac(), '4'));
  EQUAL(taken(*b), "4");
  EQUAL(taken(*c), "4");
  CU_ASSERT(taken(*a).empty());
}

void what_a_killed_process_left_is_taken_over() {
  Folder f;
  auto a = f.open();
  int ready[2];
  EQUAL_FATAL(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    auto w = f.open(), x = f.open();
    (void)!write(ready[1], "", 1);
    for (;;) pause();
  }
  char c;
  EQUAL(read(ready[0], &c, 1), 1);
  CU_ASSERT(std::filesystem::exists(f.name + "/1"));
  CU_ASSERT(std::filesystem::exists(f.name + "/2"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  Mac dead{0x02, 0x4b, 0x4c, 0, 1, 1};
  EQUAL(a->send(frame_to(dead, *a->mac(), 'x')), wire::Wire::Sent::taken);
  EQUAL(a->counters().tx_lost, 1);
  auto b = f.open();
  EQUAL(*b->mac(), dead);
  CU_ASSERT(!std::filesystem::exists(f.name + "/2"));
  a->send(frame_to(dead, *a->mac(), 'y'));
  EQUAL(taken(*b), "y");
  close(ready[0]);
  close(ready[1]);
}

constexpr Gid gid_of(uint8_t last) {
  return {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
}

void a_port_is_found_by_the_table_that_it_published() {
  Folder f;
  auto a = f.open(), b = f.open("+fault:drop:0"), c = f.open("+fault:drop:0");
  Mac own{0x02, 9, 9, 9, 9, 9};
  CU_ASSERT(!a->find(gid_of(1)).has_value());
  Gid gids[] = {gid_of(1), gid_of(2)};
  b->publish(own, gids);
  EQUAL(a->find(gid_of(1)), own);
  EQUAL(a->find(gid_of(2)), own);
  EQUAL(c->find(gid_of(2)), own);
  CU_ASSERT(!a->find(gid_of(3)).has_value());
  CU_ASSERT(!b->find(gid_of(1)).has_value());
  a->send(frame_to(own, *a->mac(), '1'));  // its place is known, nobody else gets it
  EQUAL(taken(*b), "1");
  CU_ASSERT(taken(*c).empty());
  b->publish(own, {gids + 1, 1});
  CU_ASSERT(!a->find(gid_of(1)).has_value());
  EQUAL(a->find(gid_of(2)), own);
  b.reset();
  CU_ASSERT(!a->find(gid_of(2)).has_value());
  CU_ASSERT(f.open() != nullptr);
  CU_ASSERT(!a->find(gid_of(2)).has_value());
}

void the_table_of_a_killed_process_is_not_believed() {
  Folder f;
  auto a = f.open();
  int ready[2];
  EQUAL_FATAL(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    auto w = f.open();
    Gid gid = gid_of(1);
    w->publish(*w->mac(), {&gid, 1});
    (void)!write(ready[1], "", 1);
    for (;;) pause();
  }
  char c;
  EQUAL(read(ready[0], &c, 1), 1);
  CU_ASSERT(a->find(gid_of(1)).has_value());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CU_ASSERT(!a->find(gid_of(1)).has_value());
  auto heir = f.open();  // of the slot, not of the table
  EQUAL(*heir->mac(), (Mac{0x02, 0x4b, 0x4c, 0, 1, 1}));
  CU_ASSERT(!a->find(gid_of(1)).has_value());
  close(ready[0]);
  close(ready[1]);
}

// Whoever may write to the folder may write anything there.
void tables_are_read_as_untrusted_bytes() {
  Folder f;
  auto a = f.open(), b = f.open();
  std::string file = f.name + "/slot-1";
  auto put = [&](const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; };
  Gid gid = gid_of(1);
  std::string row(reinterpret_cast<const char*>(gid.data()), gid.size());
  std::string good = "\x02hello";
  put(row + good);
  CU_ASSERT(a->find(gid).has_value());
  put(row + std::string("\x03hello"));  // a group's address
  CU_ASSERT(!a->find(gid).has_value());
  put(row + std::string(6, '\0'));
  CU_ASSERT(!a->find(gid).has_value());
  put(row + good.substr(0, 5));
  CU_ASSERT(!a->find(gid).has_value());
  put(std::string(22 * 1000 + 7, 'x') + row + good);
  CU_ASSERT(!a->find(gid).has_value());
  EQUAL(unlink(file.c_str()), 0);
  EQUAL(mkfifo(file.c_str(), 0600), 0);
  CU_ASSERT(!a->find(gid).has_value());  // and it has not waited for a writer
  EQUAL(unlink(file.c_str()), 0);
  EQUAL(mkdir(file.c_str(), 0700), 0);
  CU_ASSERT(!a->find(gid).has_value());
}

void who_looks_for_leftovers_leaves_the_living_alone() {
  Folder f;
  auto a = f.open(), b = f.open(), c = f.open();
  a = nullptr, a = f.open();
  wire::UnixWire::remove_leftovers(f.name);
  EQUAL(a->send(frame_to(*c->mac(), *a->mac(), '1')), wire::Wire::Sent::taken);
  EQUAL(b->send(frame_to(*a->mac(), *b->mac(), '2')), wire::Wire::Sent::taken);
  EQUAL(taken(*c), "1");
  EQUAL(taken(*a), "2");
}

void who_has_gone_is_looked_for_anew() {
  Folder f;
  const Mac moves{0x02, 0, 0, 0, 0, 9};
  auto a = f.open(), b = f.open(), c = f.open();
  b->send(frame_to(*a->mac(), moves, '1'));
  EQUAL(taken(*a), "1");
  b = nullptr;
  a->send(frame_to(moves, *a->mac(), '2'));
  a->send(frame_to(moves, *a->mac(), '3'));
  EQUAL(taken(*c), "3");
}

bool readable(const wire::Wire& w, int ms = 0) {
  pollfd p{w.fd(), POLLIN, 0};
  return poll(&p, 1, ms) == 1;
}

// While the neighbour takes nothing nobody asks him again, and poll(2) sleeps until he does.
void who_is_blocked_wakes_when_there_is_room() {
  Folder f;
  auto a = f.open(), b = f.open();
  const Bytes frame = frame_to(*b->mac(), *a->mac(), 'x');
  while (a->send(frame) == wire::Wire::Sent::taken) continue;
  CU_ASSERT(a->tells_room() && !a->has_room() && !readable(*a));
  b->send(frame_to(*a->mac(), *b->mac(), 'y'));
  CU_ASSERT(readable(*a) && taken(*a) == "y" && !readable(*a));
  CU_ASSERT(!b->peek().empty());
  CU_ASSERT(readable(*a, 1000));
  CU_ASSERT(a->has_room());
  EQUAL(a->send(frame), wire::Wire::Sent::taken);
  EQUAL(a->counters().tx_busy, 1);
  // The same with another neighbour, and with one that goes.
  auto c = f.open();
  const Bytes other = frame_to(*c->mac(), *a->mac(), 'z');
  while (a->send(other) == wire::Wire::Sent::taken) continue;
  CU_ASSERT(!readable(*a));
  CU_ASSERT(!a->has_room());
  c.reset();
  CU_ASSERT(readable(*a, 1000));
  CU_ASSERT(a->has_room());
}

// As the engine does it: in rows, and not before there is room again.
void few_frames_are_refused() {
  Folder f;
  auto a = f.open(), b = f.open();
  constexpr std::size_t many = 20'000;
  std::size_t sent = 0, came = 0;
  bool in_order = true, room = true;
  while (came < many) {
    a->cork(true);
    room = room || a->has_room();
    for (; room && sent < many; sent += room)
      room = a->send(frame_to(*b->mac(), *a->mac(), static_cast<uint8_t>(sent))) !=
             wire::Wire::Sent::busy;
    a->cork(false);
    room = a->flush() && room;
    for (std::span<const std::byte> in; !(in = b->peek()).empty(); b->drop())
      in_order = in_order && in.back() == static_cast<std::byte>(came++);
  }
  CU_ASSERT(in_order);
  EQUAL(a->held(), 0);
  CU_ASSERT(a->counters().tx_busy > 0);
  CU_ASSERT(a->counters().tx_busy * 100 <= many);
  EQUAL(a->counters().tx_frames, many);
}

void corked_frames_leave_with_the_flush() {
  Folder f;
  auto a = f.open(), b = f.open(), c = f.open();
  a->cork(true);
  for (char n : {'1', '2'}) a->send(frame_to(*b->mac(), *a->mac(), static_cast<uint8_t>(n)));
  a->send(frame_to(*c->mac(), *a->mac(), '3'));
  a->send(frame_to({0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, *a->mac(), '4'));
  a->send(frame_to(*b->mac(), *a->mac(), '5'));
  CU_ASSERT(b->peek().empty());
  CU_ASSERT(c->peek().empty());
  EQUAL(a->held(), 5);
  CU_ASSERT(a->flush());
  EQUAL(taken(*b), "1245");
  EQUAL(taken(*c), "34");
}

// They lie in our memory, where poll(2) does not look.
void frames_that_were_fetched_are_news() {
  Folder f;
  auto a = f.open(), b = f.open();
  for (char n : {'1', '2', '3', '4'})
    a->send(frame_to(*b->mac(), *a->mac(), static_cast<uint8_t>(n)));
  for (int i = 0; i < 2; i++) b->drop();  // one a look; the next one is a row
  CU_ASSERT(!b->peek().empty());
  CU_ASSERT(readable(*b));
  EQUAL(taken(*b), "34");
  CU_ASSERT(!readable(*b));
}

// The answer to what came leaves first.
void an_emptied_socket_is_asked_once_a_turn() {
  Folder f;
  auto a = f.open(), b = f.open();
  b->cork(true);
  a->send(frame_to(*b->mac(), *a->mac(), '1'));
  EQUAL(taken(*b), "1");
  a->send(frame_to(*b->mac(), *a->mac(), '2'));
  CU_ASSERT(taken(*b).empty());
  b->cork(false);
  EQUAL(taken(*b), "2");
}

// What a turn of the device takes.
std::string taken_in_a_turn(wire::Wire& w) {
  w.cork(true);
  std::string all = taken(w);
  w.cork(false);
  return all;
}

// One by one at first; those of which two came look after look, by rows.
void frames_that_wait_together_come_together() {
  Folder f;
  auto a = f.open(), b = f.open();
  auto send = [&](std::string_view marks) {
    for (char m : marks) a->send(frame_to(*b->mac(), *a->mac(), static_cast<uint8_t>(m)));
  };
  send("1234");
  EQUAL(taken_in_a_turn(*b), "1");
  EQUAL(taken_in_a_turn(*b), "2");
  EQUAL(taken_in_a_turn(*b), "34");
  EQUAL(taken_in_a_turn(*b), "");
  send("567");
  EQUAL(taken_in_a_turn(*b), "567");
  send("8");  // a row of one: one by one again
  EQUAL(taken_in_a_turn(*b), "8");
  send("90");
  EQUAL(taken_in_a_turn(*b), "9");
  EQUAL(taken(*b), "0");
}

// How many frames come one a look before a row is asked for.
uint32_t alone_before_a_row(wire::Looks& looks) {
  uint32_t n = 0;
  for (; !looks.by_row() && n < 100; n++) looks.found(1);
  return n;
}

void rows_of_one_frame_are_asked_for_less_and_less() {
  wire::Looks looks;
  for (uint32_t alone : {2, 4, 8, 16, 32, 64, 64}) {
    EQUAL(alone_before_a_row(looks), alone);
    looks.found(1);
  }
  looks.found(1);
  looks.found(0);  // between one frame and the next: two in a row are news again
  EQUAL(alone_before_a_row(looks), 2);
  looks.found(1);
  EQUAL(alone_before_a_row(looks), 4);
  looks.found(2);
  looks.found(0);
  CU_ASSERT(looks.by_row());  // an empty look says nothing about rows
  looks.found(1);
  EQUAL(alone_before_a_row(looks), 4);
}

void a_port_that_goes_takes_socket_and_table_along() {
  Folder f;
  auto a = f.open();
  const Gid gid{0xfd};
  a->publish(*a->mac(), {&gid, 1});
  CU_ASSERT(std::filesystem::exists(f.name + "/0"));
  CU_ASSERT(std::filesystem::file_size(f.name + "/slot-0") != 0);
  a.reset();
  CU_ASSERT(!std::filesystem::exists(f.name + "/0"));
  EQUAL(std::filesystem::file_size(f.name + "/slot-0"), 0);
}

constexpr Case cases[] = {
    {"each port gets the lowest free slot and an address of it",
     each_port_gets_the_lowest_free_slot_and_an_address_of_it},
    {"a frame goes to its slot and to nobody else", a_frame_goes_to_its_slot_and_to_nobody_else},
    {"an unknown address is flooded until it has been seen",
     an_unknown_address_is_flooded_until_it_has_been_seen},
    {"what a killed process left is taken over", what_a_killed_process_left_is_taken_over},
    {"a port is found by the table that it published",
     a_port_is_found_by_the_table_that_it_published},
    {"the table of a killed process is not believed",
     the_table_of_a_killed_process_is_not_believed},
    {"tables are read as untrusted bytes", tables_are_read_as_untrusted_bytes},
    {"who looks for leftovers leaves the living alone",
     who_looks_for_leftovers_leaves_the_living_alone},
    {"who has gone is looked for anew", who_has_gone_is_looked_for_anew},
    {"who is blocked wakes when there is room", who_is_blocked_wakes_when_there_is_room},
    {"few frames are refused", few_frames_are_refused},
    {"corked frames leave with the flush", corked_frames_leave_with_the_flush},
    {"frames that were fetched are news", frames_that_were_fetched_are_news},
    {"an emptied socket is asked once a turn", an_emptied_socket_is_asked_once_a_turn},
    {"frames that wait together come together", frames_that_wait_together_come_together},
    {"rows of one frame are asked for less and less",
     rows_of_one_frame_are_asked_for_less_and_less},
    {"a port that goes takes its socket and its table along",
     a_port_that_goes_takes_socket_and_table_along},
};

}  // namespace
}  // namespace unix_ut

KILIM_TEST_MAIN(unix) {
  return kilim::test::run_tables("vhca/wire unix", {unix_ut::cases, kilim::test::decorator_cases()},
                                 argc, argv);
}
