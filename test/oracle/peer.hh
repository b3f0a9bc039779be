// SPDX-License-Identifier: BSD-3-Clause
// What the sources of the peer share: the open device, the objects by their names, the answers. A
// verb takes the words of a line and gives the line of its answer.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include <infiniband/verbs.h>

#include "objects.hh"
#include "words.hh"

namespace kilim::oracle {

inline constexpr int depth = 64;
inline constexpr uint8_t port_number = 1;

inline ibv_context* context = nullptr;
inline Objects objects;

inline std::string error(int code) {
  return "error " + std::to_string(code);
}

// The kernel's answer may be a short text; longer ones are made of these.
template <typename... T>
std::string format(const char* pattern, T... values) {
  char text[512];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

// connections.cc
std::string queue(const Words& w);
std::string connect(const Words& w);
// requests.cc
std::string receive(const Words& w);
std::string post(const Words& w);

}  // namespace kilim::oracle
