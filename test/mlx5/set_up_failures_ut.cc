// SPDX-License-Identifier: BSD-3-Clause
// The set-up of a virtual device, a region, a queue and its keys, in a process in which one call of
// the C library fails: memory, mappings, descriptors, room on the disk, short reads and writes.
// Whichever it is, the set-up goes well or is refused by an errno; then a second one goes well, and
// the process has as many descriptors and mappings as one in which nothing has failed. A child of
// its own for each call; of many calls a sample, unless KILIM_CHECK is "long".

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dirent.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/resolve.hh"
#include "failing_calls.hh"
#include "in_child.hh"
#include "kilim/detail/device/device.hh"
#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/port/mkey_queue.hh"
#include "ut.hh"

using namespace kilim;

namespace set_up_failures_ut {
namespace {

alignas(4096) std::array<std::byte, 16384> memory;

// 0: all was made, and is gone again; else the errno of what was refused.
int set_up(const DeviceSpec& spec) {
  int code = 0;
  {
    auto adapter = attach::resolve(spec);
    if (!adapter) return adapter.error().code;
    auto mr = adapter->device->registrar().register_memory(memory, mr::Access::all, 4096);
    auto queue = port::MkeyQueue::create(*adapter->device, {.access = mr::Access::all});
    auto cq = adapter->device->create_cq(64);
    if (!mr) code = mr.error().code;
    if (!queue) code = queue.error().code;
    if (!cq) code = cq.error().code;
  }
  attach::give_back(spec.name);
  return code;
}

int count_descriptors() {
  int n = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (folder != nullptr && ::readdir(folder) != nullptr) n++;
  if (folder != nullptr) ::closedir(folder);
  return n;
}

// Counts those of files, shared memory and devices; the heap has some that come and go. Libraries
// are left out: libibverbs loads its providers once more where it found none, and keeps them.
int count_mappings() {
  int n = 0;
  char line[512];
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  while (maps != nullptr && std::fgets(line, sizeof line, maps) != nullptr)
    n += std::strchr(line, '/') != nullptr && std::strstr(line, ".so") == nullptr;
  if (maps != nullptr) std::fclose(maps);
  return n;
}

struct Left {
  int descriptors, mappings;
};

enum Answer : int { well, refused, no_errno, second_refused, leaks, not_reached };

Left* left_clean;  // of a process in which nothing failed; shared with the children

int try_clean() {
  const DeviceSpec spec{.name = "vhca7"};
  if (set_up(spec) != 0 || set_up(spec) != 0) return second_refused;
  *left_clean = {count_descriptors(), count_mappings()};
  return well;
}

// What a thread of the device still has open is closed in a moment: what stays is a leak.
Left count_left() {
  Left left{};
  for (int i = 0; i < 200; i++) {
    left = {count_descriptors(), count_mappings()};
    if (left.descriptors <= left_clean->descriptors && left.mappings <= left_clean->mappings) break;
    ::usleep(5000);
  }
  return left;
}

int try_failing(int kind, unsigned long n) {
  const DeviceSpec spec{.name = "vhca7"};
  kilim_fail(kind, n, kind == kilim_failing_memory ? 2 : kind == kilim_failing_space ? 100 : 1);
  const int code = set_up(spec);
  const bool reached = kilim_has_failed() != 0;
  kilim_fail(kilim_no_failing, 0, 0);
  if (!reached) return not_reached;
  if (code < 0 || code > 133) return no_errno;  // EHWPOISON is the last one
  if (const int second = set_up(spec); second != 0) {
    std::fprintf(stderr, "the second try: %s\n", std::strerror(second));
    return second_refused;
  }
  const Left left = count_left();
  if (left.descriptors > left_clean->descriptors || left.mappings > left_clean->mappings) {
    std::fprintf(stderr, "%d descriptors and %d mappings, not %d and %d\n", left.descriptors,
                 left.mappings, left_clean->descriptors, left_clean->mappings);
    return leaks;
  }
  return code == 0 ? well : refused;
}

// Every `stride`th call of the kind, until there are no more.
void fail_each(int kind, unsigned long stride) {
  const char* check = std::getenv("KILIM_CHECK");
  if (check != nullptr && std::strcmp(check, "long") == 0) stride = 1;
  EQUAL_FATAL(test::in_child(try_clean), well);
  unsigned long good = 0, refusals = 0;
  for (unsigned long n = 1;; n += stride) {
    const int answer = test::in_child([&] { return try_failing(kind, n); });
    if (answer == not_reached) break;
    good += answer == well;
    refusals += answer == refused;
    if (answer != well && answer != refused) {
      std::fprintf(stderr, "call %lu of kind %d: %d\n", n, kind, answer);
      CU_ASSERT(answer == well || answer == refused);
    }
    CU_ASSERT_FATAL(n < 100'000);
  }
  CU_ASSERT(good + refusals >= 3);
  if (kind == kilim_short) EQUAL(refusals, 0);  // no error: the rest comes with the next call
}

void memory_may_fail() {
  fail_each(kilim_failing_memory, 41);
}
void mappings_may_fail() {
  fail_each(kilim_failing_map, 3);
}
void descriptors_may_fail() {
  fail_each(kilim_failing_open, 11);
}
void the_disk_may_be_full() {
  fail_each(kilim_failing_space, 41);
}
void reads_and_writes_may_be_short() {
  fail_each(kilim_short, 11);
}

const test::Case cases[] = {
    {"whichever allocation of the set-up fails, a second try goes well", memory_may_fail},
    {"whichever mapping of the set-up fails, a second try goes well", mappings_may_fail},
    {"whichever descriptor of the set-up fails, a second try goes well", descriptors_may_fail},
    {"wherever the disk is full, a second try goes well", the_disk_may_be_full},
    {"whichever read or write is short, a second try goes well", reads_and_writes_may_be_short},
};

// Runs the cases beside a page that the children share.
int run(int argc, char** argv) {
  void* shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  left_clean = static_cast<Left*>(shared);
  return test::run_cases("set_up_failures", cases, argc, argv);
}

}  // namespace
}  // namespace set_up_failures_ut

KILIM_TEST_MAIN(set_up_failures) {
  return set_up_failures_ut::run(argc, argv);
}
