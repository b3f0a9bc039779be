// SPDX-License-Identifier: BSD-3-Clause
// Frames in a bounded ring of bytes in memory that two processes share: one puts, one takes. What
// the other side wrote is untrusted: indices and lengths are read once and checked, frames are
// copied out before anybody looks at them, and each side believes its own index alone. The memory
// cannot shrink (it is sealed), so no access faults. Owner: the wire on its side; never waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kilim/detail/base/fd.hh"

namespace kilim::vhca::wire {

class ShmRing {
 public:
  ShmRing() = default;
  ShmRing(ShmRing&& o) noexcept { *this = std::move(o); }
  ShmRing& operator=(ShmRing&& o) noexcept;
  ShmRing(const ShmRing&) = delete;
  ShmRing& operator=(const ShmRing&) = delete;
  ~ShmRing() { close(); }

  // The putter makes it; none: there is no memory, as errno says.
  Fd create() noexcept;
  // The taker is given it; false: it is no such memory.
  bool open(int memory) noexcept;
  void close() noexcept;
  explicit operator bool() const noexcept { return head_ != nullptr; }

  // The putter's. A frame is kept, and seen by the taker from show() on.
  enum class Put : uint8_t { kept, full, broken };
  Put put(std::span<const std::byte> frame) noexcept;
  // True: the taker sleeps and is to be woken.
  bool show() noexcept;
  // Not shown yet, in bytes.
  [[nodiscard]] std::size_t unshown() const noexcept { return own_ - shown_; }
  // Whether a good part is free again. If not, the taker is asked to say when.
  bool has_room() noexcept;

  // The taker's.
  enum class Take : uint8_t { none, frame, broken };
  // Copies the next frame out; `count` is its length, or 0 where it does not fit.
  Take take(std::span<std::byte> into, std::size_t& count) noexcept;
  // What was taken is the putter's room. True: he waits for it and is to be told.
  bool release() noexcept;
  [[nodiscard]] std::size_t unreleased() const noexcept { return own_ - shown_; }
  // About to sleep, or awake again. sleep(): false, there is something to take.
  bool sleep() noexcept;
  void wake() noexcept;
  // The putter has gone: nothing that is put from now on counts.
  void end() noexcept;

  static constexpr std::size_t bytes = 1u << 20;

 private:
  // What both see. Each line is written by one side mostly.
  struct Head {
    alignas(64) std::atomic<uint64_t> tail;   // the putter's
    alignas(64) std::atomic<uint64_t> taken;  // the taker's
    alignas(64) std::atomic<uint32_t> taker_sleeps;
    alignas(64) std::atomic<uint32_t> putter_waits;
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  static constexpr std::size_t data_at = 4096, memory_bytes = data_at + bytes;
  static constexpr uint32_t wrap_mark = ~0u;  // the rest of the ring is empty
  static constexpr std::size_t length_bytes = 8;
  static constexpr std::size_t record_bytes(std::size_t frame) noexcept {
    return length_bytes + (frame + 7) / 8 * 8;
  }
  bool map(int memory) noexcept;
  [[nodiscard]] uint32_t length_at(std::size_t at) const noexcept;

  Head* head_ = nullptr;
  std::byte* data_ = nullptr;
  uint64_t own_ = 0;    // our index
  uint64_t shown_ = 0;  // and as the other side knows it
  uint64_t other_ = 0;  // the other side's, when it was looked at last
  bool ended_ = false;
};

}  // namespace kilim::vhca::wire
