// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/capture/capture.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <rte_cycles.h>
#include <rte_lcore.h>
#include <time.h>

#include "kilim/detail/base/cacheline.hh"
#include "kilim/detail/base/dpdk.hh"
#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/detail/pool/chain.hh"
#include "kilim/detail/port/registry.hh"

namespace kilim::inline v1::capture {

// A packet on its way to the file; its bytes stand behind it.
struct Capture::Record {
  uint64_t tsc;
  uint32_t queue;
  uint32_t whole_bytes;
  uint32_t bytes;
  Direction direction;

  std::byte* data() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
};

namespace {

constexpr uint32_t at_once = 32;
constexpr timespec pause{0, 1'000'000};  // of a writer that finds nothing

uint64_t now_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace

void Capture::Free::operator()(void* memory) const noexcept {
  std::free(memory);
}

Result<Capture::Ring> Capture::make_ring(uint32_t entries) {
  const ssize_t bytes = rte_ring_get_memsize(entries);
  if (bytes < 0) return Error{EINVAL, "a capture's records are a power of two, 64 to 65536"};
  const auto whole = round_up(static_cast<uint32_t>(bytes), cacheline_bytes);
  Ring ring(static_cast<rte_ring*>(std::aligned_alloc(cacheline_bytes, whole)));
  if (ring == nullptr || rte_ring_init(ring.get(), "kilim_capture", entries, 0) != 0)
    return Error{ENOMEM, "no memory for a capture's ring"};
  return ring;
}

Result<std::unique_ptr<Capture>> Capture::start(port::Port& port, const CaptureConfig& config) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (config.snap_bytes < 64 || config.snap_bytes > UINT16_MAX)
    return Error{EINVAL, "a capture keeps 64 to 65535 bytes of a packet"};
  if (config.records < 64 || config.records > 65536 || (config.records & (config.records - 1)) != 0)
    return Error{EINVAL, "a capture's records are a power of two, 64 to 65536"};
  if (port.has_tap())
    return Error{EBUSY, "the port has a capture already"};  // whose file may be this
  auto file = PcapngFile::create(config.file, port.name(), config.snap_bytes);
  if (!file) return file.error();
  std::unique_ptr<Capture> c(new Capture(port, config, *std::move(file)));
  if (Status s = c->make(); !s) return s.error();
  return c;
}

Status Capture::make() {
  const std::size_t stride =
      round_up(static_cast<uint32_t>(sizeof(Record)) + config_.snap_bytes, cacheline_bytes);
  memory_.resize(stride * config_.records);
  for (Ring* ring : {&free_, &full_}) {
    auto made = make_ring(2 * config_.records);  // one place of a ring stays empty
    if (!made) return made.error();
    *ring = *std::move(made);
  }
  for (uint32_t i = 0; i < config_.records; i++)
    (void)rte_ring_enqueue(free_.get(), memory_.data() + i * stride);
  began_tsc_ = rte_rdtsc();
  began_ns_ = now_ns();
  if (!start_control_thread<&Capture::write_all>(writer_, "kilim-capture", *this))
    return Error{EAGAIN, "no thread to write the capture"};
  running_ = true;
  tap_ = {this,
          [](void* self, uint32_t queue, std::span<const pool::Handle> packets) noexcept {
            static_cast<Capture*>(self)->take(queue, Direction::received, packets);
          },
          [](void* self, uint32_t queue, std::span<const pool::Handle> packets) noexcept {
            static_cast<Capture*>(self)->take(queue, Direction::sent, packets);
          }};
  if (Status s = port_.set_tap(tap_); !s) return s;
  tapped_ = true;
  return Done{};
}

Capture::~Capture() {
  while (running_) (void)stop();  // it says ETIMEDOUT each second that a worker is stuck
}

// Until the writer has ended: a second behind begin_to_end() at the latest.
Status Capture::stop() {
  if (tapped_)
    if (Status s = port_.clear_tap(config_.workers); !s) return s;
  tapped_ = false;
  if (running_) {
    ending_.store(true, std::memory_order_release);
    file_.begin_to_end();
    pthread_join(writer_, nullptr);
    running_ = false;
  }
  return failed_.load() ? Status{Error{EIO, "the capture's file took not all packets"}} : Done{};
}

CaptureStats Capture::stats() const noexcept {
  return {taken_.load(std::memory_order_relaxed), dropped_.load(std::memory_order_relaxed),
          failed_.load(std::memory_order_relaxed)};
}

// On the queue's worker.
void Capture::take(uint32_t queue, Direction direction,
                   std::span<const pool::Handle> packets) noexcept {
  const uint64_t tsc = rte_rdtsc();
  std::array<void*, at_once> records;
  while (!packets.empty()) {
    uint32_t n = rte_ring_dequeue_burst(free_.get(), records.data(), at_once, nullptr);
    uint32_t used = 0;
    for (; used < n && !packets.empty(); used++) {
      auto& r = *static_cast<Record*>(records[used]);
      const std::span<const pool::Handle> packet = pool::first_packet(packets);
      r.tsc = tsc;
      r.queue = queue;
      r.direction = direction;
      fill(r, packet);
      packets = packets.subspan(packet.empty() ? packets.size() : packet.size());
    }
    (void)rte_ring_enqueue_burst(full_.get(), records.data(), used, nullptr);
    if (used < n)
      (void)rte_ring_enqueue_burst(free_.get(), records.data() + used, n - used, nullptr);
    taken_.fetch_add(used, std::memory_order_relaxed);
    if (n != 0) continue;
    uint64_t lost = 0;
    for (const pool::Handle h : packets) lost += h.has(pool::Handle::more) ? 0 : 1;
    dropped_.fetch_add(lost, std::memory_order_relaxed);
    return;
  }
}

// A packet under a key has the key's handle in front, with the length of all. Its last piece may be
// the packet as it came, whose first bytes the new header replaces (PacketGather::gather()).
void Capture::fill(Record& r, std::span<const pool::Handle> packet) const noexcept {
  uint32_t skip = 0;
  r.whole_bytes = pool::packet_length(packet);
  if (!packet.empty() && packet[0].has(pool::Handle::key)) {
    const uint32_t whole = packet[0].length;
    packet = packet.subspan(1);
    skip = pool::packet_length(packet) - whole;
    r.whole_bytes = whole;
  }
  const std::span<std::byte> room(r.data(), config_.snap_bytes);
  const pool::Arena& arena = port_.arena();
  uint32_t done = 0;
  for (std::size_t i = 0; i < packet.size(); i++) {
    const uint32_t from = i + 1 == packet.size() ? std::min<uint32_t>(skip, packet[i].length) : 0;
    const auto n =
        static_cast<uint32_t>(std::min<std::size_t>(packet[i].length - from, room.size() - done));
    std::memcpy(room.data() + done, arena.data(packet[i]) + from, n);
    done += n;
  }
  r.bytes = done;
}

uint64_t Capture::ns_of(uint64_t tsc) const noexcept {
  const double seconds =
      static_cast<double>(tsc - began_tsc_) / static_cast<double>(rte_get_tsc_hz());
  return began_ns_ + static_cast<uint64_t>(seconds * 1e9);
}

uint32_t Capture::write_some() noexcept {
  std::array<void*, at_once> records;
  const uint32_t n = rte_ring_dequeue_burst(full_.get(), records.data(), at_once, nullptr);
  for (uint32_t i = 0; i < n; i++) {
    auto& r = *static_cast<Record*>(records[i]);
    const PacketInfo info{ns_of(r.tsc), r.whole_bytes, r.queue, r.direction};
    if (!failed_.load(std::memory_order_relaxed) && file_.add(info, {r.data(), r.bytes})) continue;
    failed_.store(true, std::memory_order_relaxed);
    dropped_.fetch_add(1, std::memory_order_relaxed);
    taken_.fetch_sub(1, std::memory_order_relaxed);
  }
  (void)rte_ring_enqueue_burst(free_.get(), records.data(), n, nullptr);
  return n;
}

// The writer's thread. What was taken before the end is written.
void Capture::write_all() noexcept {
  for (;;) {
    const bool last = ending_.load(std::memory_order_acquire);
    if (write_some() != 0) continue;
    if (last) break;
    if (!file_.flush()) failed_.store(true, std::memory_order_relaxed);
    nanosleep(&pause, nullptr);
  }
  const CaptureStats s = stats();
  if (!file_.end(s.written + s.dropped, s.dropped, now_ns()))
    failed_.store(true, std::memory_order_relaxed);
}

Result<PortFile> parse_port_file(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == 0 || colon == std::string_view::npos || colon + 1 == text.size())
    return Error{EINVAL, "it is not PORT:FILE, a port's number or name and a file"};
  const std::string_view word = text.substr(0, colon);
  PortFile out{port::port_named(word), std::string(text.substr(colon + 1))};
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (out.port == nullptr && error == std::errc{} && end == word.data() + word.size())
    out.port = port::port_at(number);
  if (out.port == nullptr) return Error{ENODEV, "there is no such port (0 is the first)"};
  return out;
}

}  // namespace kilim::inline v1::capture
