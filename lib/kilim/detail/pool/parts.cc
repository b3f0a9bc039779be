// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/pool/parts.hh"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <pthread.h>

#include "kilim/detail/base/outlived.hh"
#include "kilim/detail/pool/pools.hh"

namespace kilim::inline v1::pool::parts {

namespace {

struct Known {
  const void* owner;
  std::string name;
  const std::byte *first, *end;
  uint32_t count;
  uint32_t (*available)(const void* owner) noexcept;
};
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
std::vector<Known>& all() {
  static auto* list = new std::vector<Known>;  // pools may be destroyed by static destructors
  return *list;
}

}  // namespace

bool claim(const Part& part) {
  const Known more{part.owner,          part.name,
                   part.buffers.data(), part.buffers.data() + part.buffers.size(),
                   part.count,          part.available};
  pthread_mutex_lock(&lock);
  const bool free = std::none_of(all().begin(), all().end(), [&more](const Known& p) {
    return more.first < p.end && p.first < more.end;
  });
  if (free) all().push_back(more);
  pthread_mutex_unlock(&lock);
  return free;
}

void release(const void* owner) noexcept {
  pthread_mutex_lock(&lock);
  std::erase_if(all(), [owner](const Known& p) { return p.owner == owner; });
  pthread_mutex_unlock(&lock);
}

bool find(const std::byte* at, std::span<char> name) noexcept {
  pthread_mutex_lock(&lock);
  const auto found = std::find_if(all().begin(), all().end(),
                                  [at](const Known& p) { return p.first <= at && at < p.end; });
  const bool is_found = found != all().end();
  if (is_found) std::snprintf(name.data(), name.size(), "%s", found->name.c_str());
  pthread_mutex_unlock(&lock);
  return is_found;
}

}  // namespace kilim::inline v1::pool::parts

namespace kilim::inline v1::pool {

// A pool that outlived EAL has lost what it counted.
void walk_pools(Visit<const PoolView> see) {
  pthread_mutex_lock(&parts::lock);
  for (const parts::Known& p : parts::all()) {
    PoolView v{p.name.c_str(), p.count, std::nullopt};
    if (p.available != nullptr && is_mapped(p.owner)) v.available = p.available(p.owner);
    see(v);
  }
  pthread_mutex_unlock(&parts::lock);
}

}  // namespace kilim::inline v1::pool
