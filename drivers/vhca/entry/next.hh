// SPDX-License-Identifier: BSD-3-Clause
// The functions that stand behind ours in the loader's order, for calls that are not on a device:
// another library that is loaded before libc, or linked, sees them as it would without us. Looked
// up when the library that this is compiled into is initialised, and never later: so no call can
// find itself, wait for the loader or allocate, in a signal handler neither. Until then, and where
// there is none, the answer is null, and the kernel is asked (raw.hh).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

namespace kilim::vhca::entry {

// As libc declares them.
using OpenCall = int(const char*, int, ...);
using OpenAtCall = int(int, const char*, int, ...);
using CheckedOpenCall = int(const char*, int);
using CheckedOpenAtCall = int(int, const char*, int);
using StatCall = int(const char*, struct stat*);
using FileStatCall = int(int, struct stat*);
using StatAtCall = int(int, const char*, struct stat*, int);
using VersionedStatCall = int(int, const char*, struct stat*);
using VersionedFileStatCall = int(int, int, struct stat*);
using AccessCall = int(const char*, int);
using AccessAtCall = int(int, const char*, int, int);
using SocketCall = int(int, int, int);
using IoctlCall = int(int, unsigned long, ...);
using WriteCall = ssize_t(int, const void*, std::size_t);
using SendCall = ssize_t(int, const struct msghdr*, int);
using MapCall = void*(void*, std::size_t, int, int, int, off_t);
using UnmapCall = int(void*, std::size_t);
using AdviseCall = int(void*, std::size_t, int);
using RemapCall = void*(void*, std::size_t, std::size_t, int, ...);
using CloseCall = int(int);

template <std::size_t N>
struct SymbolName {
  // NOLINTNEXTLINE(google-explicit-constructor): a literal becomes one as a template's argument
  consteval SymbolName(const char (&name)[N]) { std::copy_n(name, N, text); }
  char text[N]{};
};

template <SymbolName name, typename Call>
class Next {
 public:
  static Call* get() noexcept {
    static_cast<void>(&sought);  // makes the compiler look it up at the start
    return found.load(std::memory_order_relaxed);
  }

 private:
  static bool seek() noexcept {
    found.store(reinterpret_cast<Call*>(::dlsym(RTLD_NEXT, name.text)), std::memory_order_relaxed);
    return true;
  }
  static inline constinit std::atomic<Call*> found{nullptr};
  static inline const bool sought = seek();
};

// The next function of this name, with these arguments; `kernel` where there is none.
template <SymbolName name, typename Call, typename Kernel, typename... A>
auto pass_on(Kernel kernel, A... a) noexcept {
  Call* next = Next<name, Call>::get();
  return next != nullptr ? next(a...) : kernel(a...);
}

}  // namespace kilim::vhca::entry
