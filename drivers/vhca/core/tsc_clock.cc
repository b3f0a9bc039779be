// SPDX-License-Identifier: BSD-3-Clause
#include "vhca/core/tsc_clock.hh"

#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace kilim::vhca {

bool has_steady_counter() noexcept {
  constexpr const char* path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char name[8] = {};
  const ssize_t n = ::read(fd, name, sizeof name - 1);
  ::close(fd);
  return n > 0 && std::strcmp(name, "tsc\n") == 0;
}

}  // namespace kilim::vhca
