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
  // What may stand behind the words, read once for all questions about them.
  Words offered_behind;
  std::vector<Offer> offered;
  Offer shown{"", "STRING", "nothing that is known stands here"};  // what help_word() is about

  const std::vector<Offer>& offer() {
    if (offered.empty() || offered_behind != words) {
      offered = offers(command_table(), words);
      offered_behind = words;
    }
    return offered;
  }
};
LineUnderWay under_way;

bool ends_word(char c) {
  return c == '\0' || std::strchr(" \t\r\n#", c) != nullptr;
}

int parse_word(cmdline_parse_token_hdr_t*, const char* text, void*, unsigned) {
  int n = 0;
  while (!ends_word(text[n])) n++;
  if (n == 0) return -1;
  under_way.words.emplace_back(text, n);
  const char* behind = text + n;
  while (*behind == ' ' || *behind == '\t') behind++;
  under_way.ended = *behind != '\0' && std::strchr("\r\n#", *behind) != nullptr;
  return n;
}

int count_choices(cmdline_parse_token_hdr_t*) {
  return static_cast<int>(under_way.offer().size());
}

int copy_choice(cmdline_parse_token_hdr_t*, int index, char* out, unsigned size) {
  const std::vector<Offer>& all = under_way.offer();
  if (index < 0 || static_cast<std::size_t>(index) >= all.size()) return -1;
  under_way.shown = all[static_cast<std::size_t>(index)];
  std::snprintf(out, size, "%s", under_way.shown.word.c_str());
  return 0;
}

// rte_cmdline asks for it behind the choice that it shows, and takes the sentence of the
// instruction then (DPDK lib/cmdline/cmdline_parse.c, cmdline_complete()).
int help_word(cmdline_parse_token_hdr_t*, char* out, unsigned size);

cmdline_token_ops word_ops{parse_word, count_choices, copy_choice, help_word};
cmdline_token_hdr word_token{&word_ops, 0};

void run_words() {
  const Match m = match_line(command_table(), under_way.words);
  if (m.row != nullptr) {
    std::string text;
    for (const std::string& w : under_way.words) text += (text.empty() ? "" : " ") + w;
    under_way.session->note_line(std::move(text));
    return m.row->run(*under_way.session, Line(under_way.words, m.rest));
  }
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

// `cl` is set in the callback of a whole line. Without it `out` is where the address of the token
// goes that `place` stands for (cmdline_parse.h, dynamic tokens).
void on_line(void* out, cmdline* cl, void* place) {
  if (cl != nullptr) {
    run_words();
    std::fflush(stdout);
    if (under_way.session->quits()) cmdline_quit(cl);
    return;
  }
  const auto index = static_cast<cmdline_parse_token_hdr_t**>(place) - instruction.tokens;
  if (index == 0) {
    under_way.words.clear();
    under_way.ended = false;
  }
  *static_cast<cmdline_token_hdr**>(out) = under_way.ended ? nullptr : &word_token;
}

Instruction instruction{on_line, nullptr, nullptr, {nullptr}};

int help_word(cmdline_parse_token_hdr_t*, char* out, unsigned size) {
  std::snprintf(out, size, "%s", under_way.shown.kind);
  instruction.help = under_way.shown.sentence.c_str();
  return 0;
}
cmdline_parse_ctx_t context[] = {reinterpret_cast<cmdline_parse_inst_t*>(&instruction), nullptr};
static_assert(offsetof(Instruction, tokens) == sizeof(cmdline_parse_inst_t));

// What reads lines from `fd`. rte_cmdline keeps the history in a ring that it turns round byte by
// byte for each line once it is full (cirbuf_align_left()), a tenth of a second: nobody types so
// much, but scripts are longer, so that they get a new one before.
class Typist {
 public:
  Typist(int fd, int out) : fd_(fd), out_(out), cl_(make()) {}
  Typist(const Typist&) = delete;
  Typist& operator=(const Typist&) = delete;
  ~Typist() { end(); }

  // False: the input is at its end, or the prompt.
  bool type() {
    constexpr std::size_t enough = 4096;
    char c;
    if (cl_ == nullptr || ::read(fd_, &c, 1) <= 0 || cmdline_in(cl_, &c, 1) < 0) return false;
    typed_++;
    if (c != '\n' || terminal_ || typed_ < enough) return true;
    typed_ = 0;
    end();
    cl_ = make();
    return true;
  }

 private:
  // cmdline_free() closes descriptors beyond stderr.
  cmdline* make() const {
    if (terminal_) return cmdline_stdin_new(context, prompt_text);
    return cmdline_new(context, prompt_text, fd_ == STDIN_FILENO ? fd_ : ::dup(fd_), out_);
  }
  void end() {
    if (cl_ == nullptr) return;
    if (terminal_)
      cmdline_stdin_exit(cl_);  // frees it
    else
      cmdline_free(cl_);
    cl_ = nullptr;
  }

  int fd_, out_;
  bool terminal_ = fd_ == STDIN_FILENO && isatty(fd_) != 0;
  std::size_t typed_ = 0;
  cmdline* cl_;
};

}  // namespace

void run_line(Session& session, const std::string& text) {
  under_way.session = &session;
  under_way.words = split_words(text.substr(0, text.find('#')));
  if (!under_way.words.empty()) run_words();
}

bool run_file(Session& session, const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  under_way.session = &session;
  std::fflush(stdout);
  for (Typist typist(fd, -1); !session.quits() && typist.type();) {
  }
  ::close(fd);
  return true;
}

void run_prompt(Session& session, const std::function<bool()>& tick) {
  under_way.session = &session;
  std::fflush(stdout);
  pollfd in{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  Typist typist(STDIN_FILENO, STDOUT_FILENO);
  while (!session.quits() && tick())
    if (::poll(&in, 1, wait_ms) > 0 && !typist.type()) break;
}

}  // namespace kilim::testpmd
