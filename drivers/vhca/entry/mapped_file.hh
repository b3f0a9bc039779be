// SPDX-License-Identifier: BSD-3-Clause
// Small files of the tree that processes share by mapping them. They are sealed memory of the
// tree's owner (core/sealed.hh), and the path is a link to the owner's descriptor: a file on a disk
// could be cut off by anybody of this user, and the next count would end a client by SIGBUS. They
// are read as long as the owner lives, and counted in as long as a client does. Set-up; one thread.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "kilim/detail/base/fd.hh"

namespace kilim::vhca::entry {

// The owner's descriptors, and where their links are.
class MappedFiles {
 public:
  // A new one at tree/path, which holds these bytes; false with errno set.
  bool make(const std::string& tree, const std::string& path, const void* bytes, std::size_t n);
  // The link goes, and with the last client the memory.
  void remove(const std::string& tree, const std::string& path) noexcept;

 private:
  std::vector<std::pair<std::string, Fd>> files_;  // by tree/path
};

// Stays mapped as long as the process lives: whoever counts may be writing. Null: no such file, or
// one that somebody put in its place.
void* map_file(const std::string& tree, const std::string& path, std::size_t bytes);

}  // namespace kilim::vhca::entry
