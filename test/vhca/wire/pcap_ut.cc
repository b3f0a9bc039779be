// SPDX-License-Identifier: BSD-3-Clause
// The capture file wire: what is written can be read, both formats are, and files that mean harm
// end quietly.
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "frames_fixture.hh"
#include "ut.hh"
#include "vhca/wire/make.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace pcap_ut {
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

const std::string no_faults = "+fault:drop:0:seed:7";

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
Bytes& operator+=(Bytes& a, const Bytes& b) {
  return a = std::move(a) + b;
}

// In this machine's byte order.
void put_number(Bytes& b, std::size_t at, uint32_t v) {
  std::memcpy(b.data() + at, &v, sizeof(v));
}

// A block of pcapng around `body`, which is filled up to four bytes.
Bytes block(const Layout& l, uint32_t type, Bytes body) {
  body.resize((body.size() + 3) / 4 * 4);
  const auto bytes = static_cast<uint32_t>(body.size() + 12);
  Bytes b;
  add(b, l, type, 4);
  add(b, l, bytes, 4);
  b += body;
  add(b, l, bytes, 4);
  return b;
}

Bytes section(const Layout& l) {
  Bytes b;
  add(b, l, 0x1a2b3c4d, 4);
  add(b, l, 1, 2);
  add(b, l, 0, 2);
  add(b, l, ~uint64_t{0}, 8);
  return block(l, 0x0a0d0d0a, b);
}

Bytes interface(const Layout& l, uint16_t link) {
  Bytes b;
  add(b, l, link, 2);
  add(b, l, 0, 2);
  add(b, l, 0, 4);
  return block(l, 1, b);
}

Bytes enhanced(const Layout& l, uint32_t which, const Bytes& frame) {
  Bytes b;
  const auto n = static_cast<uint32_t>(frame.size());
  for (uint32_t v : {which, 1u, 2u, n, n}) add(b, l, v, 4);
  return block(l, 6, b + frame);
}

Bytes simple(const Layout& l, const Bytes& frame) {
  Bytes b;
  add(b, l, frame.size(), 4);
  return block(l, 3, b + frame);
}

Bytes old_packet(const Layout& l, uint16_t which, const Bytes& frame) {
  Bytes b;
  const auto n = static_cast<uint32_t>(frame.size());
  add(b, l, which, 2);
  add(b, l, 0, 2);
  for (uint32_t v : {1u, 2u, n, n}) add(b, l, v, 4);
  return block(l, 2, b + frame);
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
std::size_t read_all(wire::Wire& w) {
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
      auto w = wire::make_wire("pcap:" + in.path);
      CU_ASSERT_FATAL(w.ok());
      EQUAL(read_all(**w), 80);
      EQUAL((*w)->counters().rx_malformed, 0);
    }
  }
}

void what_is_written_is_a_capture_file_again() {
  File out;
  {
    auto w = wire::make_wire("pcap::" + out.path);
    CU_ASSERT_FATAL(w.ok());
    for (std::size_t i = 0; i < 80; ++i) (*w)->send(make_frame({.payload = i * 100}));
    CU_ASSERT((*w)->peek().empty());
    CU_ASSERT((*w)->ended());
    EQUAL((*w)->fd(), -1);
  }
  Bytes b = out.content();
  Bytes want = capture({.magic = 0xa1b23c4d}, 80);
  CU_ASSERT(b.size() == want.size() && std::memcmp(b.data(), want.data(), 24) == 0);
  auto w = wire::make_wire("pcap:" + out.path);
  EQUAL(read_all(**w), 80);
}

void both_files_at_once() {
  File in(capture({}, 3)), out;
  auto w = wire::make_wire("pcap:" + in.path + ":" + out.path);
  CU_ASSERT_FATAL(w.ok());
  (*w)->send(make_frame({}));
  EQUAL(read_all(**w), 3);
  EQUAL(out.content().size(), 24 + 16 + make_frame({}).size());
}

void an_output_that_is_the_input_is_refused_and_stays() {
  File both(capture({}, 3));
  CU_ASSERT(!wire::make_wire("pcap:" + both.path + ":" + both.path).ok());
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
        Row{capture({.magic = 0x0b0d0d0a}, 1), "neither a pcap nor a pcapng"},
        Row{capture({.magic = 0x0a0d0d0a}, 1), "begins like a pcapng"},
        Row{section({}) + interface({}, 101), "Ethernet"}, Row{capture({.major = 3}, 1), "version"},
        Row{capture({.link = 101}, 1), "Ethernet"}}) {
    File in(row.content);
    std::string why;
    CU_ASSERT(!wire::make_wire("pcap:" + in.path, &why).ok());
    CU_ASSERT(why.find(row.word) != std::string::npos);
  }
  EQUAL(wire::make_wire("pcap:/").error().code, EINVAL);
}

void records_that_are_no_frame_are_counted_by_their_cause() {
  Layout l;
  Bytes b = file_header(l);
  add_record(b, l, Bytes(13), 13, 13);              // shorter than a header
  add_record(b, l, Bytes(), 0, 0);                  // nothing at all
  add_record(b, l, Bytes(200000), 200000, 200000);  // longer than any frame
  add_record(b, l, make_frame({.payload = 0}), 54, 54);
  File in(b);
  auto w = wire::make_wire("pcap:" + in.path);
  EQUAL(read_all(**w), 1);
  const wire::WireCounters& c = (*w)->counters();
  EQUAL(c.rx_too_short, 2);
  EQUAL(c.rx_too_long, 1);
  EQUAL(c.rx_frames, 1);
  EQUAL(c.rx_malformed + c.rx_cut, 0);
}

// As libpcap's readers replay it: public traces have a snap length of 96 bytes and less.
void a_frame_that_was_cut_comes_with_the_bytes_that_are_there() {
  Layout l;
  Bytes b = file_header(l);
  const Bytes whole = make_frame({.payload = 100});
  const Bytes begin(whole.begin(), whole.begin() + 40);
  add_record(b, l, begin, 40, static_cast<uint32_t>(whole.size()));
  add_record(b, l, whole, static_cast<uint32_t>(whole.size()), static_cast<uint32_t>(whole.size()));
  File in(b);
  auto w = wire::make_wire("pcap:" + in.path);
  CU_ASSERT(same((*w)->peek(), begin));
  (*w)->drop();
  CU_ASSERT(same((*w)->peek(), whole));
  (*w)->drop();
  CU_ASSERT((*w)->peek().empty());
  CU_ASSERT((*w)->ended());
  EQUAL((*w)->counters().rx_cut, 1);
  EQUAL((*w)->counters().rx_malformed, 0);
}

void next_generation_files_are_read_in_both_byte_orders() {
  for (const Layout& l : {Layout{}, Layout{.big_endian = true}}) {
    Bytes b = section(l) + interface(l, 1) + block(l, 0x0bad, Bytes(40)) + interface(l, 113);
    b += enhanced(l, 0, make_frame({.payload = 0}));
    b += enhanced(l, 1, Bytes(80));  // of an interface that is no Ethernet
    b += simple(l, make_frame({.payload = 100}));
    b += old_packet(l, 0, make_frame({.payload = 200}));
    b += enhanced(l, 7, Bytes(80));  // of an interface that was not told of
    b += section(l) + interface(l, 1) + enhanced(l, 0, make_frame({.payload = 300}));
    b += block(l, 5, Bytes(4000));  // statistics of an interface
    File in(b);
    std::string why;
    auto w = wire::make_wire("pcap:" + in.path, &why);
    CU_ASSERT_FATAL(w.ok());
    EQUAL(read_all(**w), 4);
    EQUAL((*w)->counters().rx_malformed, 2);
    EQUAL((*w)->counters().rx_cut, 0);
  }
}

void blocks_that_make_no_sense_end_the_file() {
  const Layout l;
  const Bytes good = section(l) + interface(l, 1) + enhanced(l, 0, make_frame({.payload = 0}));
  for (uint32_t length : {0u, 8u, 13u, 0x7fffffffu, 0xfffffffcu}) {
    Bytes b = good + block(l, 6, Bytes(60));
    put_number(b, good.size() + 4, length);
    File in(b);
    auto w = wire::make_wire("pcap:" + in.path);
    EQUAL(read_all(**w), 1);
    EQUAL((*w)->counters().rx_malformed, 1);
  }
  // A packet that is longer than its block says is none, and one behind the file's end ends it.
  Bytes b = good + enhanced(l, 0, Bytes(60)) + enhanced(l, 0, make_frame({.payload = 100}));
  put_number(b, good.size() + 20, 4000);
  b.resize(b.size() - 30);
  File in(b);
  auto w = wire::make_wire("pcap:" + in.path);
  EQUAL(read_all(**w), 1);
  EQUAL((*w)->counters().rx_malformed, 2);
}

void a_recording_goes_back_to_its_mark() {
  for (const Bytes& content : {capture({}, 5), section({}) + interface({}, 1) +
                                                   enhanced({}, 0, make_frame({.payload = 0})) +
                                                   enhanced({}, 0, make_frame({.payload = 100}))}) {
    File in(content);
    auto w = wire::make_wire("pcap:" + in.path + no_faults);
    (void)(*w)->peek();
    (*w)->drop();
    (*w)->mark();
    while (!(*w)->peek().empty()) (*w)->drop();
    CU_ASSERT((*w)->ended());
    CU_ASSERT((*w)->rewind());
    CU_ASSERT(!(*w)->ended());
    CU_ASSERT(same((*w)->peek(), make_frame({.payload = 100})));
  }
  // What was counted before is not counted again.
  Bytes b = file_header({});
  add_record(b, {}, Bytes(3), 3, 3);
  File in(b);
  auto w = wire::make_wire("pcap:" + in.path);
  (*w)->mark();
  CU_ASSERT((*w)->peek().empty());
  CU_ASSERT((*w)->rewind());
  CU_ASSERT((*w)->peek().empty());
  EQUAL((*w)->counters().rx_too_short, 1);
}

void a_record_that_makes_no_sense_ends_the_file() {
  Layout l;
  for (uint32_t length : {0xffffffffu, 0x80000000u, 262145u, 60u}) {
    Bytes b = capture(l, 2);
    add_record(b, l, Bytes(30), length, length);
    File in(b);
    auto w = wire::make_wire("pcap:" + in.path);
    EQUAL(read_all(**w), 2);
    EQUAL((*w)->counters().rx_malformed, 1);
  }
}

void damaged_files_always_come_to_an_end() {
  std::mt19937 random(11);
  for (int i = 0; i < 600; ++i) {
    const Layout l{.big_endian = random() % 2 == 0};
    Bytes b = i < 300 ? capture(l, 20) : section(l) + interface(l, 1);
    for (std::size_t n = 0; i >= 300 && n < 20; n++)
      b += enhanced(l, 0, make_frame({.payload = n * 100}));
    const std::size_t head = i < 300 ? 24 : 48;
    for (int n = 0; n < 8; ++n)
      b[head + random() % (b.size() - head)] = static_cast<std::byte>(random());
    b.resize(head + random() % (b.size() - head));
    File in(b);
    auto w = wire::make_wire("pcap:" + in.path);
    CU_ASSERT_FATAL(w.ok());
    std::size_t frames = 0;
    for (; !(*w)->peek().empty() && frames < 10000; ++frames) (*w)->drop();
    if (!(*w)->ended() || frames >= 10000) CU_FAIL("does not end");
  }
}

void a_full_device_is_refused_and_a_null_device_takes_all() {
  auto w = wire::make_wire("pcap::/dev/full");
  CU_ASSERT(!w.ok());
  w = wire::make_wire("pcap::/dev/null");
  CU_ASSERT_FATAL(w.ok());
  EQUAL((*w)->send(make_frame({})), wire::Wire::Sent::taken);
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
    {"records that are no frame are counted by their cause",
     records_that_are_no_frame_are_counted_by_their_cause},
    {"a frame that was cut comes with the bytes that are there",
     a_frame_that_was_cut_comes_with_the_bytes_that_are_there},
    {"next generation files are read in both byte orders",
     next_generation_files_are_read_in_both_byte_orders},
    {"blocks that make no sense end the file", blocks_that_make_no_sense_end_the_file},
    {"a recording goes back to its mark", a_recording_goes_back_to_its_mark},
    {"a record that makes no sense ends the file", a_record_that_makes_no_sense_ends_the_file},
    {"damaged files always come to an end", damaged_files_always_come_to_an_end},
    {"a full device is refused, a null device takes all",
     a_full_device_is_refused_and_a_null_device_takes_all},
};

}  // namespace
}  // namespace pcap_ut

KILIM_TEST_SUITE(pcap, pcap_ut::cases)
