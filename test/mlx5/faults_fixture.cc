// SPDX-License-Identifier: BSD-3-Clause
#include "faults_fixture.hh"

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <iterator>

#include "vhca/entry/calls.hh"
#include "vhca/entry/got.hh"

namespace kilim::test {
namespace {

Faults state;
thread_local bool inside = false;  // what the device itself does is not the libraries' doing

bool allocation_fails() noexcept {
  if (inside || ++state.allocations != state.fail_allocation) return false;
  state.hit = true;
  errno = ENOMEM;
  return true;
}

int faulty_ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (state.before_ioctl != nullptr) state.before_ioctl(state.arg);
  if (++state.ioctls == state.fail_ioctl) {
    state.hit = true;
    errno = state.ioctl_error;
    return -1;
  }
  inside = true;
  const int rc = vhca::entry::calls::ioctl(fd, request, argument);
  inside = false;
  return rc;
}

void* faulty_malloc(std::size_t n) {
  return allocation_fails() ? nullptr : std::malloc(n);
}
void* faulty_calloc(std::size_t n, std::size_t each) {
  return allocation_fails() ? nullptr : std::calloc(n, each);
}
void* faulty_realloc(void* p, std::size_t n) {
  return allocation_fails() ? nullptr : std::realloc(p, n);
}
int faulty_memalign(void** p, std::size_t align, std::size_t n) {
  return allocation_fails() ? ENOMEM : ::posix_memalign(p, align, n);
}

template <typename F>
void* address(F* f) noexcept {
  return reinterpret_cast<void*>(f);
}

}  // namespace

bool place_faults() {
  const vhca::entry::Redirect all[] = {{"ioctl", address(faulty_ioctl)},
                                       {"malloc", address(faulty_malloc)},
                                       {"calloc", address(faulty_calloc)},
                                       {"realloc", address(faulty_realloc)},
                                       {"posix_memalign", address(faulty_memalign)}};
  return vhca::entry::redirect_calls("libibverbs.so", all) > 0 &&
         vhca::entry::redirect_calls("libmlx5.so", all) > 0;
}

void arm(const Faults& f) {
  state = f;
  state.ioctls = state.allocations = state.news = 0;
  state.hit = false;
}

bool new_fails() noexcept {
  if (inside || state.fail_new == 0 || ++state.news != state.fail_new) return false;
  state.hit = true;
  return true;
}

const Faults& faults() {
  return state;
}

}  // namespace kilim::test
