// SPDX-License-Identifier: BSD-3-Clause
// A folder of a test's own as the switch of unix wires, and frames with a number in the last byte.
#pragma once

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "frames_fixture.hh"
#include "ut.hh"
#include "vhca/wire/make.hh"

namespace kilim::test {

struct Folder {
  std::string name;
  Folder() {
    char text[] = "/tmp/kilim-unix-XXXXXX";
    name = mkdtemp(text) != nullptr ? text : "";
  }
  ~Folder() { std::filesystem::remove_all(name); }
  [[nodiscard]] std::unique_ptr<vhca::wire::Wire> open(const char* more = "") const {
    return std::move(*vhca::wire::make_wire(kind + name + more));
  }
  std::string kind = "unix:";
};

inline Bytes frame_to(const vhca::Mac& to, const vhca::Mac& from, uint8_t number) {
  Bytes f(60, static_cast<std::byte>(number));
  std::memcpy(f.data(), to.data(), 6);
  std::memcpy(f.data() + 6, from.data(), 6);
  return f;
}

// Takes all that waits; the last byte of each.
inline std::string taken(vhca::wire::Wire& w) {
  std::string all;
  for (std::span<const std::byte> f; !(f = w.peek()).empty(); w.drop())
    all += std::to_integer<char>(f.back());
  return all;
}

// Of wire_kinds.cc.
std::span<const kilim::test::Case> wire_kind_cases();

// Of decorators.cc.
std::span<const kilim::test::Case> decorator_cases();

}  // namespace kilim::test
