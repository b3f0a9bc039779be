// SPDX-License-Identifier: BSD-3-Clause
// Tcp: a connection for whole messages of the exchange. Every wait runs an idle function, which
// runs a virtual device, and has a time limit. Owner: one side of a test; one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kilim/detail/base/fd.hh"
#include "kilim/result.hh"
#include "perf/two_sided/exchange.hh"

namespace kilim::perf {

// The function that a wait calls again and again; empty: the thread sleeps.
struct Idle {
  void (*run)(void*) = nullptr;
  void* arg = nullptr;
};

struct Patience {
  std::chrono::milliseconds limit{10'000};  // zero: none
  Idle idle;
};

struct Message {
  Kind kind{};
  std::vector<uint8_t> payload;
};

class Tcp {
 public:
  // Waits for one client, without a limit.
  static Result<Tcp> accept_one(uint16_t port, const Idle& idle);
  // Connects; waits for a server that has not started yet.
  static Result<Tcp> connect(const std::string& host, uint16_t port, const Patience& patience);

  Status send(Kind kind, std::span<const uint8_t> payload, const Patience& patience);
  Result<Message> receive(const Patience& patience);
  // Called after the last message: discards incoming bytes for a moment. Closing a socket with
  // unread bytes resets the connection, and the other side could lose the last message.
  void linger(const Patience& patience);

 private:
  explicit Tcp(Fd fd) noexcept : fd_(std::move(fd)) {}
  Status write_all(std::span<const uint8_t> bytes, const Patience& patience);
  Status read_all(std::span<uint8_t> bytes, const Patience& patience);
  Fd fd_;
};

}  // namespace kilim::perf
