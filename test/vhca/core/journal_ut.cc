// SPDX-License-Identifier: BSD-3-Clause
// The journal: counts always, lines when open, as text and as JSON, from several processes.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ut.hh"
#include "vhca/core/journal.hh"

namespace journal_ut {
namespace {

using kilim::Cqn;
using kilim::Qpn;
using kilim::test::Case;
using kilim::vhca::Journal;

// A file that goes with the test.
struct Scratch {
  Scratch() {
    int fd = mkstemp(path);
    CU_ASSERT_FATAL(fd >= 0);
    close(fd);
  }
  ~Scratch() { unlink(path); }
  std::vector<std::string> lines() const {
    std::ifstream in(path);
    std::vector<std::string> all;
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
  char path[32] = "/tmp/journal_ut.XXXXXX";
};

void a_closed_journal_counts() {
  Journal j;
  CU_ASSERT_FALSE(j.on());
  j.wqe(Qpn{5}, 1, 0x08, 4);
  j.wqe(Qpn{5}, 2, 0x08, 4);
  j.translated(0x100, 3, 77);
  j.translated(0x200, 4, 78);
  EQUAL(j.count(Journal::Kind::wqe), 2);
  EQUAL(j.count(Journal::Kind::translated), 2);
  EQUAL(j.pieces(), 7);
  EQUAL(j.count(Journal::Kind::cqe), 0);
}

void text_has_a_line_for_each_happening_and_a_summary() {
  Scratch file;
  {
    auto j = Journal::open(file.path, Journal::Format::text, "vhca7");
    CU_ASSERT_FATAL(j.ok());
    (*j)->wqe(Qpn{0x1f}, 3, 0x25, 12);
    (*j)->error(Qpn{0x1f}, kilim::prm::Syndrome::remote_access, 0x89, 3, "no such key");
  }
  std::vector<std::string> lines = file.lines();
  std::string pid = std::to_string(getpid());
  EQUAL_FATAL(lines.size(), 3);
  EQUAL(lines[0], pid + " vhca7 wqe qp=0x1f index=0x3 opcode=0x25 ds=0xc UMR");
  EQUAL(lines[1], pid + " vhca7 error qp=0x1f syndrome=0x13 vendor=0x89 index=0x3 (no such key)");
  CU_ASSERT(lines[2].find("summary wqe=1 ") != std::string::npos);
  CU_ASSERT(lines[2].find("error=1 ") != std::string::npos);
}

void json_is_one_object_a_line() {
  Scratch file;
  {
    auto j = Journal::open(file.path, Journal::Format::json, "vhca0");
    CU_ASSERT_FATAL(j.ok());
    (*j)->cqe(Cqn{4}, Qpn{9}, 0, 17, 4096);
    (*j)->frame_drop(1, 60, "no rule");
  }
  std::vector<std::string> lines = file.lines();
  std::string head = R"({"pid":)" + std::to_string(getpid()) + R"(,"device":"vhca0","event":)";
  EQUAL_FATAL(lines.size(), 3);
  EQUAL(lines[0], head + R"("cqe","cq":4,"qp":9,"opcode":0,"index":17,"bytes":4096})");
  EQUAL(lines[1], head + R"("frame_drop","port":1,"bytes":60,"why":"no rule"})");
  CU_ASSERT(lines[2].ends_with(R"("pieces":0})"));
}

void json_is_escaped_and_cut_to_an_object() {
  Scratch file;
  {
    auto j = Journal::open(file.path, Journal::Format::json, "a\"b");
    CU_ASSERT_FATAL(j.ok());
    (*j)->frame_drop(1, 60, "\\ \n \x1f \xff \"");
    (*j)->frame_drop(1, 60, std::string(8192, '"').c_str());
  }
  const std::vector<std::string> lines = file.lines();
  EQUAL_FATAL(lines.size(), 3);
  CU_ASSERT(lines[0].find(R"("device":"a\"b",)") != std::string::npos);
  CU_ASSERT(lines[0].ends_with(R"("why":"\\ \u000a \u001f \ufffd \""})"));
  CU_ASSERT(lines[1].ends_with(R"(\"\""})"));
  CU_ASSERT(lines[1].size() > 4096);
}

void processes_share_a_file_by_whole_lines() {
  Scratch file;
  constexpr int children = 4, each = 300;
  for (int c = 0; c < children; c++) {
    if (fork() == 0) {
      {
        auto j = Journal::open(file.path, Journal::Format::text, "vhca0");
        for (int i = 0; i < each; i++) (*j)->umr(0x1234, 4, 4096, 0x203c2001);
      }
      _exit(0);
    }
  }
  for (int c = 0; c < children; c++) wait(nullptr);
  int umrs = 0, other = 0;
  for (const std::string& line : file.lines()) {
    bool whole = line.ends_with("umr key=0x1234 entries=0x4 bytes=0x1000 mask=0x203c2001");
    umrs += whole;
    other += !whole;
  }
  EQUAL(umrs, children * each);
  EQUAL(other, children);  // the summaries
}

void a_file_that_cannot_be_opened_is_said() {
  auto j = Journal::open("/nowhere/at/all", Journal::Format::text, "vhca0");
  CU_ASSERT_FALSE(j.ok());
  EQUAL(j.error().code, ENOENT);
}

// What is written to stderr while it lives.
class Stderr {
 public:
  Stderr() : before_(dup(STDERR_FILENO)) {
    EQUAL_FATAL(pipe2(ends_, O_NONBLOCK | O_CLOEXEC), 0);
    dup2(ends_[1], STDERR_FILENO);
  }
  ~Stderr() {
    dup2(before_, STDERR_FILENO);
    for (int fd : {before_, ends_[0], ends_[1]}) close(fd);
  }
  Stderr(const Stderr&) = delete;
  Stderr& operator=(const Stderr&) = delete;
  [[nodiscard]] std::string text() const {
    char bytes[4096];
    ssize_t n = read(ends_[0], bytes, sizeof(bytes));
    return {bytes, n > 0 ? static_cast<std::size_t>(n) : 0};
  }

 private:
  int before_, ends_[2] = {-1, -1};
};

void a_full_disk_is_said_once() {
  Stderr err;
  auto j = Journal::open("/dev/full", Journal::Format::text, "vhca3");
  CU_ASSERT_FATAL(j.ok());
  CU_ASSERT(!(*j)->failed());
  (*j)->wqe(Qpn{5}, 1, 0x08, 4);
  CU_ASSERT((*j)->failed());
  CU_ASSERT(!(*j)->on());
  std::string said = err.text();
  CU_ASSERT(said.find("vhca3: lines are missing in the journal /dev/full (No space") !=
            std::string::npos);
  CU_ASSERT(said.ends_with("\n"));
  (*j)->wqe(Qpn{5}, 2, 0x08, 4);
  (*j)->close();
  CU_ASSERT(err.text().empty());
  EQUAL((*j)->count(Journal::Kind::wqe), 2);
}

void a_summary_that_does_not_fit_is_a_gap_too() {
  Stderr err;
  auto j = Journal::open("/dev/full", Journal::Format::json, "vhca0");
  CU_ASSERT_FATAL(j.ok());
  (*j)->close();
  CU_ASSERT((*j)->failed());
  CU_ASSERT(!err.text().empty());
}

// A pipe in the file system.
struct Pipe : Scratch {
  Pipe() {
    unlink(path);
    EQUAL_FATAL(mkfifo(path, 0600), 0);
  }
};

void a_pipe_that_nobody_reads_is_refused_at_once() {
  Pipe pipe;
  auto j = Journal::open(pipe.path, Journal::Format::text, "vhca0");
  CU_ASSERT_FATAL(!j.ok());
  EQUAL(j.error().code, ENXIO);
}

void the_reader_of_a_pipe_may_go() {
  Stderr err;
  Pipe pipe;
  int reader = open(pipe.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  auto j = Journal::open(pipe.path, Journal::Format::text, "vhca0");
  CU_ASSERT_FATAL(j.ok());
  (*j)->invalidate(0x77);
  char bytes[256];
  ssize_t n = read(reader, bytes, sizeof(bytes));
  CU_ASSERT(n > 0);
  CU_ASSERT(std::string(bytes, static_cast<std::size_t>(n)).ends_with("key=0x77\n"));
  close(reader);
  (*j)->invalidate(0x78);  // SIGPIPE would be the end of this program
  CU_ASSERT((*j)->failed());
  CU_ASSERT(err.text().find("Broken pipe") != std::string::npos);
}

void who_does_not_read_a_pipe_is_not_waited_for_long() {
  Stderr err;
  Pipe pipe;
  int reader = open(pipe.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  auto j = Journal::open(pipe.path, Journal::Format::text, "vhca0");
  CU_ASSERT_FATAL(j.ok());
  for (uint32_t i = 0; i < 1u << 20 && !(*j)->failed(); i++) (*j)->invalidate(i);
  CU_ASSERT((*j)->failed());
  close(reader);
}

constexpr Case cases[] = {
    {"a closed journal counts", a_closed_journal_counts},
    {"text has a line for each happening and a summary",
     text_has_a_line_for_each_happening_and_a_summary},
    {"JSON is one object a line", json_is_one_object_a_line},
    {"JSON is escaped, and cut to an object", json_is_escaped_and_cut_to_an_object},
    {"processes share a file by whole lines", processes_share_a_file_by_whole_lines},
    {"a file that cannot be opened is said", a_file_that_cannot_be_opened_is_said},
    {"a full disk is said once", a_full_disk_is_said_once},
    {"a summary that does not fit is a gap too", a_summary_that_does_not_fit_is_a_gap_too},
    {"a pipe that nobody reads is refused at once", a_pipe_that_nobody_reads_is_refused_at_once},
    {"the reader of a pipe may go", the_reader_of_a_pipe_may_go},
    {"who does not read a pipe is not waited for long",
     who_does_not_read_a_pipe_is_not_waited_for_long},
};

}  // namespace
}  // namespace journal_ut

KILIM_TEST_SUITE(journal, journal_ut::cases)
