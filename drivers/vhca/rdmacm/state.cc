// SPDX-License-Identifier: BSD-3-Clause
// The one state of the process, its locks, and fork.
#include "vhca/rdmacm/state.hh"

#include <time.h>
#include <unistd.h>

#include "vhca/rdmacm/cm_file.hh"
#include "vhca/rdmacm/steps.hh"

namespace kilim::vhca::rdmacm {

namespace {

std::atomic<pid_t> owner{0};  // whose adapters these are: a child of vfork() has them too
State* the_state = nullptr;   // made with the first adapter or file, never destroyed
pthread_mutex_t state_lock = PTHREAD_MUTEX_INITIALIZER;
std::atomic<Adapter*> adapters{nullptr};

State& state() noexcept {
  if (the_state == nullptr) the_state = new State;
  return *the_state;
}

}  // namespace

Adapter* first_adapter() noexcept {
  return adapters.load(std::memory_order_acquire);
}

// New adapters come to the front: who has the list holds locks of a tail of it, in its order.
Locked::Locked() noexcept : first_(first_adapter()) {
  for (Adapter* a = first_; a != nullptr; a = a->next) a->hca.lock.lock();
  pthread_mutex_lock(&state_lock);
}
Locked::~Locked() {
  pthread_mutex_unlock(&state_lock);
  for (Adapter* a = first_; a != nullptr; a = a->next) a->hca.lock.unlock();
}
State& Locked::operator*() const noexcept {
  return state();
}
State* Locked::operator->() const noexcept {
  return &state();
}

TryLocked::TryLocked() noexcept : first_(first_adapter()) {
  constexpr timespec pause{0, 1'000'000};
  constexpr int tries = 50;
  for (int i = 0; i < tries && !all_; i++) {
    if (i > 0) ::nanosleep(&pause, nullptr);
    all_ = take();
  }
}
bool TryLocked::take() noexcept {
  for (Adapter* a = first_; a != nullptr; a = a->next) {
    if (a->hca.lock.try_lock()) continue;
    leave(a);
    return false;
  }
  if (pthread_mutex_trylock(&state_lock) == 0) return true;
  leave(nullptr);
  return false;
}
void TryLocked::leave(const Adapter* end) noexcept {
  for (Adapter* a = first_; a != end; a = a->next) a->hca.lock.unlock();
}
TryLocked::~TryLocked() {
  if (!all_) return;
  pthread_mutex_unlock(&state_lock);
  leave(nullptr);
}
State& TryLocked::operator*() const noexcept {
  return state();
}

StateLocked::StateLocked() noexcept {
  pthread_mutex_lock(&state_lock);
}
StateLocked::~StateLocked() {
  pthread_mutex_unlock(&state_lock);
}
State& StateLocked::operator*() const noexcept {
  return state();
}
State* StateLocked::operator->() const noexcept {
  return &state();
}

// xorshift64*: the seed is where the state lies and when, so that two processes differ.
uint32_t random_number(State& s) noexcept {
  if (s.mixed == 0) {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    s.mixed = static_cast<uint64_t>(t.tv_nsec) << 20 ^ reinterpret_cast<uint64_t>(&s) ^
              static_cast<uint64_t>(::getpid()) << 40 ^ 1;
  }
  s.mixed ^= s.mixed >> 12;
  s.mixed ^= s.mixed << 25;
  s.mixed ^= s.mixed >> 27;
  return static_cast<uint32_t>(s.mixed * 0x2545f4914f6cdd1du >> 32);
}

void add_adapter(hca::Hca& hca) {
  auto* adapter = new Adapter(hca);
  // Under the list's lock of who makes adapters: one comes at a time.
  adapter->next = first_adapter();
  adapters.store(adapter, std::memory_order_release);
  Locked all;
  owner.store(::getpid(), std::memory_order_relaxed);
  listen_too(*all, *adapter);
}

void hide_adapter(hca::Hca& hca) noexcept {
  for (Adapter* a = first_adapter(); a != nullptr; a = a->next) {
    if (&a->hca == &hca) a->hidden.store(true, std::memory_order_relaxed);
  }
}

void before_fork() noexcept {
  pthread_mutex_lock(&state_lock);
}
void after_fork_in_parent() noexcept {
  pthread_mutex_unlock(&state_lock);
}
bool is_own_process() noexcept {
  return owner.load(std::memory_order_relaxed) == ::getpid();
}

// The parent's objects stay where they are: its engines may be halfway through them.
void after_fork_in_child() noexcept {
  pthread_mutex_init(&state_lock, nullptr);
  the_state = nullptr;
  adapters.store(nullptr, std::memory_order_relaxed);
}

}  // namespace kilim::vhca::rdmacm
