// SPDX-License-Identifier: BSD-3-Clause
#include "prompt.hh"

#include <cstdio>
#include <cstring>

#include <cmdline.h>
#include <cmdline_parse.h>
#include <cmdline_socket.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "commands.hh"
#include "session.hh"

namespace kilim::testpmd {
namespace {

constexpr const char* prompt_text = "testpmd> ";
constexpr int wait_ms = 10;

// rte_cmdline asks for the tokens of a line one after another and gives them no context: this is
// the line under way. Each word is a token, so that the table alone says what it may be.
struct LineUnderWay {
  Session* session = nullptr;
  Words words;
  bool ended = false;  // nothing but blanks behind the last word
};
LineUnderWay line;

bool ends_word(char c) {
  return c == '\0' || std::strchr(" \t\r\n#", c) != nullptr;
}

int parse_word(cmdline_parse_token_hdr_t*, const char* text, void*, unsigned) {
  int n = 0;
  while (!ends_word(text[n])) n++;
  if (n == 0) return -1;
  line.words.emplace_back(text, n);
  const char* behind = text + n;
  while (*behind == ' ' || *behind == '\t') behind++;
  line.ended = *behind != '\0' && std::strchr("\r\n#", *behind) != nullptr;
  return n;
}

int count_choices(cmdline_parse_token_hdr_t*) {
  return static_cast<int>(next_words(command_table(), line.words).size());
}

int copy_choice(cmdline_parse_token_hdr_t*, int index, char* out, unsigned size) {
  const auto all = next_words(command_table(), line.words);
  if (index < 0 || static_cast<std::size_t>(index) >= all.size()) return -1;
  std::snprintf(out, size, "%s", all[static_cast<std::size_t>(index)].c_str());
  return 0;
}

int help_word(cmdline_parse_token_hdr_t*, char* out, unsigned size) {
  std::snprintf(out, size, "word");
  return 0;
}

cmdline_token_ops word_ops{parse_word, count_choices, copy_choice, help_word};
cmdline_token_hdr word_token{&word_ops, 0};

void run_words() {
  const Match m = match_line(command_table(), line.words);
  if (m.row != nullptr) return m.row->run(*line.session, Line(line.words, m.rest));
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", m.why.c_str());
}

struct Instruction {
  void (*f)(void*, cmdline*, void*);
  void* data;
  const char* help;
  cmdline_parse_token_hdr_t* tokens[1];
};
extern Instruction instruction;

// As the callback of a whole line `cl` is set. Without it `out` is where the address of the token
// goes that `place` stands for (cmdline_parse.h, dynamic tokens).
void on_line(void* out, cmdline* cl, void* place) {
  if (cl != nullptr) {
    run_words();
    std::fflush(stdout);
    if (line.session->quits()) cmdline_quit(cl);
    return;
  }
  const auto index = static_cast<cmdline_parse_token_hdr_t**>(place) - instruction.tokens;
  if (index == 0) {
    line.words.clear();
    line.ended = false;
  }
  *static_cast<cmdline_token_hdr**>(out) = line.ended ? nullptr : &word_token;
}

Instruction instruction{on_line, nullptr, nullptr, {nullptr}};
cmdline_parse_ctx_t context[] = {reinterpret_cast<cmdline_parse_inst_t*>(&instruction), nullptr};
static_assert(offsetof(Instruction, tokens) == sizeof(cmdline_parse_inst_t));

}  // namespace

void run_line(Session& session, const std::string& text) {
  line.session = &session;
  line.words = split_words(text.substr(0, text.find('#')));
  if (!line.words.empty()) run_words();
}

bool run_file(Session& session, const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  line.session = &session;
  cmdline* cl = cmdline_new(context, prompt_text, fd, -1);
  if (cl == nullptr) {
    ::close(fd);
    return false;
  }
  std::fflush(stdout);
  cmdline_interact(cl);
  cmdline_free(cl);
  return true;
}

void run_prompt(Session& session, const std::function<bool()>& tick) {
  line.session = &session;
  std::fflush(stdout);
  cmdline* cl = cmdline_stdin_new(context, prompt_text);
  if (cl == nullptr) return;
  pollfd in{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  while (!session.quits() && tick()) {
    if (::poll(&in, 1, wait_ms) <= 0) continue;
    char c;
    if (::read(STDIN_FILENO, &c, 1) <= 0 || cmdline_in(cl, &c, 1) < 0) break;
  }
  cmdline_stdin_exit(cl);  // frees it
}

}  // namespace kilim::testpmd
