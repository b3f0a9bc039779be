// SPDX-License-Identifier: BSD-3-Clause
// Lines of a child: a letter, a name, a value, with tabs between them.
#include "answer.hh"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include <unistd.h>

namespace kilim::exam {
namespace {

constexpr std::size_t longest_line = 4096;

void append_clean(std::string& to, std::string_view text) {
  for (const char c : text) to += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::vector<uint8_t> bytes_of(std::string_view hex) {
  std::vector<uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    const int high = digit_of(hex[i]), low = digit_of(hex[i + 1]);
    if (high < 0 || low < 0) return {};
    bytes.push_back(static_cast<uint8_t>(high << 4 | low));
  }
  return bytes;
}

void read_line(std::string_view line, Found& into) {
  const std::size_t first = line.find('\t');
  const std::size_t second = first == line.npos ? line.npos : line.find('\t', first + 1);
  if (second == line.npos || line.empty()) return;
  std::string name(line.substr(first + 1, second - first - 1));
  std::string value(line.substr(second + 1));
  switch (line[0]) {
    case 'f':
      into.facts.push_back({std::move(name), std::move(value)});
      break;
    case 'm':
      into.measured.push_back({std::move(name), std::move(value)});
      break;
    case 's':
      into.secrets.push_back({std::move(name), bytes_of(value)});
      break;
    case 'v':
      into.verdict = value;
      into.ending = Ending::answered;
      break;
    case 'n':
      into.why = value;
      into.ending = Ending::not_run;
      break;
    default:
      break;
  }
}

}  // namespace

std::string printed(const char* format, ...) {
  char text[512];
  va_list words;
  va_start(words, format);
  std::vsnprintf(text, sizeof text, format, words);
  va_end(words);
  return text;
}

std::string hex_of(Bytes bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string s;
  s.reserve(bytes.size() * 2);
  for (const uint8_t b : bytes) {
    s += digits[b >> 4];
    s += digits[b & 15];
  }
  return s;
}

std::string errno_name(int error) {
  if (error == 0) return "ok";
  const char* name = ::strerrorname_np(error);
  return printed("%s (%d)", name == nullptr ? "error" : name, error);
}

void Answer::line(char kind, std::string_view name, std::string_view value) {
  std::string text{kind, '\t'};
  append_clean(text, name);
  text += '\t';
  append_clean(text, value.substr(0, longest_line * 4));
  text += '\n';
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t n = ::write(fd_, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ::_exit(1);
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
}

void Answer::fact(std::string_view name, std::string_view value) {
  line('f', name, value);
}

void Answer::measured(std::string_view name, std::string_view value) {
  line('m', name, value);
}

void Answer::secret(std::string_view kind, Bytes bytes) {
  line('s', kind, hex_of(bytes));
}

void Answer::verdict(std::string_view word) {
  line('v', "", word);
}

void Answer::not_run(std::string_view why) {
  line('n', "", why);
  done();
}

void Answer::done() {
  ::_exit(0);
}

void read_lines(std::string_view text, Found& into) {
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    read_line(text.substr(0, end), into);
    text.remove_prefix(end + 1);
  }
}

}  // namespace kilim::exam
