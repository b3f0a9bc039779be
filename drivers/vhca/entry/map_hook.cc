// SPDX-License-Identifier: BSD-3-Clause
// Remembers libmlx5's entries and compares them.

#include "vhca/entry/map_hook.hh"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>

#include <dlfcn.h>

#include "vhca/entry/calls.hh"
#include "vhca/entry/got.hh"

namespace kilim::vhca {
namespace {

constexpr std::size_t max_entries = 8;  // two names; a debugger's copy of the library has its own
std::array<std::atomic<void**>, max_entries> known{};

void* ours() noexcept {
  return reinterpret_cast<void*>(&calls::map);
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
    known[i].store(entries[i], std::memory_order_relaxed);
  errno = saved;
}

void keep_maps_hooked() noexcept {
  for (const std::atomic<void**>& place : known) {
    void** entry = place.load(std::memory_order_relaxed);
    if (entry == nullptr) return;
    if (__atomic_load_n(entry, __ATOMIC_RELAXED) == ours()) continue;
    hook_maps();
    return;
  }
}

}  // namespace kilim::vhca
