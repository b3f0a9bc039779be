// SPDX-License-Identifier: BSD-3-Clause
#include "control.hh"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include <rte_launch.h>
#include <rte_lcore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "screen.hh"

namespace kilim::testpmd {

bool volatile stop_requested = false;

namespace {

constexpr uint64_t second = 1'000'000'000;
constexpr uint64_t tick_every = second / 1000;
constexpr uint64_t asleep_look = second / 100;
constexpr uint64_t drain_at_most = second;

void on_signal(int) {
  stop_requested = true;
}

int run_lane(void* worker) {
  static_cast<worker::Worker*>(worker)->run();
  return 0;
}

double seconds(uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

}  // namespace

uint64_t monotonic_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * second + static_cast<uint64_t>(t.tv_nsec);
}

void catch_signals() noexcept {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool Control::enough() noexcept {
  if (options_.num_packets == 0) return false;
  uint64_t sum = 0;
  for (Lane& lane : forwarder_.lanes())
    for (const auto& s : lane.streams) sum += s->forwarded.read() + s->dropped.read();
  return sum >= options_.num_packets;
}

// Queues that an error ended are brought back to work; nobody should be unknowing of it.
void Control::revive_queues() noexcept {
  uint64_t back = 0;
  uint64_t down = 0;
  uint64_t overruns = 0;
  for (const PortRef& p : forwarder_.ports()) {
    if (p.native == nullptr || !p.native->started()) continue;
    p.native->revive(forwarder_.alone() ? nullptr : &forwarder_.quiescence());
    const port::PortStats s = p.native->stats();
    back += s.recoveries;
    down += s.queues_down;
    overruns += s.cq_overruns;
  }
  if (overruns > cq_overruns_) {
    cq_overruns_ = overruns;
    std::fprintf(stderr,
                 "kilim-testpmd: %" PRIu64
                 " completion queue(s) ran over so far (IBV_EVENT_CQ_ERR); their queues stay down "
                 "until their port is stopped and started\n",
                 overruns);
  }
  if (back > recoveries_) {
    recoveries_ = back;
    std::fprintf(stderr,
                 "kilim-testpmd: queues ended by an error and brought back: %" PRIu64
                 " so far, with the loss of what they held: see RX-errors and TX-errors\n",
                 back);
  }
  if (down <= queues_down_) return;
  queues_down_ = down;
  std::fprintf(stderr,
               "kilim-testpmd: %" PRIu64 " queue(s) ended by an error forward nothing for now\n",
               down);
}

bool Control::lost_a_device() noexcept {
  for (const PortRef& p : forwarder_.ports()) {
    if (p.native == nullptr || lost_ || !p.native->device().lost()) continue;
    lost_ = true;
    std::fprintf(
        stderr, "kilim-testpmd: %s has lost its device %s (IBV_EVENT_DEVICE_FATAL): the run ends\n",
        p.native->name().c_str(), p.native->device().name());
  }
  return lost_;
}

// A screen has a page each second; a pipe gets lines as with --stats-period.
void Control::show(uint64_t now) noexcept {
  if (now >= next_sample_) {
    next_sample_ = now + second;
    rates_.sample(forwarder_, now);
    if (options_.screen && !options_.interactive && isatty(fileno(live_)) != 0) {
      draw_screen(
          screen_of(collect(forwarder_, seconds(now - started_), rates_), rates_, screen_look()),
          !drawn_);
      drawn_ = true;
    }
  }
  if (next_print_ == 0 || now < next_print_ || drawn_) return;
  next_print_ = now + std::max(1u, options_.stats_period) * second;
  print_text(live_, collect(forwarder_, seconds(now - started_), rates_), "statistics");
}

Control::State Control::while_running(uint64_t now) noexcept {
  if (!lost_a_device()) revive_queues();
  show(now);
  const bool over =
      end_asked_ || (options_.duration != 0 && now - started_ >= options_.duration * second);
  if (!stop_requested && !over && !lost_ && !enough()) return State::running;
  ended_ = now;
  rates_.sample(forwarder_, now);
  deadline_ = now + drain_at_most;
  forwarder_.drain();
  return State::draining;
}

Control::State Control::while_draining(uint64_t now) noexcept {
  if (!forwarder_.drained() && now < deadline_) return State::draining;
  forwarder_.stop();
  return State::done;
}

void Control::tick() noexcept {
  const uint64_t now = monotonic_ns();
  if (now < next_tick_) return;
  next_tick_ = now + tick_every;
  if (state_ == State::running)
    state_ = while_running(now);
  else if (state_ == State::draining)
    state_ = while_draining(now);
}

uint32_t Control::poll(void* self, uint32_t) noexcept {
  static_cast<Control*>(self)->tick();
  return 0;
}

// A lane that sleeps looks less often; a signal ends its sleep.
bool Control::watch(void*, worker::WaitSet& set) noexcept {
  set.until(monotonic_ns() + asleep_look);
  return true;
}

void Control::begin() noexcept {
  state_ = State::running;
  started_ = monotonic_ns();
  if (options_.stats_period != 0 || options_.screen)
    next_print_ = started_ + std::max(1u, options_.stats_period) * second;
  next_sample_ = started_ + second;
  rates_.begin(forwarder_, started_);
  if (forwarder_.alone()) return;
  for (Lane& lane : forwarder_.lanes())
    rte_eal_remote_launch(run_lane, lane.worker.get(), lane.lcore);
}

void Control::rest() noexcept {
  const timespec pause{0, static_cast<long>(tick_every)};
  nanosleep(&pause, nullptr);
}

Report Control::end() {
  ask_end();
  while (state_ != State::done) {
    tick();
    rest();
  }
  rte_eal_mp_wait_lcore();
  return collect(forwarder_, seconds(ended_ - started_), rates_);
}

Report Control::run() {
  begin();
  if (!forwarder_.alone()) {
    while (state_ != State::done) {
      tick();
      rest();
    }
    return end();
  }
  worker::Worker& only = *forwarder_.lanes()[0].worker;
  (void)only.add({poll, this, "control", &waiting});
  only.run();
  return collect(forwarder_, seconds(ended_ - started_), rates_);
}

}  // namespace kilim::testpmd
