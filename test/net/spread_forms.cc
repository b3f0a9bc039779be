// SPDX-License-Identifier: BSD-3-Clause
// Part of spread. Receive queues whose completions are compressed, and queues whose buffers hold
// several packets, on the virtual device: what comes, in which order, and that every buffer comes
// back.
#include <algorithm>
#include <array>
#include <cerrno>
#include <map>

#include <rte_mbuf_ptype.h>
#include <time.h>

#include "spread_fixture.hh"

namespace spread_forms_ut {
namespace {

using namespace kilim;
using namespace kilim::test;
using device::Compression;

constexpr port::RxSetup with(Compression c) {
  return {.config = {.side = true}, .compression = c};
}
port::RxSetup strided(uint32_t log_bytes, uint32_t log_count) {
  port::RxSetup s;
  s.strides = device::Strides{log_bytes, log_count};
  return s;
}

// Hashes of the frames are those of a queue without compression, where the format says them.
void check_compressed(Compression format) {
  SpreadBench b(4, 4096, 128, with(format));
  CU_ASSERT_TRUE_FATAL(b.far().set_rss({}).ok());
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  std::map<uint32_t, uint32_t> last;
  uint32_t number = 0, hashed = 0;
  for (uint32_t round = 0; round < 60; round++) {
    for (uint32_t i = 0; i < 1 + round % 40; i++)
      b.send(make_frame(udp4_kind, number % 9, number + 1)), number++;
    b.receive_all();
    for (const SpreadBench::Got& g : b.got) {
      const uint32_t n = number_of(g.frame) - 1, flow = n % 9;
      CU_ASSERT_TRUE(g.frame == make_frame(udp4_kind, flow, n + 1));
      CU_ASSERT_TRUE(last[flow] < n + 1);
      last[flow] = n + 1;
      const uint32_t hash = expected_hash(udp4_kind, g.frame, {});
      CU_ASSERT_TRUE(g.hash == hash || (format == Compression::checksum && g.hash == 0));
      hashed += g.hash != 0;
    }
    CU_ASSERT_TRUE(!b.got.empty());
    b.got.clear();
  }
  uint64_t packets = 0, compressed = 0;
  for (uint32_t q = 0; q < 4; q++) {
    packets += b.far().rx_stats(q).packets;
    compressed += b.far().rx_stats(q).compressed;
  }
  EQUAL(packets, number);
  CU_ASSERT_TRUE(compressed > number / 2);
  if (format == Compression::hash) EQUAL(hashed, number);
  if (format == Compression::checksum) {
    CU_ASSERT_TRUE(hashed < number);
    CU_ASSERT_TRUE(hashed > 0);
  }
}

void hashes_come_in_blocks() {
  check_compressed(Compression::hash);
}
void checksums_come_in_blocks() {
  check_compressed(Compression::checksum);
}

// Stops, starts and recovers with blocks and shared buffers half received.
void check_stops(const port::RxSetup& like) {
  SpreadBench b(2, 4096, 256, like);
  std::vector<std::pair<uint32_t, Handle>> held;
  uint64_t sent = 0, received = 0, missed = 0;
  for (uint32_t round = 0; round < 5; round++) {
    CU_ASSERT_TRUE_FATAL(b.far().start().ok());
    for (uint32_t i = 0; i < 90; i++) b.send(make_frame(udp4_kind, i, i)), sent++;
    b.t.run_devices();
    b.t.run_devices();
    Handle h[5];
    for (uint32_t q = 0; q < 2; q++) {
      const uint32_t n = b.far().rx(q, h);  // in the middle of a block
      for (uint32_t i = 0; i < n; i++) held.emplace_back(q, h[i]);
      received += n;
      if (round % 2 == 0) continue;
      const uint32_t waiting = b.far().rx_depth(q);
      const uint64_t before = b.far().rx_stats(q).discarded;
      CU_ASSERT_TRUE_FATAL(b.far().stop_rx(q, nullptr).ok());
      EQUAL(b.far().rx_stats(q).discarded - before, waiting);
      EQUAL(b.far().rx_depth(q), 0u);
      CU_ASSERT_TRUE_FATAL(b.far().start_rx(q).ok());
    }
    if (round == 3) {
      for (uint32_t n = 1; n < 40; n++)
        (void)b.far().device().set_rwq_state(device::RwqHandle{n}, device::RwqState::error);
      b.receive_all();
      b.far().revive(nullptr);
      EQUAL(b.far().stats().queues_down, 0u);
      b.got.clear();
    }
    for (uint32_t i = 0; i < 20; i++) b.send(make_frame(udp4_kind, i, i)), sent++;
    b.receive_all();
    if (round % 2 != 0) EQUAL(b.got.size(), 20u);
    received += b.got.size();
    b.got.clear();
    missed = b.far().missed();
    for (uint32_t i = 0; i < 40; i++) b.send(make_frame(udp4_kind, i, i)), sent++;
    b.t.run_devices();
    b.t.run_devices();
    b.far().stop();  // with frames in every queue
  }
  EQUAL(missed, 0u);
  const port::PortStats s = b.far().stats();
  EQUAL(s.rx_packets + s.rx_discarded, sent);
  CU_ASSERT_TRUE(s.rx_discarded > 100);
  CU_ASSERT_TRUE(received != 0);
  // Packets outlive the queue that they came from.
  for (const auto& [q, handle] : held) b.caches[q]->free_one(handle);
}

void stops_in_a_block() {
  check_stops(with(Compression::hash));
}
void stops_in_a_shared_buffer() {
  check_stops(strided(8, 3));
}

// Its entries are in use until the last packet of the block is taken, the receives are not.
void a_block_half_received_leaves_room() {
  SpreadBench b(1, 4096, 128, with(Compression::hash));
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  const auto arrive = [&b](uint32_t frames) {
    for (uint32_t i = 0; i < frames; i++) b.send(make_frame(udp4_kind, 1, i));
    b.t.run_devices();
    b.t.run_devices();
  };
  Handle h[64];
  arrive(120);
  EQUAL(b.far().rx_depth(0), 120u);
  EQUAL(b.far().rx(0, std::span(h).first(40)), 40u);
  EQUAL(b.far().rx_depth(0), 80u);
  b.caches[0]->free(std::span<const Handle>(h).first(40));
  arrive(100);
  EQUAL(b.far().rx_depth(0), 128u);
  b.receive_all();
  EQUAL(b.got.size(), 128u);
  EQUAL(b.far().stats().queues_down, 0u);
  EQUAL(b.far().missed(), 52u);
  arrive(20);
  b.receive_all();
  EQUAL(b.got.size(), 148u);
}

// Frames of all lengths; some lie in the application's hands for long.
void frames_share_buffers() {
  port::RxSetup setup = strided(8, 3);
  setup.config = {.side = true, .timestamp = true};
  SpreadBench b(1, 600, 256, setup);
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  const pool::Arena& arena = b.t.memory.arena();
  std::mt19937 random(1);
  std::vector<std::pair<Handle, Frame>> held;
  std::vector<Frame> sent;
  uint32_t shared = 0;
  for (uint32_t round = 0; round < 300; round++) {
    sent.clear();
    for (auto i = static_cast<uint32_t>(random() % 12); i > 0; i--) {
      Frame f = make_frame(udp4_kind, 1, round);
      f.resize(60 + random() % (random() % 4 == 0 ? 1400 : 200));
      for (std::size_t k = 50; k < f.size(); k++) f[k] = as_byte(random() & 0xff);
      b.send(f);
      sent.push_back(f);
    }
    b.t.run_devices();
    b.t.run_devices();
    Handle h[64];
    const uint32_t n = b.far().rx(0, h);
    EQUAL_FATAL(n, sent.size());
    for (uint32_t i = 0; i < n; i++) {
      shared += i > 0 && h[i].index == h[i - 1].index;
      held.emplace_back(h[i], sent[i]);
    }
    std::shuffle(held.begin(), held.end(), random);
    for (const auto& [handle, frame] : held) {
      const auto bytes = arena.bytes(handle);
      CU_ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), frame.begin(), frame.end()));
      const pool::SideRecord& side = arena.side(handle);
      CU_ASSERT_TRUE(handle.has(Handle::side));
      CU_ASSERT_TRUE(side.timestamp != 0);
      if (frame.size() < 100) continue;  // cut short in what its IP header says
      EQUAL(side.rx_hash, expected_hash(udp4_kind, frame, {}));
      EQUAL(side.packet_type,
            RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4_EXT_UNKNOWN | RTE_PTYPE_L4_UDP);
    }
    while (held.size() > 60) b.caches[0]->free_one(held.back().first), held.pop_back();
  }
  CU_ASSERT_TRUE(shared > 300);
  EQUAL(b.far().rx_stats(0).too_long, 0u);
  Frame longest = make_frame(udp4_kind, 1, 1);
  longest.resize(2050);  // more than the strides of a buffer
  b.send(longest);
  b.receive_all();
  EQUAL(b.far().rx_stats(0).too_long, 1u);
  CU_ASSERT_TRUE(b.got.empty());
  for (const auto& [handle, frame] : held) b.caches[0]->free_one(handle);
}

void what_does_not_fit_is_refused() {
  SpreadBench b(1, 600, 256, strided(8, 3));
  pool::BufferCache& cache = *b.caches[0];
  const auto refused = [&](port::RxSetup s, const char* word) {
    s.cache = &cache;
    const Status got = b.far().set_rx(0, s);
    CU_ASSERT_TRUE_FATAL(!got.ok());
    if (std::strstr(got.error().what, word) == nullptr) CU_FAIL(word);
    return got.error().code;
  };
  EQUAL(refused(strided(5, 3), "limits"), EINVAL);
  EQUAL(refused(strided(14, 3), "limits"), EINVAL);
  EQUAL(refused(strided(8, 2), "limits"), EINVAL);
  EQUAL(refused(strided(8, 4), "than a buffer"), EINVAL);
  EQUAL(refused(strided(13, 16), "than a buffer"), EINVAL);
  EQUAL(refused(strided(31, 31), "limits"), EINVAL);
  port::RxSetup s = strided(7, 4);
  CU_ASSERT_TRUE(b.far().set_rx(0, {.cache = &cache, .strides = s.strides}).ok());
  s.config.side = true;  // of pieces of 256 bytes, two strides each
  EQUAL(refused(s, "side records"), EINVAL);
  s = strided(8, 3);
  s.head_lines = 1;
  EQUAL(refused(s, "lines"), EINVAL);
  s = strided(8, 3);
  s.compression = Compression::hash;
  EQUAL(refused(s, "not both"), EINVAL);
  s = {};
  s.real_time = true;
  EQUAL(refused(s, "time of day"), EOPNOTSUPP);
  // 128 strides in a buffer, and a ring of 64.
  std::vector<std::byte> memory(129 * 64 + 64);
  std::array<pool::ExtraHolders, 1> extra{};
  const auto aligned = std::span(memory).subspan(
      (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64, 129 * 64);
  const auto large = pool::Arena::over(aligned, 129 * 64, nullptr, extra.data());
  CU_ASSERT_TRUE_FATAL(large.ok());
  s = strided(6, 7);
  s.cache = &cache;
  const Status two = port::check_rx(s, {.rxd = 64}, *large, b.far().device().caps(), {});
  CU_ASSERT_TRUE(!two.ok() && std::strstr(two.error().what, "two buffers") != nullptr);
  CU_ASSERT_TRUE(port::check_rx(s, {.rxd = 256}, *large, b.far().device().caps(), {}).ok());
  device::Caps poor = b.far().device().caps();
  poor.spread = {};
  CU_ASSERT_TRUE(!port::check_rx(s, {}, *large, poor, {}).ok());
  poor = b.far().device().caps();
  poor.compressed_hash = false;
  s = with(Compression::hash);
  s.cache = &cache;
  CU_ASSERT_TRUE(!port::check_rx(s, {}, b.t.memory.arena(), poor, {}).ok());
}

void arenas_without_holders_are_refused() {
  SpreadBench b(1);
  port::RxSetup s = strided(8, 3);
  s.cache = b.caches[0].get();
  const Status got = b.far().set_rx(0, s);
  CU_ASSERT_TRUE(!got.ok() && got.error().code == EINVAL);
}

uint64_t utc_now() {
  timespec t{};
  ::clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

// A stamp in ticks of the device is a time between sending and receiving.
void stamps_become_times() {
  for (const Compression c : {Compression::none, Compression::hash}) {
    port::RxSetup s = with(c);
    s.config.timestamp = true;
    SpreadBench b(1, 600, 128, s);
    CU_ASSERT_TRUE_FATAL(b.far().start().ok());
    for (int round = 0; round < 5; round++) {
      const uint64_t before = utc_now();
      for (uint32_t i = 0; i < 4; i++) b.send(make_frame(udp4_kind, 1, i));
      b.t.run_devices();
      b.t.run_devices();
      Handle h[8];
      EQUAL_FATAL(b.far().rx(0, h), 4u);
      const auto clock = b.far().device().clock();
      CU_ASSERT_TRUE_FATAL(clock.ok());
      const uint64_t after = utc_now();
      for (uint32_t i = 0; i < 4; i++) {
        const uint64_t at = clock->ns(b.t.memory.arena().side(h[i]).timestamp);
        constexpr uint64_t slack = 1'000'000;  // the host's clock is adjusted meanwhile
        CU_ASSERT_TRUE(at + slack >= before);
        CU_ASSERT_TRUE(at <= after + slack);
      }
      b.caches[0]->free({h, 4});
    }
  }
}

constexpr kilim::test::Case of_forms[] = {
    {"hashes come in compressed blocks", hashes_come_in_blocks},
    {"checksums come in compressed blocks", checksums_come_in_blocks},
    {"a queue stops in the middle of a block", stops_in_a_block},
    {"a queue stops in the middle of a shared buffer", stops_in_a_shared_buffer},
    {"a block half received leaves room", a_block_half_received_leaves_room},
    {"frames share buffers and keep their bytes", frames_share_buffers},
    {"stamps become times", stamps_become_times},
    {"what does not fit is refused with a sentence", what_does_not_fit_is_refused},
    {"arenas without holders are refused", arenas_without_holders_are_refused},
};

}  // namespace
}  // namespace spread_forms_ut

std::span<const kilim::test::Case> kilim::test::form_cases() {
  return spread_forms_ut::of_forms;
}
