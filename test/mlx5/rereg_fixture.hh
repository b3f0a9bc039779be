// SPDX-License-Identifier: BSD-3-Clause
// For tests of re-registration: one device for all of them, and changes of a region.
#pragma once

#include <cstdint>
#include <span>

#include "region_fixture.hh"
#include "ut.hh"

namespace kilim::test {

using mr::Change;

inline VirtualDevice& shared() {
  static VirtualDevice* v = new VirtualDevice(test::config("rereg0"));
  return *v;
}

inline mr::Registrar& registrar() {
  return shared().device->registrar();
}

inline Change to_memory(std::span<std::byte> memory) {
  Change c;
  c.translation = true;
  c.memory = memory;
  c.page_bytes = page;
  return c;
}

inline Change to_access(uint32_t access) {
  Change c;
  c.access = true;
  c.new_access = access;
  return c;
}

inline Change to_domain(mr::Domain domain) {
  Change c;
  c.domain = true;
  c.new_domain = domain;
  return c;
}

// Of rereg_failures.cc.
std::span<const kilim::test::Case> rereg_failure_cases();

}  // namespace kilim::test
