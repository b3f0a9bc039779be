// SPDX-License-Identifier: BSD-3-Clause
// What the library's types look like to a source that is compiled with asserts, and to one without.
#pragma once

#include <cstddef>
#include <span>

namespace kilim::test {

struct Layout {
  const char* type;
  std::size_t size, alignment;
};

std::span<const Layout> layouts_with_asserts();
std::span<const Layout> layouts_without();

}  // namespace kilim::test
