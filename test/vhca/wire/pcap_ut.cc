// SPDX-License-Identifier: BSD-3-Clause
// The capture file wire: what is written can be read, and files that mean harm end quietly.
#include <cstdio>
#include <random>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "frames_fixture.hh"
#include "ut.hh"
#include "vhca/wire/make.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace {

// A file without a name, and the path that opens it.
struct File {
  int fd = memfd_create("capture", 0);
  std::string path = "/proc/self/fd/" + std::to_string(fd);
  File() = default;
  explicit File(const Bytes& content) { CU_ASSERT(write(fd, content.data(), content.size()) >= 0); }
  ~File() { close(fd); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] Bytes content() const {
    Bytes b(static_cast<std::size_t>(lseek(fd, 0, SEEK_END)));
    EQUAL(pread(fd, b.data(), b.size(), 0), b.size());
    return b;
  }
};

struct Layout {
  bool big_endian = false;
  uint32_t magic = 0xa1b2c3d4;
  uint16_t major = 2;
  uint32_t link = 1;
};

void add(Bytes& b, const Layout& l, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    b.push_back(static_cast<std::byte>(v >> 8 * (l.big_endian ? bytes - 1 - i : i)));
  }
}

Bytes file_header(const Layout& l) {
  Bytes b;
  add(b, l, l.magic, 4);
  add(b, l, l.major, 2);
  add(b, l, 4, 2);
  for (uint32_t v : {0u, 0u, 262144u, l.link}) add(b, l, v, 4);
  return b;
}

void add_record(Bytes& b, const Layout& l, const Bytes& data, uint32_t captured,
                uint32_t original) {
  for (uint32_t v : {1u, 2u, captured, original}) add(b, l, v, 4);
  b.insert(b.end(), data.begin(), data.end());
}

Bytes capture(const Layout& l, std::size_t frames) {
  Bytes b = file_header(l);
  for (std::size_t i = 0; i < frames; ++i) {
    Bytes f = make_frame({.payload = i * 100});
    auto n = static_cast<uint32_t>(f.size());
    add_record(b, l, f, n, n);
  }
  return b;
}

// Reads to the end; how many of make_frame({i * 100}) came in order, or 1000 if others did.
std::size_t read_all(Wire& w) {
  std::size_t n = 0;
  for (std::span<const std::byte> f; !(f = w.peek()).empty(); w.drop()) {
    Bytes want = make_frame({.payload = n * 100});
    if (f.size() != want.size() || std::memcmp(f.data(), want.data(), f.size()) != 0) return 1000;
    ++n;
  }
  CU_ASSERT(w.ended());
  return n;
}

void both_byte_orders_and_both_resolutions_are_read() {
  for (bool big : {false, true}) {
    for (uint32_t magic : {0xa1b2c3d4u, 0xa1b23c4du}) {
      File in(capture({.big_endian = big, .magic = magic}, 80));
      auto w = make_wire("pcap:" + in.path);
      CU_ASSERT_FATAL(w.ok());
      EQUAL(read_all(**w), 80);
      EQUAL((*w)->counters().rx_malformed, 0);
    }
  }
}

void what_is_written_is_a_capture_file_again() {
  File out;
  {
    auto w = make_wire("pcap::" + out.path);
    CU_ASSERT_FATAL(w.ok());
    for (std::size_t i = 0; i < 80; ++i) (*w)->send(make_frame({.payload = i * 100}));
    CU_ASSERT((*w)->peek().empty() && (*w)->ended() && (*w)->fd() == -1);
  }
  Bytes b = out.content();
  Bytes want = capture({.magic = 0xa1b23c4d}, 80);
  CU_ASSERT(b.size() == want.size() && std::memcmp(b.data(), want.data(), 24) == 0);
  auto w = make_wire("pcap:" + out.path);
  EQUAL(read_all(**w), 80);
}

void both_files_at_once() {
  File in(capture({}, 3)), out;
  auto w = make_wire("pcap:" + in.path + ":" + out.path);
  CU_ASSERT_FATAL(w.ok());
  (*w)->send(make_frame({}));
  EQUAL(read_all(**w), 3);
  EQUAL(out.content().size(), 24 + 16 + make_frame({}).size());
}

void an_output_that_is_the_input_is_refused_and_stays() {
  File both(capture({}, 3));
  CU_ASSERT(!make_wire("pcap:" + both.path + ":" + both.path).ok());
  EQUAL(both.content(), capture({}, 3));
}

void files_that_are_not_captures_are_refused_with_the_reason() {
  struct Row {
    Bytes content;
    const char* word;
  };
  Bytes cut = capture({}, 1);
  cut.resize(23);
  for (const Row& row :
       {Row{{}, "too short"}, Row{cut, "too short"},
        Row{capture({.magic = 0x0a0d0d0a}, 1), "not a classic pcap"},
        Row{capture({.major = 3}, 1), "version"}, Row{capture({.link = 101}, 1), "Ethernet"}}) {
    File in(row.content);
    std::string why;
    CU_ASSERT(!make_wire("pcap:" + in.path, &why).ok());
    CU_ASSERT(why.find(row.word) != std::string::npos);
  }
  EQUAL(make_wire("pcap:/").error().code, EINVAL);
}

void records_that_are_no_whole_frame_are_counted_and_passed_over() {
  Layout l;
  Bytes b = file_header(l);
  add_record(b, l, Bytes(100), 100, 200);           // cut by a snap length
  add_record(b, l, Bytes(13), 13, 13);              // shorter than a header
  add_record(b, l, Bytes(), 0, 0);                  // nothing at all
  add_record(b, l, Bytes(200000), 200000, 200000);  // longer than any frame
  add_record(b, l, make_frame({.payload = 0}), 54, 54);
  File in(b);
  auto w = make_wire("pcap:" + in.path);
  EQUAL(read_all(**w), 1);
  const WireCounters& c = (*w)->counters();
  CU_ASSERT(c.rx_malformed == 3 && c.rx_too_long == 1 && c.rx_frames == 1);
}

void a_record_that_makes_no_sense_ends_the_file() {
  Layout l;
  for (uint32_t length : {0xffffffffu, 0x80000000u, 262145u, 60u}) {
    Bytes b = capture(l, 2);
    add_record(b, l, Bytes(30), length, length);
    File in(b);
    auto w = make_wire("pcap:" + in.path);
    EQUAL(read_all(**w), 2);
    EQUAL((*w)->counters().rx_malformed, 1);
  }
}

void damaged_files_always_come_to_an_end() {
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    Bytes b = capture({.big_endian = random() % 2 == 0}, 20);
    for (int n = 0; n < 8; ++n)
      b[24 + random() % (b.size() - 24)] = static_cast<std::byte>(random());
    b.resize(24 + random() % (b.size() - 24));
    File in(b);
    auto w = make_wire("pcap:" + in.path);
    CU_ASSERT_FATAL(w.ok());
    std::size_t frames = 0;
    for (; !(*w)->peek().empty() && frames < 10000; ++frames) (*w)->drop();
    if (!(*w)->ended() || frames >= 10000) CU_FAIL("does not end");
  }
}

void a_full_device_is_refused_and_a_null_device_takes_all() {
  auto w = make_wire("pcap::/dev/full");
  CU_ASSERT(!w.ok());
  w = make_wire("pcap::/dev/null");
  CU_ASSERT_FATAL(w.ok());
  EQUAL((*w)->send(make_frame({})), Wire::Sent::taken);
  EQUAL((*w)->counters().tx_lost, 0);
}

constexpr Case cases[] = {
    {"both byte orders and both resolutions are read",
     both_byte_orders_and_both_resolutions_are_read},
    {"what is written is a capture file again", what_is_written_is_a_capture_file_again},
    {"both files at once", both_files_at_once},
    {"an output that is the input is refused and stays",
     an_output_that_is_the_input_is_refused_and_stays},
    {"files that are not captures are refused with the reason",
     files_that_are_not_captures_are_refused_with_the_reason},
    {"records that are no whole frame are counted and passed over",
     records_that_are_no_whole_frame_are_counted_and_passed_over},
    {"a record that makes no sense ends the file", a_record_that_makes_no_sense_ends_the_file},
    {"damaged files always come to an end", damaged_files_always_come_to_an_end},
    {"a full device is refused, a null device takes all",
     a_full_device_is_refused_and_a_null_device_takes_all},
};

}  // namespace

KILIM_UT_MAIN("vhca/wire pcap", cases)
