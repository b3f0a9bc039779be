// SPDX-License-Identifier: BSD-3-Clause
// Frames of 60 to 9,000 bytes through ports that take them in several buffers, split or not, by
// every way of sending: each byte comes back, in order, payload stays in its buffer, and both
// pools have all of theirs at the end.
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>

#include <stdlib.h>

#include "kilim/detail/port/calibrate.hh"
#include "mlx5/port_interface.hh"
#include "split_fixture.hh"

namespace split_ut {
namespace {

using namespace kilim;
using namespace kilim::test;
using chooser::Way;

constexpr SplitConfig configs[] = {
    {.split = false, .rwq = false},          {.split = false, .rwq = true},
    {.rwq = false, .way = Way::gather_list}, {.rwq = true, .way = Way::gather_list},
    {.rwq = false, .way = Way::inline_key},  {.rwq = true, .way = Way::inline_key},
    {.rwq = true, .way = Way::copy},         {.rwq = false, .way = Way::copy, .mixed = true},
};

void every_byte_comes_back() {
  for (const SplitConfig& c : configs) {
    SplitBench b(c);
    CU_ASSERT_TRUE_FATAL(b.start().ok());
    for (int i = 0; i < 400 && b.sent.size() < 500; i++) b.turn(4);
    b.settle();
    EQUAL(b.received, b.sent.size());
    CU_ASSERT_TRUE(b.sent.size() >= 500);
    EQUAL(b.wrong, 0);
    EQUAL(b.disordered, 0);
    EQUAL(b.stream.dropped.read(), 0u);
    const port::PortStats s = b.far->stats();
    EQUAL(s.rx_bytes, s.tx_bytes);
    EQUAL(s.rx_packets, b.sent.size());
    if (!c.split) continue;
    const auto by = [&b](Way w) { return b.stream.sent_by[static_cast<std::size_t>(w)].read(); };
    EQUAL(by(Way::copy) + by(Way::gather_list) + by(Way::inline_key), b.sent.size());
    CU_ASSERT_TRUE(by(c.way) > 80);
    if (c.mixed) {
      CU_ASSERT_TRUE(by(Way::inline_key) > 80);
      CU_ASSERT_TRUE(by(Way::gather_list) < 10);
    }
    EQUAL(s.keys_bound, by(Way::inline_key));
  }
}

// The segment `i` of the last WQE of a transmit queue.
const prm::DataSeg& sent_segment(port::Port& p, uint32_t i) {
  const queue::Sq& sq = p.tx_queue(0).sq;
  const queue::SqGeometry& g = sq.geometry();
  const uint32_t block = (sq.posted() - 1) & (g.wqebb_count - 1);
  return reinterpret_cast<const prm::DataSeg&>(g.buf[std::size_t{block} * 64 + 32 + i * 16]);
}

// The payload is found in one buffer before the mode runs, and the WQE names that one.
void payload_stays_in_its_buffer() {
  for (const bool rwq : {false, true}) {
    SplitBench b({.rwq = rwq});
    CU_ASSERT_TRUE_FATAL(b.start().ok());
    const pool::Arena& arena = b.memory.arena();
    for (int round = 0; round < 20; round++) {
      Frame f = make_jumbo(b.rng, 0);
      f.resize(1000);
      CU_ASSERT_TRUE_FATAL(b.send(f));
      b.run_devices();
      std::vector<uint32_t> holders;
      for (uint32_t i = 0; i < arena.count(); i++)
        if (std::memcmp(arena.buffer(i), f.data() + header_bytes, f.size() - header_bytes) == 0)
          holders.push_back(i);
      EQUAL_FATAL(holders.size(), 1u);
      CU_ASSERT_TRUE(b.payloads.has(holders[0]));
      EQUAL_FATAL(b.engine->run(b.stream), 1u);
      const prm::DataSeg &head = sent_segment(*b.far, 0), &payload = sent_segment(*b.far, 1);
      EQUAL(payload.addr.host(), arena.address({holders[0], 0, 0}).value());
      EQUAL(payload.byte_count.host(), f.size() - header_bytes);
      EQUAL(head.byte_count.host(), header_bytes);
      const uint64_t at = head.addr.host() - arena.first_address().value();
      CU_ASSERT_TRUE(b.header_pool.has(static_cast<uint32_t>(at / stride)));
      Handle h[8];
      b.run_devices();
      const uint32_t n = b.near->rx(0, h);
      b.near_cache.free({h, n});
      std::memset(arena.buffer(holders[0]), 0, 16);
    }
  }
}

void stopped_amid_traffic() {
  for (const SplitConfig& c : configs) {
    SplitBench b(c);
    for (int round = 0; round < 5; round++) {
      CU_ASSERT_TRUE_FATAL(b.start().ok());
      for (int i = 0; i < 5 + round; i++) b.turn(6);
      b.send_some(6);
      b.run_devices();
      CU_ASSERT_TRUE(b.out() != 0);
      b.stop();
      EQUAL(b.out(), 0u);
    }
    EQUAL(b.wrong, 0u);
  }
}

// The queue pairs, or the work queue, go to the error state.
void fail_queues(SplitBench& b, bool rwq) {
  for (uint32_t n = 1; n < 64; n++) {
    if (rwq)
      (void)b.far->device().set_rwq_state(device::RwqHandle{n}, device::RwqState::error);
    else
      (void)b.far->device().fail(device::QpHandle{n});
  }
}

void revived_amid_traffic() {
  for (const SplitConfig& c : configs) {
    SplitBench b(c);
    CU_ASSERT_TRUE_FATAL(b.start().ok());
    for (uint32_t round = 1; round <= 5; round++) {
      for (int i = 0; i < 20; i++) b.turn(6);
      b.send_some(6);
      b.run_devices();
      fail_queues(b, c.rwq);
      b.settle();
      EQUAL(b.far->stats().queues_down, 0u);
      CU_ASSERT_TRUE(b.far->stats().recoveries >= round);
      const uint32_t before = b.received;
      for (int i = 0; i < 20; i++) b.turn(6);
      b.settle();
      CU_ASSERT_TRUE(b.received >= before + 60);
    }
    EQUAL(b.wrong, 0u);
    b.stop();
    EQUAL(b.out(), 0u);
  }
}

// A stopped receive queue holds nothing of either pool.
void a_stopped_receive_queue_holds_nothing() {
  SplitBench b({.rwq = true});
  CU_ASSERT_TRUE_FATAL(b.start().ok());
  b.near->stop();
  for (int round = 0; round < 5; round++) {
    CU_ASSERT_TRUE(b.out() == 64 * (1 + jumbo_buffers));
    CU_ASSERT_TRUE(b.far->stop_rx(0, nullptr).ok());
    EQUAL(b.out(), 0u);
    CU_ASSERT_TRUE(b.far->start_rx(0).ok());
  }
}

// Set-ups that do not fit, each with its errno.
void refused_set_ups() {
  SplitBench b({});
  pool::BufferCache* const c = &b.cache;
  pool::BufferCache* const h = &b.headers;
  std::vector<std::byte> other_memory(std::size_t{64} * stride);
  const pool::Arena other = *pool::Arena::over(other_memory);
  pool::Pool other_pool = *pool::Pool::create(other, {.name = "other", .count = 64});
  pool::BufferCache foreign{other_pool};
  CU_ASSERT_TRUE_FATAL(b.far->configure({}, b.memory).ok());
  const port::RxSetup refused[] = {
      {.cache = c, .buffers = 0},
      {.cache = c, .buffers = 9},
      {.cache = c, .buffers = 8, .split = {.header_bytes = 64, .headers = h}},
      {.cache = c, .buffers = 6},  // five hold the longest frame of any port
      {.cache = c, .split = {.header_bytes = 64}},
      {.cache = c, .split = {.headers = h}},
      {.cache = c, .split = {.header_bytes = 13, .headers = h}},
      {.cache = c, .split = {.header_bytes = stride + 1, .headers = h}},
      {.cache = c, .head_lines = 1, .split = {.header_bytes = stride, .headers = h}},
      {.cache = c, .split = {.header_bytes = 64, .headers = &foreign}},
      {.cache = &foreign, .split = {.header_bytes = 64, .headers = h}},
      {.split = {.header_bytes = 64, .headers = h}},
      {.cache = c, .buffers = 5, .compression = device::Compression::hash},
      {.cache = c, .buffers = 5, .strides = device::Strides{6, 4}},
  };
  for (const port::RxSetup& s : refused) {
    const Status made = b.far->set_rx(0, s);
    CU_ASSERT_FALSE_FATAL(made.ok());
    EQUAL(made.error().code, EINVAL);
  }
  CU_ASSERT_TRUE(b.far->set_rx(0, {.cache = c, .buffers = 5}).ok());
  CU_ASSERT_TRUE(
      b.far->set_rx(0, {.cache = c, .split = {.header_bytes = stride, .headers = h}}).ok());
  device::Caps caps = b.far->device().caps();
  caps.max_sge = 4;
  const Status few = port::check_rx({.cache = c, .buffers = 5}, {}, b.memory.arena(), caps, {});
  CU_ASSERT_FALSE_FATAL(few.ok());
  EQUAL(few.error().code, EOPNOTSUPP);
  const device::PortInfo narrow{.frame_mtu = 1500};
  caps.max_sge = 30;
  const Status beyond =
      port::check_rx({.cache = c, .buffers = 2}, {}, b.memory.arena(), caps, narrow);
  CU_ASSERT_FALSE_FATAL(beyond.ok());
  EQUAL(beyond.error().code, EINVAL);
  const burst::TxConfig two{.two_pools = true}, chains{.multi_seg = true, .two_pools = true};
  EQUAL(b.far->set_tx(0, {.cache = c, .config = two, .headers = h}).error().code, EINVAL);
  EQUAL(b.far->set_tx(0, {.cache = c, .config = chains}).error().code, EINVAL);
}

void write_line(const std::filesystem::path& file, const char* text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

uint32_t frame_mtu_of(const std::string& sysfs, uint8_t port) {
  return mlx5::read_frame_mtu(mlx5::interface_folder(sysfs, "mlx5_7", port));
}

// As the kernel has them: a name at the GID, a number at the function's interface.
void the_mtu_of_an_interface() {
  char folder[] = "/tmp/kilim-mtu-XXXXXX";
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
  const std::filesystem::path device = std::filesystem::path(folder) / "class/infiniband/mlx5_7";
  EQUAL(frame_mtu_of(folder, 2), 0u);
  write_line(device / "ports/2/gid_attrs/ndevs/0", "enp1s0f1np1\n");
  EQUAL(frame_mtu_of(folder, 2), 0u);
  write_line(device / "device/net/enp1s0f1np1/mtu", "1500\n");
  write_line(device / "device/net/enp1s0f0np0/mtu", "9000\n");
  EQUAL(frame_mtu_of(folder, 2), 1500u);
  EQUAL(frame_mtu_of(folder, 1), 0u);
  write_line(device / "device/net/enp1s0f1np1/mtu", "no number\n");
  EQUAL(frame_mtu_of(folder, 2), 0u);
  // Without a GID the interfaces say which port is theirs.
  write_line(device / "device/net/enp1s0f0np0/dev_port", "0\n");
  write_line(device / "device/net/enp1s0f1np1/dev_port", "1\n");
  EQUAL(frame_mtu_of(folder, 1), 9000u);
  EQUAL(frame_mtu_of(folder, 3), 0u);
  // A bond is none of the PCI function's.
  write_line(device / "ports/2/gid_attrs/ndevs/0", "bond0\n");
  EQUAL(frame_mtu_of(folder, 2), 0u);
  write_line(std::filesystem::path(folder) / "class/net/bond0/mtu", "9100\n");
  EQUAL(frame_mtu_of(folder, 2), 9100u);
  std::filesystem::remove_all(folder);
}

// The costs of the device are measured, and leave nothing behind.
void costs_are_measured() {
  SplitBench b({});
  for (int round = 0; round < 2; round++) {
    auto chooser = port::calibrate_chooser(b.far->device());
    CU_ASSERT_TRUE_FATAL(chooser.ok());
    for (const Way w : {Way::copy, Way::gather_list, Way::inline_key})
      CU_ASSERT_TRUE(chooser->cost(w, {.pieces = 2, .bytes = 1000}) > 0);
  }
  CU_ASSERT_TRUE_FATAL(b.start().ok());
  b.turn(4);
  b.settle();
  EQUAL(b.received, 4u);
}

void a_started_port_is_not_set_up() {
  SplitBench b(configs[0]);
  CU_ASSERT_TRUE_FATAL(b.start().ok());
  for (const Status& s : {b.far->set_rx(0, {}), b.far->set_tx(0, {})}) {
    CU_ASSERT_FALSE_FATAL(s.ok());
    EQUAL(s.error().code, EBUSY);
    CU_ASSERT_TRUE(std::string_view(s.error().what).find("started") != std::string_view::npos);
  }
}

const kilim::test::Case cases[] = {
    {"a started port is not set up", a_started_port_is_not_set_up},
    {"frames in several buffers come back whole and in order, by every way", every_byte_comes_back},
    {"a payload is sent from the buffer that it came in", payload_stays_in_its_buffer},
    {"a port stopped amid traffic gives back every buffer of both pools", stopped_amid_traffic},
    {"a port revived amid traffic gives back every buffer of both pools", revived_amid_traffic},
    {"a stopped receive queue holds nothing of either pool", a_stopped_receive_queue_holds_nothing},
    {"set-ups that do not fit are refused", refused_set_ups},
    {"the MTU of a port's interface is read", the_mtu_of_an_interface},
    {"what the ways cost is measured on the device", costs_are_measured},
};

}  // namespace
}  // namespace split_ut

KILIM_TEST_SUITE(split, split_ut::cases)
