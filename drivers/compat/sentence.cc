// SPDX-License-Identifier: BSD-3-Clause
#include "compat/sentence.hh"

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "compat/ibv_compat.h"

namespace kilim::compat {
namespace {

thread_local const char* last = "";

bool starts(const char* text, const char* with) noexcept {
  return std::strncmp(text, with, std::strlen(with)) == 0;
}

bool lies_in_device_mapping(const void* memory) noexcept {
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return false;
  const auto at = reinterpret_cast<uint64_t>(memory);
  char line[512];
  bool found = false;
  while (!found && std::fgets(line, sizeof line, maps) != nullptr) {
    uint64_t begin = 0;
    uint64_t end = 0;
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64, &begin, &end) != 2) continue;
    found = at >= begin && at < end && is_device_mapping(line);
  }
  (void)std::fclose(maps);
  return found;
}

}  // namespace

int fail(int code, const char* sentence) noexcept {
  last = sentence;
  errno = code;
  return code;
}

int fail_over(const void* memory, int code, const char* sentence) noexcept {
  if (!lies_in_device_mapping(memory)) return fail(code, sentence);
  return fail(EOPNOTSUPP, "memory of another device (PeerDirect, dma-buf) cannot be registered");
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

const char* kilim_compat_error(void) {
  return kilim::compat::last;
}
