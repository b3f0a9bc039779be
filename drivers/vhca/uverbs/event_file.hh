// SPDX-License-Identifier: BSD-3-Clause
// A completion channel or an asynchronous event file: a pipe whose read end the client owns, or a
// pair of sockets for answers of commands, which have any length. While
// queues report here a read end of our own is held, so that a write never raises SIGPIPE and unread
// events of a destroyed queue can be taken back. Adapter's lock held; post() never blocks, and
// never writes into a file of the client's that has the descriptor's number by now.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <sys/types.h>

#include "kilim/detail/base/fd.hh"
#include "kilim/detail/base/result.hh"
#include "vhca/core/own_fd.hh"

namespace kilim::vhca::uverbs {

class EventFile {
 public:
  // devx_event: of firmware commands' objects; devx_bare: the same, cookies alone; devx_command:
  // answers of commands.
  enum class Kind : uint8_t { completion, async, devx_event, devx_bare, devx_command };

  // `client_fd` is the client's to close.
  static Result<std::unique_ptr<EventFile>> create(Kind kind, Fd& client_fd);

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  // Whether `fd` of the client is a descriptor of this file.
  [[nodiscard]] bool is(dev_t device, ino_t inode) const noexcept {
    return device == device_ && inode == inode_;
  }
  // A queue begins or ends to report here. hold(): 0 or a negative errno.
  int hold() noexcept;
  void let_go() noexcept;
  // The client has closed every read end, and no queue reports here.
  [[nodiscard]] bool abandoned() const noexcept;

  // Whether the event was taken; not if the pipe is full or nobody can read it.
  bool post(const void* event, std::size_t bytes) noexcept;

  // Takes back the unread events whose first 8 bytes are `element`, and, of an async file, whose
  // type lies in [first_type, last_type]. How many.
  uint32_t withdraw_posted(uint64_t element, uint32_t first_type, uint32_t last_type);

 private:
  explicit EventFile(Kind kind) noexcept : kind_(kind) {}
  [[nodiscard]] std::size_t event_bytes() const noexcept;

  Kind kind_;
  OwnFd write_end_;
  OwnFd read_end_;
  uint32_t holders_ = 0;  // queues that report here
  dev_t device_ = 0;      // of the read end: the client's descriptor is known by it
  ino_t inode_ = 0;
};

}  // namespace kilim::vhca::uverbs
