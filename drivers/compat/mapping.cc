// SPDX-License-Identifier: BSD-3-Clause
#include "compat/mapping.hh"

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <sys/mman.h>

namespace kilim::compat {
namespace {

// MADV_POPULATE_READ and MADV_POPULATE_WRITE (madvise(2), Linux 5.14), as numbers for older
// headers. Older kernels refuse them, and /proc/self/maps is read instead.
constexpr int populate_read = 22;
constexpr int populate_write = 23;

constexpr uint64_t short_bytes = uint64_t{1} << 20;  // longest range that is faulted in

bool starts(const char* text, const char* with) noexcept {
  return std::strncmp(text, with, std::strlen(with)) == 0;
}

// One line of /proc/self/maps (proc(5)).
struct Mapping {
  uint64_t begin = 0;
  uint64_t end = 0;
  char rights[5] = "----";  // r w x p
};

// Calls see(mapping, line) for each mapping by address until it says stop. False: no such file.
template <typename See>
bool each_mapping(See see) noexcept {
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return false;
  char line[512];
  bool whole = true;  // a long line comes in several parts
  bool on = true;
  while (on && std::fgets(line, sizeof line, maps) != nullptr) {
    Mapping m;
    const bool begins = whole;
    whole = std::strchr(line, '\n') != nullptr;
    if (!begins ||
        std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &m.begin, &m.end, m.rights) != 3)
      continue;
    on = see(m, static_cast<const char*>(line));
  }
  (void)std::fclose(maps);
  return true;
}

}  // namespace

// If madvise() fails, the maps decide: its EINVAL may just mean an old kernel.
bool is_mapped(const PageRange& pages, bool writable) noexcept {
  const auto [begin, end] = pages;
  const int before = errno;
  if (end - begin <= short_bytes && ::madvise(reinterpret_cast<void*>(begin), end - begin,
                                              writable ? populate_write : populate_read) == 0)
    return true;
  errno = before;
  uint64_t at = begin;
  (void)each_mapping([&, last = end](const Mapping& m, const char*) noexcept {
    if (m.end <= at) return true;
    const bool allowed = m.rights[0] == 'r' && (!writable || m.rights[1] == 'w');
    if (m.begin > at || !allowed) return false;
    at = m.end;
    return at < last;
  });
  return at >= end;
}

bool lies_in_device_mapping(const void* memory) noexcept {
  const auto at = reinterpret_cast<uint64_t>(memory);
  bool found = false;
  (void)each_mapping([&](const Mapping& m, const char* line) noexcept {
    found = at >= m.begin && at < m.end && is_device_mapping(line);
    return m.end <= at;
  });
  return found;
}

bool is_device_mapping(const char* line) noexcept {
  const char* path = std::strchr(line, '/');
  if (path == nullptr) return false;
  if (starts(path, "/dmabuf:")) return true;
  constexpr const char* memory[] = {"/dev/shm/", "/dev/hugepages", "/dev/zero", "/dev/infiniband/"};
  for (const char* prefix : memory)
    if (starts(path, prefix)) return false;
  return starts(path, "/dev/");
}

}  // namespace kilim::compat
