// SPDX-License-Identifier: BSD-3-Clause
// The note, and proc(5), /proc/PID/stat.
#include "vhca/wire/residents.hh"

#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "kilim/detail/base/fd.hh"

namespace kilim::vhca::wire {

namespace {

struct ProcessState {
  char letter = 'X';
  unsigned long long start = 0;
};

// 'X': there is none of this number, or no /proc.
ProcessState state_of(uint32_t pid) noexcept {
  char text[1024];
  std::snprintf(text, sizeof(text), "/proc/%u/stat", pid);
  const Fd file(::open(text, O_RDONLY | O_CLOEXEC));
  const ssize_t n = file ? ::read(file.get(), text, sizeof(text) - 1) : 0;
  ProcessState state;
  if (n <= 0) return state;
  text[n] = '\0';
  const char* behind_name = std::strrchr(text, ')');
  constexpr const char* fields =
      ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu";
  if (behind_name == nullptr || std::sscanf(behind_name, fields, &state.letter, &state.start) != 2)
    return {};
  return state;
}

uint64_t random_life() noexcept {
  uint64_t life = 0;
  if (::getrandom(&life, sizeof(life), GRND_NONBLOCK) != sizeof(life)) {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    life = static_cast<uint64_t>(t.tv_nsec) << 32 ^ static_cast<uint64_t>(t.tv_sec);
    life ^= static_cast<uint64_t>(::getpid()) << 40;
  }
  return life == 0 ? 1 : life;
}

}  // namespace

Resident resident_here(const Mac& mac, uint32_t slot) noexcept {
  Resident r;
  r.life = random_life();
  r.pid = static_cast<uint32_t>(::getpid());
  r.start = state_of(r.pid).start;
  r.slot = static_cast<uint16_t>(slot);
  r.mac = mac;
  return r;
}

std::vector<Resident> residents_of(Wire& wire, bool& whole) {
  const std::vector<std::byte> notes = wire.notes_of_others(resident_note);
  std::vector<Resident> all(notes.size() / sizeof(Resident));
  if (!all.empty()) std::memcpy(all.data(), notes.data(), all.size() * sizeof(Resident));
  // Two, as one look at a slot needs at a time.
  const Fd one(::open("/", O_PATH | O_CLOEXEC)), two(::open("/", O_PATH | O_CLOEXEC));
  whole = one && two;
  return all;
}

bool is_stopped(const Resident& r) noexcept {
  const ProcessState state = state_of(r.pid);
  return (state.letter == 'T' || state.letter == 't') && state.start == r.start;
}

}  // namespace kilim::vhca::wire
