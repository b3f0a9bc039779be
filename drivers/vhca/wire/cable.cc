// SPDX-License-Identifier: BSD-3-Clause
// The in-process cable: rings, names, ends.
#include "vhca/wire/cable.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "kilim/detail/base/barrier.hh"

namespace kilim::vhca::wire {

FrameRing::FrameRing()
    : mem_(new std::byte[bytes]), event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

bool FrameRing::put(std::span<const std::byte> frame) noexcept {
  uint64_t tail = tail_.load(std::memory_order_relaxed);
  std::size_t room = bytes - (tail - head_.load(std::memory_order_acquire));
  std::size_t at = tail % bytes;
  std::size_t need = record_bytes(frame.size());
  // A frame is not cut in two: what is left at the end is passed over.
  std::size_t skip = at + need > bytes ? bytes - at : 0;
  if (skip + need > room) return false;
  if (skip > 0) {
    std::memcpy(mem_.get() + at, &wrap_mark, sizeof(wrap_mark));
    at = 0;
  }
  auto length = static_cast<uint32_t>(frame.size());
  std::memcpy(mem_.get() + at, &length, sizeof(length));
  std::memcpy(mem_.get() + at + length_bytes, frame.data(), frame.size());
  show(tail + skip + need);
  return true;
}

void FrameRing::show(uint64_t tail) noexcept {
  tail_.store(tail, std::memory_order_release);
  // Against arm(): either we see that the taker sleeps, or it sees this frame.
  store_before_load();
  if (asleep_.load(std::memory_order_relaxed) && asleep_.exchange(false)) {
    (void)!eventfd_write(event_.get(), 1);
  }
}

bool FrameRing::Writer::go_round(std::size_t& at, std::size_t need) noexcept {
  const uint64_t full = ring_.head_.load(std::memory_order_acquire) + bytes;
  const std::size_t skip = at + need > bytes ? bytes - at : 0;
  next_ = tail_ + skip + need;
  if (next_ > full) return false;
  // Behind the end the tail is there only when the frame is kept.
  limit_ = skip > 0 ? 0 : std::min(full, tail_ - at + bytes);
  if (skip > 0) {
    std::memcpy(mem_ + at, &wrap_mark, sizeof(wrap_mark));
    at = 0;
  }
  return true;
}

void FrameRing::Writer::look_ahead() noexcept {
  const uint64_t full = ring_.head_.load(std::memory_order_acquire) + bytes;
  limit_ = std::min(full, tail_ - tail_ % bytes + bytes);
}

std::span<const std::byte> FrameRing::front() noexcept {
  uint64_t head = head_.load(std::memory_order_relaxed);
  if (head == tail_.load(std::memory_order_acquire)) return {};
  std::size_t at = head % bytes;
  uint32_t length;
  std::memcpy(&length, mem_.get() + at, sizeof(length));
  if (length == wrap_mark) {
    head_.store(head + bytes - at, std::memory_order_release);
    at = 0;
    std::memcpy(&length, mem_.get(), sizeof(length));
  }
  return {mem_.get() + at + length_bytes, length};
}

void FrameRing::pop() noexcept {
  std::span<const std::byte> frame = front();
  if (frame.empty()) return;
  head_.store(head_.load(std::memory_order_relaxed) + record_bytes(frame.size()),
              std::memory_order_release);
}

void FrameRing::clear() noexcept {
  head_.store(tail_.load(std::memory_order_acquire), std::memory_order_release);
}

int FrameRing::arm() noexcept {
  asleep_.store(true, std::memory_order_relaxed);
  store_before_load();
  if (head_.load(std::memory_order_relaxed) != tail_.load(std::memory_order_acquire)) {
    (void)!eventfd_write(event_.get(), 1);
  }
  return event_.get();
}

void FrameRing::disarm() noexcept {
  asleep_.store(false, std::memory_order_relaxed);
  eventfd_t n = 0;
  (void)!eventfd_read(event_.get(), &n);
}

// Owned by both ends; gone with the second.
struct Cable::Line {
  std::string name;
  FrameRing to[2];  // what end 0, end 1 receives
  std::atomic<bool> held[2] = {false, false};
};

// Cables by name, never destroyed: a process may exit with cables in use.
struct Cable::Lines {
  static inline pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static inline std::map<std::string, std::weak_ptr<Line>, std::less<>>* by_name = nullptr;
};

Result<std::unique_ptr<Wire>> Cable::create(std::string_view name) {
  pthread_mutex_lock(&Lines::lock);
  if (Lines::by_name == nullptr) {
    Lines::by_name = new std::map<std::string, std::weak_ptr<Line>, std::less<>>;
  }
  std::weak_ptr<Line>& known = (*Lines::by_name)[std::string(name)];
  std::shared_ptr<Line> line = known.lock();
  if (!line) {
    line = std::make_shared<Line>();
    line->name = name;
    known = line;
  }
  unsigned end = line->held[0].load() ? 1 : 0;
  bool taken = line->held[end].load();
  if (!taken) {
    // Frames for an end that was left are nobody's.
    line->to[end].clear();
    line->held[end].store(true);
  }
  pthread_mutex_unlock(&Lines::lock);
  if (taken) return Error{EBUSY, "both ends of this cable are taken"};
  return std::unique_ptr<Wire>(new Cable(std::move(line), end));
}

Cable::Cable(std::shared_ptr<Line> line, unsigned end) noexcept
    : line_(std::move(line)), end_(end) {}

Cable::~Cable() {
  pthread_mutex_lock(&Lines::lock);
  line_->held[end_].store(false);
  if (!line_->held[1 - end_].load()) Lines::by_name->erase(line_->name);
  pthread_mutex_unlock(&Lines::lock);
}

FrameRing& Cable::in() const noexcept {
  return line_->to[end_];
}

Wire::Sent Cable::send(std::span<const std::byte> frame) noexcept {
  if (frame.size() < ether_header_bytes || frame.size() > max_frame(cable_mtu)) {
    counters_.tx_bad_length++;
    return Sent::refused;
  }
  if (line_->held[1 - end_].load(std::memory_order_acquire) && !line_->to[1 - end_].put(frame)) {
    counters_.tx_busy++;
    return Sent::busy;
  }
  counters_.tx_frames++;
  counters_.tx_bytes += frame.size();
  return Sent::taken;
}

RingEnd Cable::out_ring() noexcept {
  // With nobody at the other end frames are lost, which send() knows how to do.
  if (!line_->held[1 - end_].load(std::memory_order_acquire)) return {};
  return {&line_->to[1 - end_], &account_};
}

RingEnd Cable::in_ring() noexcept {
  if (armed_) {
    armed_ = false;
    in().disarm();
  }
  return {&in(), &account_};
}

std::span<const std::byte> Cable::peek() noexcept {
  if (armed_) {
    armed_ = false;
    in().disarm();
  }
  return in().front();
}

void Cable::drop() noexcept {
  std::span<const std::byte> frame = in().front();
  if (frame.empty()) return;
  counters_.rx_frames++;
  counters_.rx_bytes += frame.size();
  in().pop();
}

int Cable::fd() const noexcept {
  armed_ = true;
  return in().arm();
}

}  // namespace kilim::vhca::wire
