// SPDX-License-Identifier: BSD-3-Clause
// Control: runs a forwarder until a signal, the time or the number of packets ends it; then drains
// it and returns the final report. Main lcore; with a single lcore it is one more poller of that
// lcore.
#pragma once

#include <cstdint>

#include "forwarder.hh"
#include "rates.hh"
#include "stats.hh"

namespace kilim::testpmd {

// Set by SIGINT and SIGTERM from then on.
extern bool volatile stop_requested;
void catch_signals() noexcept;

// CLOCK_MONOTONIC. Any thread.
uint64_t monotonic_ns() noexcept;

class Control {
 public:
  Control(Forwarder& forwarder, const Options& options, std::FILE* live) noexcept
      : forwarder_(forwarder), options_(options), live_(live) {}

  // Blocks until the run is over and all lanes have ended.
  Report run();
  // A run in parts, for a main lcore that has other work meanwhile and does not forward: begin(),
  // tick() every few milliseconds until over(), end(), which ends the run if it goes on.
  void begin() noexcept;
  void tick() noexcept;
  [[nodiscard]] bool over() const noexcept { return state_ == State::done; }
  Report end();
  // True: the run ended because a device died.
  [[nodiscard]] bool lost() const noexcept { return lost_; }

 private:
  enum class State : uint8_t { running, draining, done };

  void ask_end() noexcept { end_asked_ = true; }
  static void rest() noexcept;
  void show(uint64_t now) noexcept;
  State while_running(uint64_t now) noexcept;
  State while_draining(uint64_t now) noexcept;
  [[nodiscard]] bool enough() noexcept;
  void revive_queues() noexcept;
  [[nodiscard]] bool lost_a_device() noexcept;
  static uint32_t poll(void* self, uint32_t) noexcept;
  static bool watch(void* self, worker::WaitSet& set) noexcept;
  static constexpr worker::Waiting waiting{nullptr, watch, nullptr};

  Forwarder& forwarder_;
  const Options& options_;
  std::FILE* live_;
  State state_ = State::running;
  bool lost_ = false;
  bool end_asked_ = false;
  uint64_t started_ = 0;   // nanoseconds
  uint64_t ended_ = 0;     // when draining began
  uint64_t deadline_ = 0;  // of draining
  uint64_t next_tick_ = 0;
  uint64_t next_print_ = 0;
  uint64_t next_sample_ = 0;
  Rates rates_;
  bool drawn_ = false;        // a screen
  uint64_t queues_down_ = 0;  // said
  uint64_t recoveries_ = 0;   // said
  uint64_t cq_overruns_ = 0;  // said
};

}  // namespace kilim::testpmd
