// SPDX-License-Identifier: BSD-3-Clause
// Answer: what a question's child process found, written line by line into a pipe as it is found,
// so that a child that hangs or dies leaves what it knew. The child owns the writing end, one
// thread; Found is the parent's side of it. Never throws; a line that cannot be written ends the
// child.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kilim::exam {

using Bytes = std::span<const uint8_t>;

std::string printed(const char* format, ...) __attribute__((format(printf, 1, 2)));
// Lower-case digits without anything between them.
std::string hex_of(Bytes bytes);
// "EINVAL (22)"; of 0 "ok".
std::string errno_name(int error);

class Answer {
 public:
  explicit Answer(int fd) : fd_(fd) {}

  // Adds an answer that two runs on one device agree in.
  void fact(std::string_view name, std::string_view value);
  // Adds one that differs from run to run: a time, an address, the number of a key or queue.
  void measured(std::string_view name, std::string_view value);
  // Bytes that name the machine: the report has them replaced wherever they stand.
  void secret(std::string_view kind, Bytes bytes);
  // A word of the question's table.
  void verdict(std::string_view word);
  // Ends the child: the question could not be asked, `why` is a sentence.
  [[noreturn]] void not_run(std::string_view why);
  // Ends the child.
  [[noreturn]] static void done();

 private:
  void line(char kind, std::string_view name, std::string_view value);
  int fd_;
};

struct Pair {
  std::string name, value;
};

struct Secret {
  std::string kind;
  std::vector<uint8_t> bytes;
};

// How a child ended.
enum class Ending : uint8_t { answered, not_run, hung, died };

struct Found {
  Ending ending = Ending::died;
  std::string verdict;
  std::string why;  // of all endings but answered
  std::vector<Pair> facts, measured;
  std::vector<Secret> secrets;
  double seconds = 0;
};

// Adds the lines of `text`, which a child wrote; lines that are cut off or unknown are left out.
void read_lines(std::string_view text, Found& into);

}  // namespace kilim::exam
