// SPDX-License-Identifier: BSD-3-Clause
// Reads "start-end rwxs ..." lines, in the order of addresses.
#include "vhca/tpt/memory_map.hh"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kilim::vhca::tpt {

namespace {

// The file byte by byte, through a window.
class Reader {
 public:
  Reader() noexcept
      : fd_(static_cast<int>(
            ::syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0))) {}
  ~Reader() {
    if (fd_ >= 0) ::syscall(SYS_close, fd_);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  // -1: at the end.
  int next() noexcept {
    if (at_ == end_) {
      end_ = fd_ < 0 ? 0 : ::read(fd_, window_, sizeof(window_));
      at_ = 0;
      if (end_ <= 0) return -1;
    }
    return static_cast<unsigned char>(window_[at_++]);
  }

 private:
  int fd_;
  ssize_t at_ = 0, end_ = 0;
  char window_[4096];
};

int digit(int c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Up to the character behind it, which is returned.
int read_hex(Reader& in, uint64_t& value) noexcept {
  int c = in.next();
  for (value = 0; digit(c) >= 0; c = in.next())
    value = value << 4 | static_cast<uint64_t>(digit(c));
  return c;
}

}  // namespace

bool find_mapping(uint64_t va, PageRange& mapping) noexcept {
  MappingKind kind;
  return find_mapping(va, mapping, kind);
}

bool find_mapping(uint64_t va, PageRange& mapping, MappingKind& kind) noexcept {
  Reader in;
  while (read_hex(in, mapping.start) == '-') {
    int c = read_hex(in, mapping.end);
    if (mapping.end > va) {
      kind.may_read = in.next() == 'r';
      kind.may_write = in.next() == 'w';
      kind.may_execute = in.next() == 'x';
      kind.shared = in.next() == 's';
      return true;
    }
    while (c != '\n' && c >= 0) c = in.next();
  }
  return false;
}

}  // namespace kilim::vhca::tpt
