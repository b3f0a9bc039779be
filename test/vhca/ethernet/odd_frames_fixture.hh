// SPDX-License-Identifier: BSD-3-Clause
// A corpus of odd frames for tests of rules and hashes: tags of both kinds, fragments, extension
// headers, options, runts, lengths that lie, tunnels of each version, headers that are cut off.
// Each says, by hand, what the headers show. Pure, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "tunnel_fixture.hh"

namespace kilim::test {

// What a rule can ask of the outer headers.
struct Shown {
  uint8_t version = 0;  // of IP; 0: none
  uint8_t protocol = 0;
  bool ports = false;  // 5001 and 80, as make_frame() has them
  bool fragment = false;
  uint16_t type = 0x0800;  // behind two tags
  char tag = 0;            // the first one: 'c'ustomer's (0x8100), 's'ervice's (0x88a8)
};
struct OddFrame {
  std::string name;
  Bytes frame;
  Shown shown;
};

// Tags of these types, the first one outside, each with priority 1 and number 100 + its place.
inline Bytes with_tags(const Bytes& f, std::initializer_list<uint16_t> types) {
  Bytes tags;
  std::size_t number = 100;
  for (const uint16_t type : types) {
    tags.resize(tags.size() + 4);
    put16(tags, tags.size() - 4, type);
    put16(tags, tags.size() - 2, 0x2000 + number++);
  }
  Bytes out = f;
  out.insert(out.begin() + 12, tags.begin(), tags.end());
  return out;
}

// Extension headers in front of what an IPv6 frame carries: kind, and bytes of each.
inline Bytes with_extensions(const FrameSpec& s,
                             std::initializer_list<std::pair<uint8_t, std::size_t>> chain) {
  Bytes f = make_frame(s), all;
  std::size_t kind_at = l3_of(s) + 6;
  Bytes* kind_in = &f;
  for (const auto& [kind, bytes] : chain) {
    const std::size_t at = all.size();
    all.resize(at + bytes);
    all[at] = (*kind_in)[kind_at];
    if (kind != 44) all[at + 1] = static_cast<std::byte>(bytes / 8 - 1);
    (*kind_in)[kind_at] = static_cast<std::byte>(kind);
    kind_in = &all;
    kind_at = at;
  }
  f.insert(f.begin() + static_cast<long>(l4_of(s)), all.begin(), all.end());
  put16(f, l3_of(s) + 4, f.size() - l4_of(s));
  return f;
}

inline Bytes cut_to(Bytes f, std::size_t bytes) {
  f.resize(bytes);
  return f;
}
// With 16 bits changed.
inline Bytes with16(Bytes f, std::size_t at, std::size_t value) {
  put16(f, at, value);
  return f;
}

// Eight bytes of options, or as many as the header's length says.
inline Bytes with_options(bool tcp, std::size_t words, std::size_t there) {
  Bytes f = make_frame({.tcp = tcp});
  f.insert(f.begin() + 34, there, std::byte{1});
  f[14] = static_cast<std::byte>(0x40 + words);
  put16(f, 16, f.size() - 14);
  return f;
}

std::vector<OddFrame> odd_frames();

}  // namespace kilim::test
