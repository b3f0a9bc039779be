// SPDX-License-Identifier: BSD-3-Clause
// Layouts of UCX 1.13 (ucs/memory/rcache.h), the version of Debian 12.
#include "perf/compare/baselines.hh"

#include <algorithm>
#include <climits>
#include <cstddef>

#include <dlfcn.h>
#include <sys/mman.h>

namespace kilim::perf {
namespace {

constexpr uint64_t bytes_2m = uint64_t{2} << 20;
constexpr unsigned address_bits = 48, upper_shift = 30, lower_shift = 21;

struct UcsList {
  void *previous, *next;
};
struct UcsRegion {
  uint64_t start, end;
  UcsList lists[3];
  uint32_t references;
  int8_t status;
  uint8_t protection, flags, lru_flags;
  uint64_t own;
  uint32_t key;  // ours, behind what the cache knows
};
static_assert(offsetof(UcsRegion, key) == 80);

struct UcsOperations {
  int8_t (*add)(void* context, void* cache, void* argument, UcsRegion*, uint16_t flags);
  void (*remove)(void* context, void* cache, UcsRegion*);
  void (*describe)(void* context, void* cache, UcsRegion*, char* text, std::size_t bytes);
};
struct UcsParameters {
  std::size_t region_bytes, alignment, most_alignment;
  int events, event_priority;
  const UcsOperations* operations;
  void* context;
  int flags;
  unsigned long most_regions;
  std::size_t most_bytes, most_unreleased;
};
constexpr int no_page_frame_check = 1;

int8_t add(void*, void*, void*, UcsRegion* region, uint16_t) {
  region->key = static_cast<uint32_t>(region->start >> lower_shift) | 1;
  return 0;
}
void remove(void*, void*, UcsRegion*) {}
void describe(void*, void*, UcsRegion*, char* text, std::size_t) {
  *text = 0;
}
constexpr UcsOperations operations = {add, remove, describe};

}  // namespace

TwoLevelMap::TwoLevelMap() : upper_(std::size_t{1} << (address_bits - upper_shift)) {}

void TwoLevelMap::set(uint64_t address, uint64_t translation) {
  std::unique_ptr<Lower>& lower = upper_[address >> upper_shift];
  if (!lower) lower = std::make_unique<Lower>();
  lower->translations[address >> lower_shift & 511] = translation;
}

uint64_t TwoLevelMap::translate(uint64_t address, uint64_t* size) const noexcept {
  if (address >> address_bits != 0) return 0;
  const Lower* lower = upper_[address >> upper_shift].get();
  if (lower == nullptr) return 0;
  if (size != nullptr) *size = std::min(*size, bytes_2m - (address & (bytes_2m - 1)));
  return lower->translations[address >> lower_shift & 511];
}

struct RegistrationCache::Functions {
  int8_t (*create)(const UcsParameters*, const char* name, void* statistics, void** cache);
  void (*destroy)(void* cache);
  int8_t (*get)(void* cache, void* address, std::size_t bytes, int protection, void* argument,
                UcsRegion** region);
  void (*put)(void* cache, UcsRegion* region);
};

std::unique_ptr<RegistrationCache> RegistrationCache::open(std::string& why) {
  std::unique_ptr<RegistrationCache> c{new RegistrationCache};
  c->library_ = ::dlopen("libucs.so.0", RTLD_NOW | RTLD_LOCAL);
  if (c->library_ == nullptr) {
    why = "libucs.so.0 (package libucx0) cannot be loaded";
    return nullptr;
  }
  c->functions_ = std::make_unique<Functions>();
  Functions& f = *c->functions_;
  const auto find = [&](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(c->library_, name));
    return function != nullptr;
  };
  if (!find(f.create, "ucs_rcache_create") || !find(f.destroy, "ucs_rcache_destroy") ||
      !find(f.get, "ucs_rcache_get") || !find(f.put, "ucs_rcache_region_put")) {
    why = "libucs.so.0 has no registration cache";
    return nullptr;
  }
  const UcsParameters parameters = {.region_bytes = sizeof(UcsRegion),
                                    .alignment = 4096,
                                    .most_alignment = 4096,
                                    .operations = &operations,
                                    .flags = no_page_frame_check,
                                    .most_regions = ULONG_MAX,
                                    .most_bytes = SIZE_MAX,
                                    .most_unreleased = SIZE_MAX};
  if (f.create(&parameters, "lookup", nullptr, &c->cache_) != 0) {
    why = "libucs.so.0 refuses to make a registration cache";
    return nullptr;
  }
  return c;
}

RegistrationCache::~RegistrationCache() {
  if (cache_ != nullptr) functions_->destroy(cache_);
}

uint32_t RegistrationCache::get_and_put(uint64_t address, uint64_t bytes) noexcept {
  UcsRegion* region = nullptr;
  if (functions_->get(cache_, reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE,
                      nullptr, &region) != 0)
    return 0;
  const uint32_t key = region->key;
  functions_->put(cache_, region);
  return key;
}

}  // namespace kilim::perf
