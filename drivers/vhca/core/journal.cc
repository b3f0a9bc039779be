// SPDX-License-Identifier: BSD-3-Clause
// Lines of the journal: a table says what each kind's values are called; text and JSON print the
// same table. Runs under the adapter's lock. Never allocates but to open.
#include "vhca/core/journal.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "kilim/prm/opcode.hh"

namespace kilim::vhca {

namespace {

struct Event {
  const char* name;       // as lines and the summary call it
  const char* values[5];  // what its numbers are called; null behind the last
};

// In the order of Journal::Kind.
// clang-format off
constexpr Event events[] = {
    {"wqe",        {"qp", "index", "opcode", "ds", nullptr}},
    {"recv",       {"qp", "index", "bytes", nullptr, nullptr}},
    {"translated", {"key", "pieces", "bytes", nullptr, nullptr}},
    {"umr",        {"key", "entries", "bytes", "mask", nullptr}},
    {"invalidate", {"key", nullptr, nullptr, nullptr, nullptr}},
    {"cqe",        {"cq", "qp", "opcode", "index", "bytes"}},
    {"error",      {"qp", "syndrome", "vendor", "index", nullptr}},
    {"async",      {"type", "number", nullptr, nullptr, nullptr}},
    {"command",    {"opcode", "status", "syndrome", nullptr, nullptr}},
    {"frame_out",  {"port", "bytes", nullptr, nullptr, nullptr}},
    {"frame_in",   {"port", "bytes", nullptr, nullptr, nullptr}},
    {"frame_drop", {"port", "bytes", nullptr, nullptr, nullptr}},
    {"fault",      {"address", "bytes", nullptr, nullptr, nullptr}},
    {"unexecuted", {"qp", "wqe", nullptr, nullptr, nullptr}},
    {"page_fault", {"address", "pages", nullptr, nullptr, nullptr}},
    {"page_invalidation", {"address", "pages", nullptr, nullptr, nullptr}},
    {"page_prefetch", {"key", "address", "pages", nullptr, nullptr}},
    {"sign_error", {"key", "domain", "syndrome", "offset", nullptr}},
    {"lint",       {"qp", "index", nullptr, nullptr, nullptr}},
    {"tag",        {"srq", "news", "entry", "bytes", "unexpected"}},
    {"explained",  {"qp", "index", "key", "at", "bytes"}},
    {"refused",    {"errno", "asked", "limit", nullptr, nullptr}},
};
// clang-format on
static_assert(std::size(events) == Journal::kinds);

// A write to a pipe whose reader has gone must not kill the client: SIGPIPE waits while this lives
// and goes with it, unless one waited before.
class NoPipeSignal {
 public:
  NoPipeSignal() noexcept {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t waiting;
    sigpending(&waiting);
    theirs_ = sigismember(&waiting, SIGPIPE) == 1;
    // A write to a broken pipe signals the writing thread (pipe(7)): its mask is enough.
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    constexpr timespec at_once{0, 0};
    if (!theirs_) (void)sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_, before_;
  bool theirs_;
};

// 0, or why not all of it was written.
int write_all(int fd, const char* text, std::size_t bytes) noexcept {
  const NoPipeSignal guard;
  while (bytes > 0) {
    const ssize_t n = ::write(fd, text, bytes);
    if (n >= 0) {
      text += n;
      bytes -= static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      // A pipe is full. Its reader gets this long: the adapter's lock is held meanwhile.
      pollfd room{fd, POLLOUT, 0};
      if (::poll(&room, 1, Journal::patience_ms) == 0) return EAGAIN;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

// A line under construction; what does not fit is cut, the newline always fits.
class Journal::Line {
 public:
  // A text alone goes by "%s": distributions compile with -Werror=format-security.
  template <typename... Args>
  requires(sizeof...(Args) > 0) void put(const char* format, Args... args) noexcept {
    // snprintf() returns what it would have written; a cut line ends at the last byte but one.
    int n = std::snprintf(text_ + used_, sizeof text_ - 1 - used_, format, args...);
    if (n > 0) used_ += static_cast<std::size_t>(n);
    if (used_ > sizeof text_ - 2) used_ = sizeof text_ - 2;
  }
  // A JSON string: what is no printable ASCII is escaped, a byte of no meaning there as U+FFFD. A
  // long one is cut early enough for the object's end to fit.
  void quoted(std::string_view s) noexcept {
    put("%c", '"');
    for (const char c : s) {
      if (used_ + ending > sizeof text_) break;
      if (c == '"' || c == '\\')
        put("\\%c", c);
      else
        put(c < 0 ? "\\ufffd" : c < 0x20 ? "\\u%04x" : "%c", c);
    }
    put("%c", '"');
  }
  int write_to(int fd) noexcept {
    text_[used_++] = '\n';
    return write_all(fd, text_, used_);
  }

 private:
  static constexpr std::size_t ending = 64;  // more than an escape and what follows a string
  char text_[4608];                          // a WQE in words is the longest
  std::size_t used_ = 0;
};

namespace {

bool json(Journal::Format f) {
  return f == Journal::Format::json;
}

// Process, adapter and kind: what each line begins with.
template <typename Line>
void open_line(Line& line, Journal::Format f, const char* device, const char* event) {
  const int pid = getpid();
  if (!json(f)) return line.put("%d %s %s", pid, device, event);
  line.put(R"({"pid":%d,"device":)", pid);
  line.quoted(device);
  line.put(R"(,"event":"%s")", event);
}

// A member of an object behind others; what text shows there is `format`.
template <typename Line>
void put_text(Line& line, Journal::Format f, const char* name, const char* format,
              std::string_view value) {
  if (!json(f)) return line.put(format, static_cast<int>(value.size()), value.data());
  line.put(R"(,"%s":)", name);
  line.quoted(value);
}

// The numbers of a kind, under the names of its row.
template <typename Line>
void put_values(Line& line, Journal::Format f, const Event& row,
                const std::array<uint64_t, 5>& values) {
  for (std::size_t i = 0; i < values.size() && row.values[i] != nullptr; i++)
    line.put(json(f) ? R"(,"%s":%llu)" : " %s=%#llx", row.values[i],
             static_cast<unsigned long long>(values[i]));
}

}  // namespace

// Without waiting: a pipe that nobody reads would keep us for ever.
Result<std::unique_ptr<Journal>> Journal::open(const char* path, Format format,
                                               std::string_view device) {
  Fd file{::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644)};
  if (!file && errno == ENXIO) return Error{ENXIO, "the journal is a pipe that nobody reads"};
  if (!file) return Error{errno, "the journal's file cannot be opened"};
  auto journal = std::make_unique<Journal>();
  journal->file_ = std::move(file);
  journal->path_ = path;
  journal->format_ = format;
  std::size_t n = std::min(device.size(), journal->device_.size() - 1);
  std::memcpy(journal->device_.data(), device.data(), n);
  return journal;
}

void Journal::close() noexcept {
  if (on()) write_summary();
  file_.reset();
}

void Journal::put(Line& line) noexcept {
  if (int error = line.write_to(file_.get()); error != 0) fail(error);
}

// The file stays as it is: a line behind the gap would hide it.
void Journal::fail(int error) noexcept {
  file_.reset();
  failed_.store(true, std::memory_order_relaxed);
  char text[512];
  const int n = std::snprintf(text, sizeof(text),
                              "kilim-vhca: %s: lines are missing in the journal %.300s (%s): the "
                              "device stops, and the program ends with status %d\n",
                              device_.data(), path_.c_str(), std::strerror(error), exit_failed);
  (void)!::write(STDERR_FILENO, text, std::min(sizeof(text) - 1, static_cast<std::size_t>(n)));
}

void Journal::write_line(Kind k, const Values& values, const char* why) noexcept {
  int saved = errno;  // of the client, whose call we are in
  Line line;
  open_line(line, format_, device_.data(), events[index(k)].name);
  put_values(line, format_, events[index(k)], values);
  if (k == Kind::wqe) {
    const char* name = prm::opcode_name(static_cast<uint8_t>(values[2]));
    put_text(line, format_, "name", " %.*s", name != nullptr ? name : "undefined");
  }
  if (why != nullptr) put_text(line, format_, "why", " (%.*s)", why);
  if (json(format_)) line.put("%c", '}');
  put(line);
  errno = saved;
}

void Journal::write_command(const Values& values, std::span<const std::byte> in) noexcept {
  int saved = errno;
  Line line;
  const Event& row = events[index(Kind::command)];
  open_line(line, format_, device_.data(), row.name);
  put_values(line, format_, row, values);
  line.put("%s", json(format_) ? R"(,"in":")" : " in=");
  for (std::byte b : in.first(std::min(in.size(), command_bytes_shown)))
    line.put("%02x", static_cast<unsigned>(b));
  if (json(format_)) line.put("%s", "\"}");
  put(line);
  errno = saved;
}

void Journal::write_text(Kind k, const Values& values, std::string_view text) noexcept {
  int saved = errno;
  Line line;
  const Event& row = events[index(k)];
  open_line(line, format_, device_.data(), row.name);
  put_values(line, format_, row, values);
  put_text(line, format_, k == Kind::lint ? "finding" : "why", " %.*s", text);
  if (json(format_)) line.put("%c", '}');
  put(line);
  errno = saved;
}

void Journal::write_summary() noexcept {
  Line line;
  open_line(line, format_, device_.data(), "summary");
  for (std::size_t i = 0; i < kinds; i++)
    line.put(json(format_) ? R"(,"%s":%llu)" : " %s=%llu", events[i].name,
             static_cast<unsigned long long>(counts_[i].read()));
  line.put(json(format_) ? R"(,"pieces":%llu})" : " pieces=%llu",
           static_cast<unsigned long long>(pieces_.read()));
  put(line);
}

}  // namespace kilim::vhca
