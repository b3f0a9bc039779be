// SPDX-License-Identifier: BSD-3-Clause
// Part of unix_ut. What stands behind a wire in its spec: faults and captures; and how specs are
// read.
#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "folder_fixture.hh"
#include "vhca/wire/fault.hh"
#include "vhca/wire/row_wire.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace decorators_ut {
namespace {

void a_spec_is_made_absolute_where_it_names_files() {
  const char* rows[][2] = {
      {"unix:x", "unix:/here/x"},
      {"unix:/x", "unix:/x"},
      {"shm:x+tee:y", "shm:/here/x+tee:/here/y"},
      {"unix:a:b+tee:c:d", "unix:/here/a:b+tee:/here/c:d"},
      {"unix:./x+tee:y/z.pcap+fault:drop:0.1", "unix:/here/./x+tee:/here/y/z.pcap+fault:drop:0.1"},
      {"pcap:in:/out", "pcap:/here/in:/out"},
      {"pcap:in:out", "pcap:/here/in:/here/out"},
      {"cable:x+tee:y", "cable:x+tee:/here/y"},
      {"udp:127.0.0.1:1:127.0.0.1:2", "udp:127.0.0.1:1:127.0.0.1:2"},
      {"tap:x", "tap:x"},
      {"af_packet:x", "af_packet:x"},
      {"af_packet:x+tee:y+exclusive", "af_packet:x+tee:/here/y+exclusive"},
  };
  for (auto& row : rows) {
    auto made = wire::absolute_wire_spec(row[0], "/here");
    CU_ASSERT(made.ok() && *made == row[1]);
  }
  for (const char* bad : {"", "x", "unix:", "unix:x+tea:y", "unix:x,y", "unix:x+exclusive",
                          "af_packet:x+exclusively", "af_packet:x+exclusive:y"})
    CU_ASSERT(!wire::absolute_wire_spec(bad, "/here").ok());
  for (const char* folder : {"", "/a,b", "/a=b", "/a+b", "/a:b"}) {
    CU_ASSERT(!wire::absolute_wire_spec("unix:x", folder).ok());
    CU_ASSERT(wire::absolute_wire_spec("unix:/x", folder).ok());
  }
}

void a_misspelt_wire_is_refused_with_the_nearest_one() {
  const char* rows[][2] = {
      {"uniix:/tmp/x", "'unix:'"},         {"calbe:x", "'cable:'"},
      {"af_packett:eth0", "'af_packet:'"}, {"cable:a+fauult:drop:0.1", "'fault:'"},
      {"cable:a+teee:x", "'tee:'"},        {"af_packet:a+exclusivve", "'exclusive'"}};
  for (const auto& row : rows) {
    std::string why;
    CU_ASSERT(!wire::check_wire_spec(row[0], &why).ok());
    CU_ASSERT(why.find(std::string("(is ") + row[1] + " meant?)") != std::string::npos);
    CU_ASSERT(why.find("cable:NAME") != std::string::npos);
    EQUAL(why.find('\n'), std::string::npos);
  }
  std::string why;
  CU_ASSERT(!wire::check_wire_spec("quite:else", &why).ok() &&
            why.find("meant") == std::string::npos);
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
  CU_ASSERT(near(2000 - lost.size(), 200));
  EQUAL(changed, 0);
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
  auto read = wire::make_wire("pcap:" + file);
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
    while (sent < 100'000 && a->send(frame) == wire::Wire::Sent::taken) sent++;
    CU_ASSERT_FATAL(sent < 100'000);
    EQUAL(a->send(frame), wire::Wire::Sent::busy);
  }
  auto read = wire::make_wire("pcap:" + file);
  CU_ASSERT(read.ok() && taken(**read).size() == sent);
}

void a_frame_that_was_held_back_waits_for_a_busy_wire() {
  Folder f;
  auto a = f.open("+fault:drop:0:dup:0:reorder:1:corrupt:0:seed:1"), b = f.open(), c = f.open();
  auto fill = [&](std::size_t most) {
    std::size_t n = 0;
    while (n < most && c->send(frame_to(*b->mac(), *c->mac(), 'c')) == wire::Wire::Sent::taken) n++;
    return n;
  };
  CU_ASSERT_FATAL(fill(100'000) < 100'000);
  CU_ASSERT_FATAL(!b->peek().empty());  // a first look takes one: room for one
  EQUAL(a->send(frame_to(*b->mac(), *a->mac(), 'x')), wire::Wire::Sent::taken);
  EQUAL(a->send(frame_to(*b->mac(), *a->mac(), 'y')), wire::Wire::Sent::taken);
  std::string all = taken(*b);
  for (int i = 0; i < 10'000; i++) (void)a->peek();
  all += taken(*b);
  CU_ASSERT(all.ends_with("yx"));
}

// decision 0067; the question passes through what stands inside.
void stations_of_an_ethernet_find_each_other() {
  const Folder f;
  const std::string a = f.name + "/a", b = f.name + "/b";
  auto left = std::move(*wire::make_wire("dgram:" + a + ":" + b));
  auto right = std::move(*wire::make_wire("dgram:" + b + ":" + a));
  constexpr Mac macs[] = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}};
  constexpr Gid gids[] = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 7, 0, 1},
                          {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 7, 0, 2}};
  left->publish(macs[0], {&gids[0], 1});
  right->publish(macs[1], {&gids[1], 1});
  CU_ASSERT(!left->find(gids[1]));
  CU_ASSERT(!left->find(gids[1]));  // asked once
  for (int i = 0; i < 3; i++) EQUAL(right->peek().size(), 60);
  CU_ASSERT(left->peek().empty());  // it is answered when it goes
  right->drop();
  CU_ASSERT(right->peek().empty());
  EQUAL(left->peek().size(), 60);
  left->drop();
  EQUAL(left->find(gids[1]), macs[1]);
  EQUAL(right->find(gids[0]), macs[0]);
  CU_ASSERT(left->peek().empty());
  CU_ASSERT(right->peek().empty());
}

constexpr Case of_decorators[] = {
    {"stations of an Ethernet find each other", stations_of_an_ethernet_find_each_other},
    {"a spec is made absolute where it names files", a_spec_is_made_absolute_where_it_names_files},
    {"a misspelt wire is refused with the nearest one",
     a_misspelt_wire_is_refused_with_the_nearest_one},
    {"a bad cable does what it is told", a_bad_cable_does_what_it_is_told},
    {"a tee writes down both ways", a_tee_writes_down_both_ways},
    {"a tee writes down what was taken, not what was tried", a_tee_writes_down_what_was_taken},
    {"a frame that was held back waits for a busy wire",
     a_frame_that_was_held_back_waits_for_a_busy_wire},
};

}  // namespace
}  // namespace decorators_ut

std::span<const kilim::test::Case> kilim::test::decorator_cases() {
  return decorators_ut::of_decorators;
}
