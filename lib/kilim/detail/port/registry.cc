// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/port/registry.hh"

#include "kilim/detail/base/roster.hh"

namespace kilim::inline v1::port {

namespace {

constinit Roster<Port> all;

}  // namespace

void enter(Port& port) {
  all.enter(port);
}

void leave(Port& port) noexcept {
  all.leave(port);
}

void walk_ports(Visit<Port> see) {
  all.walk(see);
}

std::size_t port_count() noexcept {
  std::size_t n = 0;
  all.walk([&n](Port&) { n++; });
  return n;
}

Port* port_at(std::size_t index) noexcept {
  Port* found = nullptr;
  all.walk([&](Port& p) {
    if (index-- == 0) found = &p;
  });
  return found;
}

Port* port_named(std::string_view name) noexcept {
  Port* found = nullptr;
  all.walk([&](Port& p) {
    if (found == nullptr && p.name() == name) found = &p;
  });
  return found;
}

}  // namespace kilim::inline v1::port
