// SPDX-License-Identifier: BSD-3-Clause
// Objects that outlive rte_eal_cleanup(), as locals of a main() whose last line it is. In children
// of this process: EAL starts once in a process.
#include <optional>
#include <string>

#include <rte_eal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "eal.hh"
#include "kilim/detail/base/outlived.hh"
#include "kilim/detail/pool/pool.hh"
#include "ut.hh"

using namespace kilim;

namespace outlived_ut {
namespace {

// Runs `body` in a child; how it ended and what it said.
struct Child {
  int status = -1;
  std::string said;

  explicit Child(void (*body)()) {
    int ends[2];
    EQUAL_FATAL(pipe(ends), 0);
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(ends[1], STDERR_FILENO);
      body();
      _exit(0);
    }
    close(ends[1]);
    char bytes[512];
    for (ssize_t n; (n = read(ends[0], bytes, sizeof bytes)) > 0;)
      said.append(bytes, static_cast<std::size_t>(n));
    close(ends[0]);
    waitpid(pid, &status, 0);
  }
  [[nodiscard]] bool ended_well() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
};

void use(pool::BufferCache& cache) {
  uint32_t some[8];
  if (cache.alloc_indices(some) != 8) _exit(2);
  cache.free_indices(some);
}

void cleanup_last() {
  if (!test::start_eal()) _exit(1);
  auto memory = pool::ArenaMemory::create({.buffers = 512});
  if (!memory) _exit(3);
  auto made = pool::Pool::create(memory->arena(), {.name = "late", .count = 512});
  if (!made) _exit(4);
  pool::BufferCache cache(*made);
  use(cache);
  rte_eal_cleanup();
}

void cleanup_behind() {
  if (!test::start_eal()) _exit(1);
  {
    auto memory = pool::ArenaMemory::create({.buffers = 512});
    auto made = pool::Pool::create(memory->arena(), {.name = "early", .count = 512});
    if (!made) _exit(4);
    pool::BufferCache cache(*made);
    use(cache);
  }
  rte_eal_cleanup();
}

void what_outlives_eal_is_named_and_does_no_harm() {
  Child c(cleanup_last);
  CU_ASSERT(c.ended_well());
  for (const char* what : {"a cache", "a pool", "memory from EAL"})
    CU_ASSERT(c.said.find(std::string("kilim: ") + what) != std::string::npos);
  CU_ASSERT(c.said.find("outlives rte_eal_cleanup()") != std::string::npos);
}

void what_goes_before_eal_is_not_spoken_of() {
  Child c(cleanup_behind);
  CU_ASSERT(c.ended_well());
  EQUAL(c.said.find("outlives"), std::string::npos);
}

constexpr test::Case cases[] = {
    {"what outlives EAL is named and does no harm", what_outlives_eal_is_named_and_does_no_harm},
    {"what goes before EAL is not spoken of", what_goes_before_eal_is_not_spoken_of},
};

}  // namespace
}  // namespace outlived_ut

KILIM_TEST_SUITE(outlived, outlived_ut::cases)
