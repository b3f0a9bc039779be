// SPDX-License-Identifier: BSD-3-Clause
// The profiles by name: one card, and that card with one property changed. Pure values.
#include "vhca/hca/profile.hh"

#include <cerrno>

namespace kilim::vhca {

namespace {

struct Row {
  const char* name;
  void (*change)(Profile&);
};

constexpr Row rows[] = {
    {"cx6dx", [](Profile&) {}},
    {"vf", [](Profile& p) { p.memory_windows = false; }},
    {"strong-fence", [](Profile& p) { p.umr_fence = 0; }},
    {"no-fence", [](Profile& p) { p.umr_fence = 2; }},
    {"no-devx", [](Profile& p) { p.devx = false; }},
};

}  // namespace

Result<Profile> find_profile(std::string_view name) {
  for (const Row& row : rows) {
    if (name != row.name) continue;
    Profile p;
    row.change(p);
    p.name = row.name;
    return p;
  }
  return Error{EINVAL, "no such profile: cx6dx, vf, strong-fence, no-fence and no-devx are known"};
}

}  // namespace kilim::vhca
