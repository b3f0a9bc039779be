// SPDX-License-Identifier: BSD-3-Clause
// Replaces what names a machine: addresses of ports, GIDs, GUIDs, serial numbers, in whatever form
// they stand in a text: words with colons, digits of a dumped WQE or completion entry, printed
// addresses. The same bytes get the same replacement everywhere, so rows still agree with each
// other. A value, one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "answer.hh"

namespace kilim::exam {

class Secrets {
 public:
  // Kinds: "mac" (6 bytes), "gid" (16), "guid" (8), "ip" (4), "text". Halves of a GID and the
  // identifiers that are made of a MAC are taken along. Bytes that are all zero name nothing.
  void add(const Secret& secret);
  [[nodiscard]] std::string without(std::string_view text) const;

 private:
  struct Known {
    std::vector<uint8_t> bytes, instead;
  };
  void add_bytes(std::vector<uint8_t> bytes, std::vector<uint8_t> instead);
  void add_word(std::string word, std::string instead);
  void add_gid(const std::vector<uint8_t>& gid, uint8_t number);

  std::vector<Known> known_;
  std::vector<Pair> words_;  // a text and what stands in its place
  uint8_t count_ = 0;
};

}  // namespace kilim::exam
