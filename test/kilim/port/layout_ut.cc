// SPDX-License-Identifier: BSD-3-Clause
// A program may be compiled with asserts against a library without them, and the other way round:
// every type that both sides touch looks the same to both.
#include <cstdio>
#include <cstring>

#include "layout_model.hh"
#include "ut.hh"

namespace layout_ut {
namespace {

using kilim::test::Layout;

void one_layout() {
  const auto with = kilim::test::layouts_with_asserts();
  const auto without = kilim::test::layouts_without();
  EQUAL_FATAL(with.size(), without.size());
  for (std::size_t i = 0; i < with.size(); i++) {
    const Layout &a = with[i], &b = without[i];
    EQUAL(a.type, b.type);
    if (a.size != b.size || a.alignment != b.alignment)
      std::printf("\n%s: %zu bytes with asserts, %zu without\n", a.type, a.size, b.size);
    EQUAL(a.size, b.size);
    EQUAL(a.alignment, b.alignment);
  }
}

constexpr kilim::test::Case cases[] = {
    {"a type has one layout with asserts and without", one_layout},
};

}  // namespace
}  // namespace layout_ut

KILIM_TEST_SUITE(layout, layout_ut::cases)
