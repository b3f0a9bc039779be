// SPDX-License-Identifier: BSD-3-Clause
// Frames in a bounded ring of bytes between two threads: each lies in one piece behind its length.
// One thread puts, one takes; either moves one frame at a time, or many in place (Writer, Reader),
// with one store of its index for all. Never allocates but when it is made.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "kilim/detail/base/fd.hh"

namespace kilim::vhca::wire {

class FrameRing {
 public:
  FrameRing();
  // False: no room.
  bool put(std::span<const std::byte> frame) noexcept;
  std::span<const std::byte> front() noexcept;
  void pop() noexcept;
  void clear() noexcept;  // the taker's
  // The taker is about to sleep: the next put, or one that was not seen, makes fd() readable.
  int arm() noexcept;
  void disarm() noexcept;

  static constexpr std::size_t bytes = 1u << 19;

  class Writer;
  class Reader;

 private:
  // This length says that the rest of the ring is empty.
  static constexpr uint32_t wrap_mark = ~0u;
  static constexpr std::size_t length_bytes = 8;  // keeps records aligned
  static constexpr std::size_t record_bytes(std::size_t frame) noexcept {
    return length_bytes + (frame + 7) / 8 * 8;
  }
  void show(uint64_t tail) noexcept;  // the putter's
  // Calls `f` with each frame from one place to another, which are all in the ring.
  template <typename F>
  static void each(const std::byte* mem, uint64_t from, uint64_t to, F&& f) noexcept {
    while (from != to) {
      const std::byte* const record = mem + from % bytes;
      uint32_t length;
      std::memcpy(&length, record, sizeof(length));
      if (length == wrap_mark) {
        from += bytes - from % bytes;
        continue;
      }
      f(std::span<const std::byte>(record + length_bytes, length));
      from += record_bytes(length);
    }
  }

  std::unique_ptr<std::byte[]> mem_;
  Fd event_;
  alignas(64) std::atomic<uint64_t> tail_{0};  // the putter's
  alignas(64) std::atomic<uint64_t> head_{0};  // the taker's
  std::atomic<bool> asleep_{false};
};

// Puts many: what is kept is seen by the taker from show() on.
class FrameRing::Writer {
 public:
  explicit Writer(FrameRing& ring) noexcept
      : ring_(ring), mem_(ring.mem_.get()), tail_(ring.tail_.load(std::memory_order_relaxed)) {}

  // Where the next frame goes. False: there is no room.
  [[nodiscard, gnu::always_inline]] bool room(uint32_t frame, std::byte*& to) noexcept {
    const std::size_t need = record_bytes(frame);
    std::size_t at = tail_ % bytes;
    next_ = tail_ + need;
    if (next_ > limit_) [[unlikely]] {
      if (!go_round(at, need)) return false;
    }
    std::byte* const record = mem_ + at;
    std::memcpy(record, &frame, sizeof(frame));
    to = record + length_bytes;
    return true;
  }
  // The frame is there.
  void keep() noexcept { tail_ = next_; }
  // Where the next records go in one piece, as many bytes as there are and as are known of: more
  // than `wanted` need not be. Each is a frame `length_ahead` bytes behind its length, of four
  // bytes.
  [[nodiscard]] std::span<std::byte> piece(std::size_t wanted) noexcept {
    if (tail_ + wanted > limit_) look_ahead();
    return {mem_ + tail_ % bytes, limit_ - tail_};
  }
  // So many bytes of records are there.
  void keep_rows(std::size_t n) noexcept { tail_ += n; }
  static constexpr std::size_t length_ahead = length_bytes;
  // How far a frame of that length is from the next one.
  [[nodiscard]] static constexpr std::size_t step_of(std::size_t frame) noexcept {
    return record_bytes(frame);
  }
  // Where the writer stands, and back to there: what was kept since, and not shown, is gone.
  [[nodiscard]] uint64_t mark() const noexcept { return tail_; }
  void back(uint64_t mark) noexcept {
    tail_ = mark;
    limit_ = 0;
  }
  void show() noexcept { ring_.show(tail_); }
  // Calls `f` with each frame that was kept since then and was not shown.
  template <typename F>
  void each_since(uint64_t mark, F&& f) const noexcept {
    each(mem_, mark, tail_, f);
  }

 private:
  // At the end of the ring, where it seems full, or nobody knows. True: there is room at `at`.
  bool go_round(std::size_t& at, std::size_t need) noexcept;
  // How far the tail may go in one piece.
  void look_ahead() noexcept;

  FrameRing& ring_;
  std::byte* const mem_;
  uint64_t tail_;
  uint64_t limit_ = 0;  // tail_ may go up to there in one piece; 0: not known
  uint64_t next_ = 0;
};

// Takes many: what is taken is the putter's room from release() on.
class FrameRing::Reader {
 public:
  explicit Reader(FrameRing& ring) noexcept
      : ring_(ring),
        mem_(ring.mem_.get()),
        head_(ring.head_.load(std::memory_order_relaxed)),
        tail_(ring.tail_.load(std::memory_order_acquire)) {}

  // Empty: none.
  std::span<const std::byte> front() noexcept {
    if (head_ == tail_) return {};
    uint32_t length = length_at(head_ % bytes);
    if (length == wrap_mark) [[unlikely]] {
      head_ += bytes - head_ % bytes;
      length = length_at(0);
    }
    return {mem_ + head_ % bytes + length_bytes, length};
  }
  // The next four frames where all have that length and lie in one piece, each `step` bytes behind
  // the other; else null.
  [[nodiscard, gnu::always_inline]] const std::byte* four(uint32_t frame,
                                                          std::size_t step) const noexcept {
    const std::size_t at = head_ % bytes;
    if (tail_ - head_ < 4 * step || bytes - at < 4 * step) return nullptr;
    const std::byte* record = mem_ + at;
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; i++, record += step) {
      uint32_t length;
      std::memcpy(&length, record, sizeof(length));
      if (length != frame) return nullptr;
    }
    return mem_ + at + length_bytes;
  }
  // What lies there in one piece, records of a frame behind `length_ahead` bytes, of which the
  // first four are its length. As many bytes as there are; a wrap mark may be the first length.
  [[nodiscard]] std::span<const std::byte> piece() const noexcept {
    const std::size_t at = head_ % bytes;
    return {mem_ + at, std::min<std::size_t>(tail_ - head_, bytes - at)};
  }
  static constexpr std::size_t length_ahead = length_bytes;
  // How far a frame of that length is from the next one.
  [[nodiscard]] static std::size_t step_of(std::size_t frame) noexcept {
    return record_bytes(frame);
  }
  // Of the frame that front() showed.
  void pop(std::size_t frame) noexcept {
    head_ += record_bytes(frame);
  }
  // Of frames that four() or piece() showed.
  void pop_rows(std::size_t frames, std::size_t step) noexcept {
    head_ += frames * step;
  }
  // Where the reader stands; and each frame that was taken since then, before release().
  [[nodiscard]] uint64_t mark() const noexcept {
    return head_;
  }
  template <typename F>
  void each_since(uint64_t mark, F&& f) const noexcept {
    each(mem_, mark, head_, f);
  }
  void release() noexcept {
    ring_.head_.store(head_, std::memory_order_release);
  }

 private:
  [[nodiscard]] uint32_t length_at(std::size_t at) const noexcept {
    uint32_t length;
    std::memcpy(&length, mem_ + at, sizeof(length));
    return length;
  }

  FrameRing& ring_;
  const std::byte* const mem_;
  uint64_t head_;
  const uint64_t tail_;
};

}  // namespace kilim::vhca::wire
