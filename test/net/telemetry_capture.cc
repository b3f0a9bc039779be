// SPDX-License-Identifier: BSD-3-Clause
// Part of telemetry_ut: captures of a port begin and end while lanes forward. The file is read back
// block by block; every packet of the port is in it or counted as missing.
#include <cerrno>
#include <fstream>
#include <iterator>

#include "app_fixture.hh"
#include "kilim/detail/capture/capture.hh"
#include "telemetry_cases.hh"

namespace telemetry_capture_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

constexpr uint32_t packets = 200;

struct TestFile {
  std::string path = "/tmp/kilim_capture_" + std::to_string(::getpid()) + ".pcapng";
  ~TestFile() { ::unlink(path.c_str()); }
};

// What a reader finds, by the draft's numbers.
struct Found {
  uint32_t wrong = 0;  // blocks that are not as they should be
  uint64_t received = 0, sent = 0, isb_seen = 0, isb_dropped = 0;
  std::vector<uint32_t> numbers;  // of the packets

  uint32_t word(const std::string& b, std::size_t at) const {
    uint32_t v = 0;
    std::memcpy(&v, b.data() + at, sizeof v);
    return v;
  }
  explicit Found(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(in), {}};
    std::size_t at = 0, blocks = 0;
    for (uint32_t length; at + 12 <= all.size(); at += length, blocks++) {
      length = word(all, at + 4);
      if (length % 4 != 0 || length < 12 || at + length > all.size()) break;
      wrong += word(all, at + length - 4) != length;
      const uint32_t type = word(all, at);
      wrong += blocks == 0 && type != 0x0a0d0d0a;
      wrong += blocks == 1 && type != 1;
      if (type == 6) packet(all.substr(at, length));
      if (type == 5) std::memcpy(&isb_seen, all.data() + at + 24, 8);
      if (type == 5) std::memcpy(&isb_dropped, all.data() + at + 36, 8);
    }
    wrong += at != all.size();
  }
  void packet(const std::string& b) {
    wrong += word(b, 20) != small_frame || word(b, 24) != small_frame;
    numbers.push_back(word(b, 28 + number_at));
    wrong += numbers.back() >= packets;
    const uint32_t flags = word(b, 28 + small_frame + 4);
    received += flags == 1;
    sent += flags == 2;
  }
};

struct Pair {
  std::string wire = "cable:" + fresh("a");
  std::unique_ptr<port::Port> near = port_with(wire, Progress::poller),
                              far = port_with(wire, Progress::poller);
  Game g{packets};
  app::Program program{.name = "captured", .on_burst = Game::on_burst, .context = &g};
};

// From the first packet to the last, so that the port's own counts say how many there were.
void all_or_counted() {
  Pair p;
  const TestFile file;
  Threads t({p.near.get(), p.far.get()}, 2, p.program);
  auto made = capture::Capture::start(
      *p.near, {.file = file.path, .records = 64, .workers = &t.frame->quiescence()});
  CU_ASSERT_TRUE_FATAL(made.ok());
  EQUAL(capture::Capture::start(*p.near, {.file = "/dev/null"}).error().code, EBUSY);
  t.serve(0, packets);
  t.start();
  CU_ASSERT_TRUE(wait_until([&] { return p.g.turns.load() > 3000; }));
  p.g.collect.store(true);
  CU_ASSERT_TRUE(wait_until([&] { return p.g.collected.load() == packets; }));
  t.stop();
  CU_ASSERT_TRUE((*made)->stop().ok());
  const capture::CaptureStats s = (*made)->stats();
  const port::PortStats counts = p.near->stats();
  EQUAL(s.written + s.dropped, counts.rx_packets + counts.tx_packets);
  CU_ASSERT(s.written > 0);
  const Found f(file.path);
  EQUAL(f.wrong, 0u);
  EQUAL(f.received + f.sent, s.written);
  CU_ASSERT(f.received > 0);
  CU_ASSERT(f.sent > 0);
  EQUAL(f.isb_seen, s.written + s.dropped);
  EQUAL(f.isb_dropped, s.dropped);
}

// Captures come and go under traffic, and over a stop and start of the ports; no packet is lost.
void comes_and_goes() {
  Pair p;
  const TestFile file;
  {
    Threads t({p.near.get(), p.far.get()}, 2, p.program);
    t.serve(0, packets);
    t.start();
    const int rounds = long_check() ? 200 : 10;
    for (int i = 0; i < rounds; i++) {
      auto made =
          capture::Capture::start(*p.far, {.file = file.path, .workers = &t.frame->quiescence()});
      CU_ASSERT_TRUE_FATAL(made.ok());
      const uint64_t before = p.g.turns.load();
      CU_ASSERT_TRUE(wait_until([&] { return p.g.turns.load() > before + 300; }));
      CU_ASSERT_TRUE((*made)->stop().ok());
      const Found f(file.path);
      EQUAL(f.wrong, 0u);
      EQUAL(f.numbers.size(), (*made)->stats().written);
      CU_ASSERT(!f.numbers.empty());
    }
    p.g.collect.store(true);
    CU_ASSERT_TRUE(wait_until([&] { return p.g.collected.load() == packets; }));
    t.stop();
    for (const auto& times : p.g.seen) EQUAL(times.load(), 1u);
    EQUAL(t.missed(), 0u);
  }
  auto made = capture::Capture::start(*p.near, {.file = file.path});
  CU_ASSERT_TRUE_FATAL(made.ok());
  p.g.collect.store(false);
  Threads t({p.near.get(), p.far.get()}, 1, p.program);  // stops and starts the ports
  t.serve(0, 10);
  CU_ASSERT_TRUE((*made)->stop().ok());
  EQUAL(Found(file.path).sent, 10u);
}

// What is longer than the capture keeps is cut.
void cut() {
  Pair p;
  const TestFile file;
  Threads t({p.near.get(), p.far.get()}, 1, p.program);
  auto made = capture::Capture::start(*p.near, {.file = file.path, .snap_bytes = 65});
  CU_ASSERT_TRUE_FATAL(made.ok());
  app::Lane& lane = *t.frame->lanes()[0];
  Burst b(lane, 0, {});
  Handle h;
  EQUAL_FATAL(lane.cache->alloc({&h, 1}, 1500), 1u);
  std::memset(b.bytes(h).data(), 7, 1500);
  b.send(0, h);
  lane.flush(lane.outputs[0]);
  CU_ASSERT_TRUE((*made)->stop().ok());
  std::ifstream in(file.path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  const std::string lengths("\x41\0\0\0\xdc\x05\0\0\x07\x07", 10);  // 65 of 1500
  CU_ASSERT(all.find(lengths) != std::string::npos);
  EQUAL(Found(file.path).isb_seen, 1u);  // behind a block that is padded
}

void files_that_take_nothing() {
  Pair p;
  Threads t({p.near.get(), p.far.get()}, 1, p.program);
  EQUAL(capture::Capture::start(*p.near, {.file = "/nowhere/x"}).error().code, ENOENT);
  EQUAL(capture::Capture::start(*p.near, {.file = "/dev/full"}).error().code, ENOSPC);
  EQUAL(capture::Capture::start(*p.near, {.file = "/dev/null", .records = 100}).error().code,
        EINVAL);
  EQUAL(capture::Capture::start(*p.near, {.file = "/dev/null", .snap_bytes = 10}).error().code,
        EINVAL);
  const char* wrong[] = {"", ":", "0", "0:", ":x", "9:x", "net:x", "0x:x", "-1:x"};
  for (const char* text : wrong) CU_ASSERT_FALSE(capture::parse_port_file(text).ok());
}

constexpr Case cases[] = {
    {"every packet of a port is in its capture or counted", all_or_counted},
    {"captures come and go under traffic", comes_and_goes},
    {"a capture cuts what is longer than it keeps", cut},
    {"a capture that cannot be is refused", files_that_take_nothing},
};

}  // namespace
}  // namespace telemetry_capture_ut

std::span<const kilim::test::Case> kilim::test::capture_cases() {
  return telemetry_capture_ut::cases;
}
