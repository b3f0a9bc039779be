// SPDX-License-Identifier: BSD-3-Clause
// Event pipes. Reads and writes are raw system calls: a client may have interposed the library's.
// Adapter's lock held.
#include "vhca/uverbs/event_file.hh"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kilim::vhca::uverbs {

namespace {

// One event of either kind; an async event is the longer.
using Event = ib_uverbs_async_event_desc;
static_assert(sizeof(ib_uverbs_comp_event_desc) == 8 && sizeof(Event) == 16 &&
              offsetof(Event, element) == 0);

// A cookie and an entry of an event queue (mlx5_ib, devx.c, dispatch_event_fd()).
constexpr std::size_t devx_event_bytes = 8 + 64;

// A read end of our own, which the client's flags do not concern.
Fd reopen_read_end(int write_end) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", write_end);
  return Fd{
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0))};
}

// Two ends, the reader's first, of what keeps events apart: those of a pipe all have one length. An
// answer may be longer than a pipe takes in one piece (PIPE_BUF), and one read(2) gets one, however
// much room it has (Linux devx.c, devx_async_cmd_event_read()).
int make_ends(EventFile::Kind kind, int (&ends)[2]) {
  return kind == EventFile::Kind::devx_command
             ? ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)
             : ::pipe2(ends, O_CLOEXEC);
}

}  // namespace

Result<std::unique_ptr<EventFile>> EventFile::create(Kind kind, Fd& client_fd) {
  int ends[2];
  if (make_ends(kind, ends) != 0) return Error{errno, "no pipe for events"};
  Fd read_end{ends[0]};
  std::unique_ptr<EventFile> file{new EventFile(kind)};
  file->write_end_ = OwnFd{Fd{ends[1]}};
  struct stat st {};
  if (::syscall(SYS_fstat, ends[0], &st) != 0 || fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0)
    return Error{errno, "no pipe for events"};
  file->device_ = st.st_dev;
  file->inode_ = st.st_ino;
  client_fd = std::move(read_end);
  return file;
}

std::size_t EventFile::event_bytes() const noexcept {
  switch (kind_) {
    case Kind::async:
      return sizeof(Event);
    case Kind::devx_event:
      return devx_event_bytes;
    default:
      return sizeof(ib_uverbs_comp_event_desc);
  }
}

int EventFile::hold() noexcept {
  if (holders_ == 0) {
    read_end_ = OwnFd{reopen_read_end(write_end_.get())};
    if (!read_end_) return -errno;
  }
  holders_++;
  return 0;
}

void EventFile::let_go() noexcept {
  if (--holders_ == 0) read_end_.reset();
}

bool EventFile::abandoned() const noexcept {
  if (holders_ != 0 || !write_end_.ours()) return false;
  pollfd p{write_end_.get(), POLLOUT, 0};
  return syscall(SYS_poll, &p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP)) != 0;
}

bool EventFile::post(const void* event, std::size_t bytes) noexcept {
  if (!write_end_.ours()) return false;
  if (kind_ == Kind::devx_command)
    return syscall(SYS_sendto, write_end_.get(), event, bytes, MSG_NOSIGNAL, nullptr, 0) ==
           static_cast<long>(bytes);
  if (holders_ == 0) {
    // Nobody holds a read end here: one for as long as it takes, or a closed file would kill.
    if (abandoned()) return false;
    Fd held = reopen_read_end(write_end_.get());
    return held && syscall(SYS_write, write_end_.get(), event, bytes) == static_cast<long>(bytes);
  }
  return syscall(SYS_write, write_end_.get(), event, bytes) == static_cast<long>(bytes);
}

uint32_t EventFile::withdraw_posted(uint64_t element, uint32_t first_type, uint32_t last_type) {
  std::vector<Event> others;
  uint32_t taken = 0;
  Event e{};
  if (!read_end_.ours()) return 0;
  while (syscall(SYS_read, read_end_.get(), &e, event_bytes()) ==
         static_cast<long>(event_bytes())) {
    bool mine = e.element == element && (kind_ == Kind::completion ||
                                         (e.event_type >= first_type && e.event_type <= last_type));
    if (mine) {
      taken++;
    } else {
      others.push_back(e);
    }
  }
  for (const Event& other : others) post(&other, event_bytes());
  return taken;
}

}  // namespace kilim::vhca::uverbs
