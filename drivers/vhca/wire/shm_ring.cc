// SPDX-License-Identifier: BSD-3-Clause
// The ring in sealed memory, ours or the other side's.
#include "vhca/wire/shm_ring.hh"

#include <cstring>

#include <sys/mman.h>

#include "kilim/detail/base/barrier.hh"
#include "vhca/core/sealed.hh"

namespace kilim::vhca::wire {

ShmRing& ShmRing::operator=(ShmRing&& o) noexcept {
  if (this == &o) return *this;
  close();
  head_ = std::exchange(o.head_, nullptr);
  data_ = std::exchange(o.data_, nullptr);
  own_ = std::exchange(o.own_, 0);
  shown_ = std::exchange(o.shown_, 0);
  other_ = std::exchange(o.other_, 0);
  ended_ = std::exchange(o.ended_, false);
  return *this;
}

Fd ShmRing::create() noexcept {
  Fd memory = sealed_memory("kilim-shm", memory_bytes);
  if (!memory || !map(memory.get())) return {};
  return memory;
}

bool ShmRing::open(int memory) noexcept {
  return is_sealed_memory(memory, memory_bytes) && map(memory);
}

bool ShmRing::map(int memory) noexcept {
  close();
  void* at =
      ::mmap(nullptr, memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory, 0);
  if (at == MAP_FAILED) return false;
  head_ = static_cast<Head*>(at);
  data_ = static_cast<std::byte*>(at) + data_at;
  own_ = shown_ = other_ = 0;
  ended_ = false;
  return true;
}

void ShmRing::close() noexcept {
  if (head_ != nullptr) ::munmap(head_, memory_bytes);
  head_ = nullptr;
  data_ = nullptr;
}

ShmRing::Put ShmRing::put(std::span<const std::byte> frame) noexcept {
  const std::size_t need = record_bytes(frame.size());
  std::size_t at = own_ % bytes;
  // A frame is not cut in two: what is left at the end is passed over.
  const std::size_t skip = at + need > bytes ? bytes - at : 0;
  if (own_ + skip + need - other_ > bytes) {
    const uint64_t taken = head_->taken.load(std::memory_order_acquire);
    if (taken % 8 != 0 || own_ - taken > bytes) return Put::broken;
    other_ = taken;
    if (own_ + skip + need - other_ > bytes) return Put::full;
  }
  if (skip > 0) {
    std::memcpy(data_ + at, &wrap_mark, sizeof(wrap_mark));
    at = 0;
  }
  const auto length = static_cast<uint32_t>(frame.size());
  std::memcpy(data_ + at, &length, sizeof(length));
  std::memcpy(data_ + at + length_bytes, frame.data(), frame.size());
  own_ += skip + need;
  return Put::kept;
}

bool ShmRing::show() noexcept {
  shown_ = own_;
  head_->tail.store(own_, std::memory_order_release);
  // Against sleep(): either we see that the taker sleeps, or it sees this frame.
  store_before_load();
  return head_->taker_sleeps.load(std::memory_order_relaxed) != 0 &&
         head_->taker_sleeps.exchange(0) != 0;
}

bool ShmRing::has_room() noexcept {
  auto enough = [this] {
    const uint64_t used = own_ - head_->taken.load(std::memory_order_acquire);
    return used <= bytes - bytes / 4 || used > bytes;  // nonsense is found by put()
  };
  if (enough()) return true;
  head_->putter_waits.store(1, std::memory_order_relaxed);
  store_before_load();
  return enough();
}

// Once: the other side may write there.
uint32_t ShmRing::length_at(std::size_t at) const noexcept {
  auto* word = reinterpret_cast<uint32_t*>(data_ + at);
  return std::atomic_ref<uint32_t>(*word).load(std::memory_order_relaxed);
}

ShmRing::Take ShmRing::take(std::span<std::byte> into, std::size_t& count) noexcept {
  if (own_ == other_ && !ended_) other_ = head_->tail.load(std::memory_order_acquire);
  const uint64_t filled = other_ - own_;
  if (filled == 0) return Take::none;
  if (filled > bytes || filled % 8 != 0) return Take::broken;
  std::size_t at = own_ % bytes, skip = 0;
  uint32_t length = length_at(at);
  if (length == wrap_mark) {
    skip = bytes - at;
    length = length_at(at = 0);
  }
  if (length > bytes || skip + record_bytes(length) > filled || at + record_bytes(length) > bytes)
    return Take::broken;
  count = length <= into.size() ? length : 0;
  std::memcpy(into.data(), data_ + at + length_bytes, count);
  own_ += skip + record_bytes(length);
  return Take::frame;
}

bool ShmRing::release() noexcept {
  shown_ = own_;
  head_->taken.store(own_, std::memory_order_release);
  store_before_load();  // against has_room()
  return head_->putter_waits.load(std::memory_order_relaxed) != 0 &&
         head_->putter_waits.exchange(0) != 0;
}

bool ShmRing::sleep() noexcept {
  head_->taker_sleeps.store(1, std::memory_order_relaxed);
  store_before_load();
  return own_ == head_->tail.load(std::memory_order_acquire);
}

void ShmRing::wake() noexcept {
  head_->taker_sleeps.store(0, std::memory_order_relaxed);
}

void ShmRing::end() noexcept {
  if (ended_) return;
  other_ = head_->tail.load(std::memory_order_acquire);
  ended_ = true;
}

}  // namespace kilim::vhca::wire
