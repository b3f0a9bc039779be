// SPDX-License-Identifier: BSD-3-Clause
#include "compat/sentence.hh"

#include <cerrno>

#include "compat/mapping.hh"
#include "kilim/ibv_compat.h"

namespace kilim::compat {
namespace {

thread_local const char* last = "";

}  // namespace

void begin() noexcept {
  last = "";
}

int fail(int code, const char* sentence) noexcept {
  last = sentence;
  errno = code;
  return code;
}

int fail_over(const void* memory, int code, const char* sentence) noexcept {
  if (!lies_in_device_mapping(memory)) return fail(code, sentence);
  return fail(EOPNOTSUPP, "memory of another device (PeerDirect, dma-buf) cannot be registered");
}

}  // namespace kilim::compat

const char* kilim_compat_error(void) {
  return kilim::compat::last;
}
