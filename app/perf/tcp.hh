// SPDX-License-Identifier: BSD-3-Clause
// A TCP connection on which whole messages of the exchange travel. Whoever waits lets the virtual
// device run meanwhile, and gives up in time. Owner: one side of a test; one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exchange.hh"
#include "kilim/base/fd.hh"
#include "kilim/base/result.hh"

namespace kilim::perf {

// What is done again and again while something is awaited; without a function the thread sleeps.
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
  // A server that is about to start is waited for.
  static Result<Tcp> connect(const std::string& host, uint16_t port, const Patience& patience);

  Status send(Kind kind, std::span<const uint8_t> payload, const Patience& patience);
  Result<Message> receive(const Patience& patience);
  // After the last message: what still comes is thrown away for a moment. Closing with unread bytes
  // would take the last message from the other side.
  void linger(const Patience& patience);

 private:
  explicit Tcp(Fd fd) noexcept : fd_(std::move(fd)) {}
  Status write_all(std::span<const uint8_t> bytes, const Patience& patience);
  Status read_all(std::span<uint8_t> bytes, const Patience& patience);
  Fd fd_;
};

}  // namespace kilim::perf
