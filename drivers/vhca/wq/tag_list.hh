// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Tag Matching". The list that a shared receive queue matches tags against, in the order in
// which entries were appended. Entries that come while messages wait that software has not handled
// are matched only when it has. Owner: its queue; adapter's lock held. Never allocates once made.
#pragma once

#include <cstdint>
#include <vector>

namespace kilim::vhca::wq {

// A buffer that waits for a tag; host order.
struct TagBuffer {
  uint64_t tag = 0, mask = 0;
  uint64_t addr = 0, bytes = 0;
  uint32_t key = 0;
};

class TagList {
 public:
  explicit TagList(uint32_t entries) : entries_(entries) {}

  // Puts a buffer where the last append said that this one goes; `next` says it of the next one.
  // False: the place is taken, or `next` is none.
  bool append(const TagBuffer&, uint32_t next) noexcept;
  // The place of the entry that is appended next.
  [[nodiscard]] uint16_t next() const noexcept { return next_; }
  // The place of the entry appended last.
  [[nodiscard]] uint16_t last() const noexcept { return last_; }
  // False: there is no such entry, or not any more.
  bool remove(uint32_t place) noexcept;
  // The oldest entry for that tag, or `none`.
  static constexpr uint32_t none = ~0u;
  [[nodiscard]] uint32_t find(uint64_t tag) const noexcept;
  [[nodiscard]] const TagBuffer& at(uint32_t place) const noexcept {
    return entries_[place].buffer;
  }

  // Unexpected messages: those that came, and those that software says it has handled.
  [[nodiscard]] uint16_t came() const noexcept { return came_; }
  void count_unexpected() noexcept { came_++; }
  void handled(uint16_t count) noexcept;
  [[nodiscard]] uint16_t handled() const noexcept { return handled_; }

 private:
  static constexpr uint16_t end = 0xffff;
  struct Entry {
    TagBuffer buffer;
    bool used = false, waits = false;  // waits: for software to handle messages
    uint16_t before = end, behind = end;
  };
  std::vector<Entry> entries_;
  uint16_t oldest_ = end, newest_ = end;
  uint16_t next_ = 0, last_ = 0;
  uint16_t came_ = 0, handled_ = 0;
};

}  // namespace kilim::vhca::wq
