// SPDX-License-Identifier: BSD-3-Clause
// A folder as the switch of shm wires, and what is heard there.
#pragma once

#include <string>

#include <poll.h>
#include <unistd.h>

#include "folder_fixture.hh"

namespace kilim::test {

struct SharedFolder : Folder {
  SharedFolder() { kind = "shm:"; }
};

// Within a second.
inline std::string heard(vhca::wire::Wire& w) {
  for (int i = 0; i < 1000; i++) {
    if (std::string all = taken(w); !all.empty()) return all;
    usleep(1000);
  }
  return {};
}

// What a wire hears that looks as often as it likes.
inline std::string heard_now(vhca::wire::Wire& w) {
  std::string all;
  for (int i = 0; i < 200; i++) all += taken(w);
  return all;
}

inline bool readable(const vhca::wire::Wire& w, int ms = 0) {
  pollfd p{w.fd(), POLLIN, 0};
  return poll(&p, 1, ms) == 1;
}

// Of shm_hostile.cc.
std::span<const kilim::test::Case> shm_hostile_cases();

}  // namespace kilim::test
