// SPDX-License-Identifier: BSD-3-Clause
// main() of the test programs: finds the suite that is asked for, or runs all, each in a process of
// its own (ut.hh).
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/wait.h>
#include <unistd.h>

#include "ut.hh"

namespace kilim::test {

namespace {

constinit const Suite* first = nullptr;
constinit const Suite** last = &first;
char** started_with = nullptr;

const Suite* find(const char* name) {
  for (const Suite* s = first; s != nullptr; s = s->next)
    if (std::strcmp(s->name, name) == 0) return s;
  return nullptr;
}

int list() {
  for (const Suite* s = first; s != nullptr; s = s->next) std::printf("%s\n", s->name);
  return 0;
}

// How it ended: its exit status, or -1.
int run_apart(const Suite& s, int argc, char** argv) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) std::exit(s.run(argc, argv));
  int status = -1;
  const bool ended = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
  return ended ? WEXITSTATUS(status) : -1;
}

int run_all(int argc, char** argv) {
  constexpr int skipped = 77;  // as Meson has it
  unsigned passed = 0, failed = 0;
  for (const Suite* s = first; s != nullptr; s = s->next) {
    std::printf("== %s\n", s->name);
    const int status = run_apart(*s, argc, argv);
    if (status == 0)
      passed++;
    else if (status != skipped && !(status == no_case && argc > 1))
      failed++;
  }
  std::printf("== %u suites passed, %u failed\n", passed, failed);
  return passed == 0 || failed != 0 ? 1 : 0;
}

int run(int argc, char** argv) {
  if (first == nullptr) return 2;
  if (argc == 2 && std::strcmp(argv[1], "--suites") == 0) return list();
  if (argc < 3 || std::strcmp(argv[1], "--suite") != 0)
    return first->next == nullptr ? first->run(argc, argv) : run_all(argc, argv);
  const Suite* const wanted = find(argv[2]);
  if (wanted != nullptr) return wanted->run(argc - 2, argv + 2);
  std::fprintf(stderr, "--suite %s: there is no such suite here; --suites lists them\n", argv[2]);
  return 2;
}

}  // namespace

Suite::Suite(const char* its_name, Run its_run) noexcept
    : name(its_name), run(its_run), next(nullptr) {
  if (find(name) != nullptr) {
    std::fprintf(stderr, "two suites of this program are called %s\n", name);
    std::abort();
  }
  *last = this;
  last = &next;
}

void start_again() noexcept {
  execv("/proc/self/exe", started_with);
}

}  // namespace kilim::test

int main(int argc, char** argv) {
  kilim::test::started_with = argv;
  return kilim::test::run(argc, argv);
}
