// SPDX-License-Identifier: BSD-3-Clause
#include "perf/two_sided/side.hh"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "kilim/prm/syndrome.hh"
#include "perf/two_sided/content.hh"
#include "vhca/entry/attach.hh"

namespace kilim::perf {
namespace {

constexpr uint32_t most_receives = 512;
constexpr uint32_t least_queue = 64;

constexpr uint32_t power_of_two_from(uint32_t n) noexcept {
  uint32_t p = least_queue;
  while (p < n) p *= 2;
  return p;
}

}  // namespace

Result<attach::Attachment> open_device(const Options& o) {
  const bool under_launcher = !vhca::entry::sysfs_root().empty();
  if (!o.alone && attach::is_virtual_name(o.device) && o.wire.empty() && !under_launcher)
    return Error{EINVAL,
                 "a virtual device finds its peer by a wire: -d vhca0,wire=unix:FOLDER, the same "
                 "folder on both sides; or run both under kilim-vhca"};
  const bool threaded = o.progress == "thread";
  DeviceSpec spec;
  spec.name = o.device;
  if (!o.wire.empty()) spec.wires.push_back(o.wire);
  spec.progress = threaded ? Progress::thread : Progress::poller;
  spec.lint = o.lint;
  return attach::resolve(spec);
}

Result<std::unique_ptr<Side>> Side::create(attach::Attachment& device, const Options& options,
                                           const Agreement& agreement) {
  std::unique_ptr<Side> side(new Side(device, agreement));
  if (Status s = side->make_memory(); !s) return s.error();
  if (Status s = side->make_lanes(options); !s) return s.error();
  return side;
}

Status Side::make_memory() {
  half_ = bytes_of(agreement_);
  Result<mem::Block> block = mem::Block::map(2 * half_, device_.device->numa_node());
  if (!block) return block.error();
  block_ = std::make_unique<mem::Block>(*std::move(block));
  Result<mr::Mr> region = mr::Mr::create(device_.device->registrar(), block_->span(),
                                         mr::Access::all, block_->range().page_bytes);
  if (!region) return region.error();
  region_ = std::make_unique<mr::Mr>(*std::move(region));
  return Done{};
}

Status Side::make_lanes(const Options& options) {
  LaneConfig config{
      .send_wqebbs = power_of_two_from(agreement_.depth),
      .gid_index = options.gid_index == any_gid ? -1 : static_cast<int>(options.gid_index)};
  if (agreement_.work == Work::send) {
    config.receives = most_receives;
    config.inline_recv = options.inline_recv;
  } else {
    config.inline_recv = 0;  // answers are looked for in memory
  }
  for (uint32_t i = 0; i < agreement_.queues; i++) {
    Result<std::unique_ptr<Lane>> lane = Lane::create(*device_.device, config);
    if (!lane) return lane.error();
    lanes_.push_back(*std::move(lane));
  }
  return Done{};
}

Result<Hello> Side::hello() {
  Hello h{
      .agreement = agreement_, .address = open_address(), .length = half_, .key = region().rkey};
  for (const auto& lane : lanes_) {
    Result<device::Endpoint> end = device_.device->endpoint(lane->qp());
    if (!end) return end.error();
    h.ends.push_back(*end);
  }
  return h;
}

Status Side::connect(const Hello& peer) {
  for (std::size_t i = 0; i < lanes_.size(); i++)
    if (Status s = device_.device->connect(lanes_[i]->qp(), peer.ends[i]); !s) return s;
  post_first();
  return Done{};
}

void Side::post_first() noexcept {
  if (agreement_.work != Work::send) return;
  for (uint32_t i = 0; i < agreement_.queues; i++) post_receives(i);
}

void Side::fail_by(const queue::Completion& c) {
  std::string why = std::string("a request failed: ") + prm::verbs_name(c.syndrome);
  if (c.syndrome == prm::Syndrome::transport_retry_exc)
    why += " (nobody answers; do both sides have the same wire?)";
  fail(std::move(why));
}

// ---- receives

// Posts as many receives as there are slots: each has a place of its own.
void Side::post_receives(uint32_t queue) noexcept {
  Lane& lane = *lanes_[queue];
  const uint32_t most = agreement_.check ? slots_.count : lane.rq().geometry().wqe_count;
  const uint64_t before = lane.receives;
  while (lane.rq().posted() < most) {
    const uint64_t at = slots_.at(queue, lane.receives);
    if (!lane.rq().post({open_address() + at, agreement_.high, region().lkey}, at)) break;
    lane.receives++;
  }
  if (lane.receives != before) lane.rq().ring();
}

void Side::handle_message(uint32_t queue, const queue::Completion& c,
                          std::span<const std::byte> in_entry) noexcept {
  Lane& lane = *lanes_[queue];
  if (!c.ok()) return fail_by(c);
  const uint64_t at = lane.rq().retire(c.wqe_counter);
  const uint64_t number = lane.received++;
  if (!agreement_.check) return;
  const std::span<const std::byte> data = in_entry.empty() ? open(at, bytes_) : in_entry;
  if (c.byte_len != bytes_ || data.size() != bytes_ || !is_message(data, queue, number))
    fail("message " + std::to_string(number) + " of queue " + std::to_string(queue) +
         " did not arrive as it was sent");
}

void Side::poll_receives(uint32_t queue) noexcept {
  constexpr uint32_t most = 32;
  Lane& lane = *lanes_[queue];
  const auto take = [this, queue](const queue::Completion& c, std::span<const std::byte> data) {
    handle_message(queue, c, data);
  };
  while (queue::for_each_completion(lane.recv_cq(), most, lane.inlined, take) != 0) {
    if (!failure_.empty()) return;
    post_receives(queue);
  }
}

Inlined Side::inlined() const noexcept {
  Inlined sum;
  for (const auto& lane : lanes_) {
    sum.messages += lane->inlined.messages.read();
    sum.bytes += lane->inlined.bytes.read();
  }
  return sum;
}

// Two processes with virtual devices may have to share a core: who has nothing to do for long lets
// the other one go on.
void Side::run_device() noexcept {
  constexpr uint32_t budget = 256, long_idle = 64;
  const worker::Poller& p = device_.poller;
  if (p.fn == nullptr) return device_.device->progress();
  if (p.fn(p.context, budget) != 0) {
    idle_looks_ = 0;
  } else if (++idle_looks_ >= long_idle) {
    idle_looks_ = 0;
    std::this_thread::yield();
  }
}

void Side::serve() noexcept {
  run_device();
  if (agreement_.work != Work::send || !failure_.empty()) return;
  for (uint32_t i = 0; i < agreement_.queues; i++) poll_receives(i);
}

Idle Side::idle() noexcept {
  if (agreement_.work != Work::send && device_.poller.fn == nullptr) return {};
  return {[](void* side) { static_cast<Side*>(side)->serve(); }, this};
}

// ---- checks

void Side::begin_round(uint32_t bytes) noexcept {
  bytes_ = bytes;
  for (auto& lane : lanes_) lane->begin_round();
  if (!agreement_.check) return;
  for (uint32_t q = 0; q < agreement_.queues; q++) {
    for (uint32_t s = 0; s < slots_.count; s++) {
      const uint64_t at = slots_.at(q, s);
      std::memset(own(at, bytes).data(), 0, bytes);
      std::memset(open(at, bytes).data(), 0, bytes);
      if (agreement_.work == Work::read) fill_message(open(at, bytes), q, s);
      if (agreement_.work != Work::read) fill_message(own(at, bytes), q, s);
    }
  }
}

// Says whether the slot holds the last of messages 0 to `messages` - 1 that went there.
bool Side::slot_holds_last(uint32_t queue, uint32_t slot, uint64_t messages) noexcept {
  const auto memory = open(slots_.at(queue, slot), bytes_);
  if (slot >= messages)
    return std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == std::byte{}; });
  return is_message(memory, queue, slot + (messages - 1 - slot) / slots_.count * slots_.count);
}

bool Side::all_received(const std::vector<uint64_t>& messages) noexcept {
  if (agreement_.work != Work::send) return true;
  for (uint32_t q = 0; q < agreement_.queues; q++)
    if (lanes_[q]->received != messages[q]) return false;
  return true;
}

void Side::check_arrived(const std::vector<uint64_t>& messages) noexcept {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds{10};
  while (!all_received(messages) && failure_.empty() && Clock::now() < deadline) serve();
  if (!all_received(messages)) fail("not as many messages arrived as were sent");
  if (!agreement_.check) return;
  for (uint32_t q = 0; q < agreement_.queues; q++) {
    const std::string queue = " of queue " + std::to_string(q);
    if (agreement_.work == Work::atomic) {
      uint64_t sum = 0;
      std::memcpy(&sum, open(slots_.at(q, 0), atomic_bytes).data(), sizeof sum);
      if (sum != messages[q]) fail("the sum" + queue + " is not the number of its atomics");
    }
    for (uint32_t s = 0; s < slots_.count; s++)
      if (agreement_.work == Work::write && !slot_holds_last(q, s, messages[q]))
        fail("slot " + std::to_string(s) + queue + " does not hold what was written last");
  }
}

}  // namespace kilim::perf
