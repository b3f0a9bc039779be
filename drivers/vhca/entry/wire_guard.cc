// SPDX-License-Identifier: BSD-3-Clause
// Source: epoll_ctl(2): a descriptor that is made of interest again is looked at, and wakes who
// waits if it is readable, so no frame is lost between a client's last look and the handing over.

#include "vhca/entry/wire_guard.hh"

#include <sched.h>
#include <sys/epoll.h>

#include "vhca/hca/hca.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::entry {

bool WireGuard::open() noexcept {
  asked_.reserve(64);
  watched_.reserve(64);
  events_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  return static_cast<bool>(events_);
}

bool WireGuard::change(int what, int fd, uint32_t events) noexcept {
  epoll_event e{};
  e.events = events;
  return ::epoll_ctl(events_.get(), what, fd, &e) == 0;
}

// A wire wakes the one that asked it last, and learns by the question that a thread will sleep.
void WireGuard::ask_wires(uint64_t& deadline_ns) noexcept {
  asked_.clear();
  hca_.wait_set(asked_, deadline_ns);
}

// Behind ask_wires(). A wire may name another descriptor than before: the one of its room, or one
// that is always readable.
void WireGuard::arm() noexcept {
  const State before = state_.exchange(State::armed, std::memory_order_relaxed);
  if (asked_ == watched_) {
    if (before == State::armed) return;
    for (const int fd : watched_) change(EPOLL_CTL_MOD, fd, EPOLLIN);
    return;
  }
  for (const int fd : watched_) change(EPOLL_CTL_DEL, fd, 0);
  watched_ = asked_;
  for (const int fd : watched_) change(EPOLL_CTL_ADD, fd, EPOLLIN);
}

bool WireGuard::prepare(uint64_t& deadline_ns) noexcept {
  if (!hca_.lock.try_lock()) return false;
  ask_wires(deadline_ns);
  if (arm_next_.exchange(false, std::memory_order_relaxed) || !hushed()) arm();
  hca_.lock.unlock();
  return true;
}

void WireGuard::woken() noexcept {
  if (!hca_.lock.try_lock()) return;  // the client that is in takes the frame
  uint64_t none = 0;
  ask_wires(none);
  hca_.lock.unlock();
}

void WireGuard::thread_found() noexcept {
  policy_.taken();
  if (hushed()) arm_next_.store(true, std::memory_order_relaxed);
}

void WireGuard::leave() noexcept {
  if (state_.load(std::memory_order_relaxed) == State::off) return;
  policy_.stopped();
  if (state_.exchange(State::off, std::memory_order_relaxed) == State::armed)
    for (const int fd : watched_) change(EPOLL_CTL_MOD, fd, 0);
}

// To ask a wire and look at it ends the sleep that it was asked about.
void WireGuard::hush() noexcept {
  policy_.taken_back();
  client_cpu_.store(::sched_getcpu(), std::memory_order_relaxed);
  for (const int fd : watched_) change(EPOLL_CTL_MOD, fd, 0);
  uint64_t none = 0;
  ask_wires(none);
  for (const ethernet::EthPort& port : hca_.eth.ports)
    if (port.wire != nullptr) (void)port.wire->peek();
  state_.store(State::hushed, std::memory_order_relaxed);
}

void WireGuard::arm_for_client() noexcept {
  if (!hca_.lock.try_lock()) {  // the thread is in, and prepares its sleep behind that
    arm_next_.store(true, std::memory_order_relaxed);
    return;
  }
  if (hushed() && policy_.hands_over()) {
    uint64_t none = 0;
    ask_wires(none);
    arm();
  }
  hca_.lock.unlock();
}

// The kernel's object is the parent's too, so nothing is changed in it.
void WireGuard::after_fork_in_child() noexcept {
  events_.reset();
  state_.store(State::off, std::memory_order_relaxed);
}

}  // namespace kilim::vhca::entry
