// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/port/registry.hh"

#include <algorithm>
#include <vector>

namespace kilim::port {

namespace {

// Never destroyed, as EAL's clean-up, which removes ports, may come after static destructors.
std::vector<Port*>& all() {
  static auto* list = new std::vector<Port*>;
  return *list;
}

}  // namespace

void enter(Port& port) {
  all().push_back(&port);
}

void leave(Port& port) noexcept {
  std::erase(all(), &port);
}

std::size_t port_count() noexcept {
  return all().size();
}

Port* port_at(std::size_t index) noexcept {
  return index < all().size() ? all()[index] : nullptr;
}

Port* port_named(std::string_view name) noexcept {
  const auto at =
      std::find_if(all().begin(), all().end(), [name](const Port* p) { return p->name() == name; });
  return at != all().end() ? *at : nullptr;
}

}  // namespace kilim::port
