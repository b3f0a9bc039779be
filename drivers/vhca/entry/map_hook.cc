// SPDX-License-Identifier: BSD-3-Clause
// Remembers libmlx5's entries and compares them.

#include "vhca/entry/map_hook.hh"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "vhca/entry/calls.hh"
#include "vhca/entry/got.hh"

namespace kilim::vhca::entry {
namespace {

constexpr std::size_t max_entries = 8;  // two names; a debugger's copy of the library has its own
std::array<std::atomic<void**>, max_entries> places{};

// A device's page by us, anything else as if libmlx5 had called by name.
// NOLINTNEXTLINE(readability-function-size): six parameters, as mmap() has them
void* map_for_mlx5(void* at, std::size_t length, int prot, int flags, int fd, off_t offset) {
  return calls::map(at, length, prot, flags, fd, offset, &::mmap);
}

void* ours() noexcept {
  return reinterpret_cast<void*>(&map_for_mlx5);
}

}  // namespace

void hook_maps() noexcept {
  const int saved = errno;
  const Redirect redirects[] = {{"mmap", ours()}, {"mmap64", ours()}};
  // The entries are looked at later on: the library must not go.
  ::dlopen("libmlx5.so.1", RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  std::array<void**, max_entries> entries{};
  redirect_calls("libmlx5", redirects, entries);
  for (std::size_t i = 0; i < max_entries; i++)
    places[i].store(entries[i], std::memory_order_relaxed);
  errno = saved;
}

void keep_maps_hooked() noexcept {
  for (const std::atomic<void**>& place : places) {
    void** entry = place.load(std::memory_order_relaxed);
    if (entry == nullptr) return;
    if (__atomic_load_n(entry, __ATOMIC_RELAXED) == ours()) continue;
    hook_maps();
    return;
  }
}

}  // namespace kilim::vhca::entry
