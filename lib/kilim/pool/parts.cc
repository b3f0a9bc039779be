// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/pool/parts.hh"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <pthread.h>

namespace kilim::pool::parts {

namespace {

struct Part {
  const void* owner;
  std::string name;
  const std::byte *first, *end;
};
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
std::vector<Part>& all() {
  static auto* list = new std::vector<Part>;  // pools may be destroyed by static destructors
  return *list;
}

}  // namespace

bool claim(const void* owner, const char* name, std::span<const std::byte> buffers) {
  const Part part{owner, name, buffers.data(), buffers.data() + buffers.size()};
  pthread_mutex_lock(&lock);
  const bool free = std::none_of(all().begin(), all().end(), [&part](const Part& p) {
    return part.first < p.end && p.first < part.end;
  });
  if (free) all().push_back(part);
  pthread_mutex_unlock(&lock);
  return free;
}

void release(const void* owner) noexcept {
  pthread_mutex_lock(&lock);
  std::erase_if(all(), [owner](const Part& p) { return p.owner == owner; });
  pthread_mutex_unlock(&lock);
}

bool find(const std::byte* at, std::span<char> name) noexcept {
  pthread_mutex_lock(&lock);
  const auto found = std::find_if(all().begin(), all().end(),
                                  [at](const Part& p) { return p.first <= at && at < p.end; });
  const bool is_found = found != all().end();
  if (is_found) std::snprintf(name.data(), name.size(), "%s", found->name.c_str());
  pthread_mutex_unlock(&lock);
  return is_found;
}

}  // namespace kilim::pool::parts
