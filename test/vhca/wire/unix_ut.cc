// SPDX-License-Identifier: BSD-3-Clause
// The switch that is a folder, what is left of the dead in it, and bad cables.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "folder_fixture.hh"
#include "frames_fixture.hh"
#include "ut.hh"
#include "vhca/wire/fault.hh"
#include "vhca/wire/make.hh"
#include "vhca/wire/unix.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

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
  CU_ASSERT(taken(*b) == "b" && taken(*c) == "c" && taken(*a).empty());
  EQUAL(a->send(frame_to(*a->mac(), *a->mac(), 'a')), Wire::Sent::taken);
  CU_ASSERT(taken(*a).empty());
}

void an_unknown_address_is_flooded_until_it_has_been_seen() {
  Folder f;
  auto a = f.open(), b = f.open(), c = f.open();
  Mac own{0x02, 9, 9, 9, 9, 9};
  a->send(frame_to(own, *a->mac(), '1'));
  CU_ASSERT(taken(*b) == "1" && taken(*c) == "1");
  b->send(frame_to(*a->mac(), own, '2'));
  EQUAL(taken(*a), "2");
  a->send(frame_to(own, *a->mac(), '3'));
  CU_ASSERT(taken(*b) == "3" && taken(*c).empty());
  a->send(frame_to({0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, *a->mac(), '4'));
  CU_ASSERT(taken(*b) == "4" && taken(*c) == "4" && taken(*a).empty());
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
  CU_ASSERT(std::filesystem::exists(f.name + "/1") && std::filesystem::exists(f.name + "/2"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  Mac dead{0x02, 0x4b, 0x4c, 0, 1, 1};
  EQUAL(a->send(frame_to(dead, *a->mac(), 'x')), Wire::Sent::taken);
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
  CU_ASSERT(a->find(gid_of(1)) == own && a->find(gid_of(2)) == own && c->find(gid_of(2)) == own);
  CU_ASSERT(!a->find(gid_of(3)).has_value() && !b->find(gid_of(1)).has_value());
  a->send(frame_to(own, *a->mac(), '1'));  // its place is known, nobody else gets it
  CU_ASSERT(taken(*b) == "1" && taken(*c).empty());
  b->publish(own, {gids + 1, 1});
  CU_ASSERT(!a->find(gid_of(1)).has_value() && a->find(gid_of(2)) == own);
  b.reset();
  CU_ASSERT(!a->find(gid_of(2)).has_value());
  CU_ASSERT(f.open() != nullptr && !a->find(gid_of(2)).has_value());
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
  CU_ASSERT(read(ready[0], &c, 1) == 1 && a->find(gid_of(1)).has_value());
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
  CU_ASSERT(unlink(file.c_str()) == 0 && mkfifo(file.c_str(), 0600) == 0);
  CU_ASSERT(!a->find(gid).has_value());  // and it has not waited for a writer
  CU_ASSERT(unlink(file.c_str()) == 0 && mkdir(file.c_str(), 0700) == 0);
  CU_ASSERT(!a->find(gid).has_value());
}

void a_spec_is_made_absolute_where_it_names_files() {
  const char* rows[][2] = {
      {"unix:x", "unix:/here/x"},
      {"unix:/x", "unix:/x"},
      {"unix:a:b+tee:c:d", "unix:/here/a:b+tee:/here/c:d"},
      {"unix:./x+tee:y/z.pcap+fault:drop:0.1", "unix:/here/./x+tee:/here/y/z.pcap+fault:drop:0.1"},
      {"pcap:in:/out", "pcap:/here/in:/out"},
      {"pcap:in:out", "pcap:/here/in:/here/out"},
      {"cable:x+tee:y", "cable:x+tee:/here/y"},
      {"udp:127.0.0.1:1:127.0.0.1:2", "udp:127.0.0.1:1:127.0.0.1:2"},
      {"tap:x", "tap:x"},
      {"af_packet:x", "af_packet:x"},
  };
  for (auto& row : rows) {
    auto made = absolute_wire_spec(row[0], "/here");
    CU_ASSERT(made.ok() && *made == row[1]);
  }
  for (const char* bad : {"", "x", "unix:", "unix:x+tea:y", "unix:x,y"})
    CU_ASSERT(!absolute_wire_spec(bad, "/here").ok());
  for (const char* folder : {"", "/a,b", "/a=b", "/a+b", "/a:b"}) {
    CU_ASSERT(!absolute_wire_spec("unix:x", folder).ok());
    CU_ASSERT(absolute_wire_spec("unix:/x", folder).ok());
  }
}

void a_misspelt_wire_is_refused_with_the_nearest_one() {
  const char* rows[][2] = {{"uniix:/tmp/x", "'unix:'"},
                           {"calbe:x", "'cable:'"},
                           {"af_packett:eth0", "'af_packet:'"},
                           {"cable:a+fauult:drop:0.1", "'fault:'"},
                           {"cable:a+teee:x", "'tee:'"}};
  for (const auto& row : rows) {
    std::string why;
    CU_ASSERT(!check_wire_spec(row[0], &why).ok());
    CU_ASSERT(why.find(std::string("(is ") + row[1] + " meant?)") != std::string::npos);
    CU_ASSERT(why.find("cable:NAME") != std::string::npos && why.find('\n') == std::string::npos);
  }
  std::string why;
  CU_ASSERT(!check_wire_spec("quite:else", &why).ok() && why.find("meant") == std::string::npos);
}

// What comes out of a bad cable when 2000 numbered frames go in.
std::vector<unsigned> through(const std::string& faults, unsigned& changed) {
  Folder f;
  auto a = f.open(("+fault:" + faults).c_str()), b = f.open();
  std::vector<unsigned> came;
  changed = 0;
  for (unsigned i = 0; i < 2000; i++) {
    Bytes frame = frame_to(*b->mac(), *a->mac(), 0);
    put16(frame, 50, i);
    a->send(frame);
    for (std::span<const std::byte> in; !(in = b->peek()).empty(); b->drop()) {
      Bytes copy(in.begin(), in.end());
      unsigned n = get16(copy, 50);
      Bytes right = frame_to(*b->mac(), *a->mac(), 0);
      put16(right, 50, n);
      if (copy != right) changed++;
      came.push_back(n);
    }
  }
  return came;
}

void a_bad_cable_does_what_it_is_told() {
  unsigned changed = 0;
  auto near = [](std::size_t got, double want) {
    return static_cast<double>(got) > want * 0.6 && static_cast<double>(got) < want * 1.5;
  };
  std::vector<unsigned> lost = through("drop:0.1:seed:3", changed);
  CU_ASSERT(near(2000 - lost.size(), 200) && changed == 0);
  CU_ASSERT(std::is_sorted(lost.begin(), lost.end()));
  std::vector<unsigned> twice = through("dup:0.1", changed);
  CU_ASSERT(near(twice.size() - 2000, 200) && std::is_sorted(twice.begin(), twice.end()));
  std::vector<unsigned> mixed = through("reorder:0.1", changed);
  CU_ASSERT(mixed.size() >= 1999);
  EQUAL(std::set<unsigned>(mixed.begin(), mixed.end()).size(), mixed.size());
  std::size_t back = 0;
  for (std::size_t i = 1; i < mixed.size(); i++) back += mixed[i] < mixed[i - 1];
  CU_ASSERT(near(back, 200));
  through("corrupt:0.1", changed);
  CU_ASSERT(near(changed, 180));  // a turned address bit may lead elsewhere
  EQUAL(through("drop:0.1:seed:3", changed), lost);
  CU_ASSERT(through("drop:0.1:seed:4", changed) != lost);
}

void a_tee_writes_down_both_ways() {
  Folder f;
  std::string file = f.name + "/both.pcap";
  {
    auto a = f.open(("+tee:" + file).c_str()), b = f.open();
    a->send(frame_to(*b->mac(), *a->mac(), '1'));
    b->send(frame_to(*a->mac(), *b->mac(), '2'));
    EQUAL(taken(*a), "2");
  }
  auto read = make_wire("pcap:" + file);
  CU_ASSERT(read.ok() && taken(**read) == "12");
}

// What the wire refused is sent again later: written down each time it would be twice there.
void a_tee_writes_down_what_was_taken() {
  Folder f;
  std::string file = f.name + "/out.pcap";
  std::size_t sent = 0;
  {
    auto a = f.open(("+tee:" + file).c_str()), b = f.open();
    const Bytes frame = frame_to(*b->mac(), *a->mac(), 'x');
    while (sent < 100'000 && a->send(frame) == Wire::Sent::taken) sent++;
    CU_ASSERT_FATAL(sent < 100'000);
    EQUAL(a->send(frame), Wire::Sent::busy);
  }
  auto read = make_wire("pcap:" + file);
  CU_ASSERT(read.ok() && taken(**read).size() == sent);
}

void a_frame_that_was_held_back_waits_for_a_busy_wire() {
  Folder f;
  auto a = f.open("+fault:drop:0:dup:0:reorder:1:corrupt:0:seed:1"), b = f.open(), c = f.open();
  while (c->send(frame_to(*b->mac(), *c->mac(), 'c')) == Wire::Sent::taken) continue;
  CU_ASSERT_FATAL(!b->peek().empty());  // room for one more
  EQUAL(a->send(frame_to(*b->mac(), *a->mac(), 'x')), Wire::Sent::taken);
  EQUAL(a->send(frame_to(*b->mac(), *a->mac(), 'y')), Wire::Sent::taken);
  std::string all = taken(*b);
  for (int i = 0; i < 10'000; i++) (void)a->peek();
  all += taken(*b);
  CU_ASSERT(all.ends_with("yx"));
}

void who_looks_for_leftovers_leaves_the_living_alone() {
  Folder f;
  auto a = f.open(), b = f.open(), c = f.open();
  a = nullptr, a = f.open();
  UnixWire::remove_leftovers(f.name);
  EQUAL(a->send(frame_to(*c->mac(), *a->mac(), '1')), Wire::Sent::taken);
  EQUAL(b->send(frame_to(*a->mac(), *b->mac(), '2')), Wire::Sent::taken);
  CU_ASSERT(taken(*c) == "1" && taken(*a) == "2");
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
    {"a spec is made absolute where it names files", a_spec_is_made_absolute_where_it_names_files},
    {"a misspelt wire is refused with the nearest one",
     a_misspelt_wire_is_refused_with_the_nearest_one},
    {"a bad cable does what it is told", a_bad_cable_does_what_it_is_told},
    {"a tee writes down both ways", a_tee_writes_down_both_ways},
    {"a tee writes down what was taken, not what was tried", a_tee_writes_down_what_was_taken},
    {"a frame that was held back waits for a busy wire",
     a_frame_that_was_held_back_waits_for_a_busy_wire},
    {"who looks for leftovers leaves the living alone",
     who_looks_for_leftovers_leaves_the_living_alone},
    {"who has gone is looked for anew", who_has_gone_is_looked_for_anew},
    {"a port that goes takes its socket and its table along",
     a_port_that_goes_takes_socket_and_table_along},
};

}  // namespace

KILIM_UT_MAIN("vhca/wire unix", cases)
