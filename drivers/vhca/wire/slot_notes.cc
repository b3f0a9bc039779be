// SPDX-License-Identifier: BSD-3-Clause
// Notes of a folder's ports, a file each: "note-000000000106701b-7" is what slot 7 has to say.
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "vhca/wire/own_files.hh"
#include "vhca/wire/slots.hh"

namespace kilim::vhca::wire {

namespace {

constexpr int note_flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
constexpr std::size_t most_note_bytes = 1u << 16;

struct NoteFile {
  char name[40];
  NoteFile(uint64_t of, uint32_t slot) noexcept {
    std::snprintf(name, sizeof(name), "note-%016llx-%u", static_cast<unsigned long long>(of), slot);
  }
};

}  // namespace

void Slots::leave_note(uint64_t name, std::span<const std::byte> note) noexcept {
  const NoteFile file(name, own_);
  if (note.empty()) {
    (void)!unlinkat(folder_.get(), file.name, 0);
    return;
  }
  const Fd fd(openat(folder_.get(), file.name, O_WRONLY | O_CREAT | O_TRUNC | note_flags, 0600));
  if (fd) (void)!pwrite(fd.get(), note.data(), note.size(), 0);
}

// A killed process leaves its notes, but nobody behind them.
std::vector<std::byte> Slots::notes_of_others(uint64_t name) {
  std::vector<std::byte> notes;
  for (uint32_t slot = 0; reaches(slot); slot++) {
    if (slot == own_) continue;
    const Fd fd(openat(folder_.get(), NoteFile(name, slot).name, O_RDONLY | note_flags));
    if (!fd || !is_own_file(fd.get()) || !lives(slot)) continue;
    const std::size_t before = notes.size();
    notes.resize(before + most_note_bytes);
    const ssize_t n = pread(fd.get(), notes.data() + before, most_note_bytes, 0);
    notes.resize(before + static_cast<std::size_t>(n > 0 ? n : 0));
  }
  return notes;
}

Fd Slots::hold_notes() noexcept {
  constexpr timespec pause{0, 1'000'000};
  constexpr int tries = 200;
  Fd fd(openat(folder_.get(), "notes", O_RDWR | O_CREAT | note_flags, 0600));
  for (int i = 0; fd && i < tries; i++) {
    if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
    if (errno != EWOULDBLOCK) break;
    ::nanosleep(&pause, nullptr);
  }
  return {};
}

}  // namespace kilim::vhca::wire
