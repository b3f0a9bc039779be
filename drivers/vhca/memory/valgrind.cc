// SPDX-License-Identifier: BSD-3-Clause
// Looks for the library that Valgrind loads into whatever it runs.
#include "vhca/memory/valgrind.hh"

#include <cstring>

#include <link.h>

namespace kilim::vhca::memory {

bool under_valgrind() noexcept {
  const auto is_its = [](dl_phdr_info* info, std::size_t, void*) {
    return std::strstr(info->dlpi_name, "/vgpreload_") != nullptr ? 1 : 0;
  };
  return ::dl_iterate_phdr(is_its, nullptr) != 0;
}

}  // namespace kilim::vhca::memory
