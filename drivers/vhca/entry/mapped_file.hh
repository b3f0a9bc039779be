// SPDX-License-Identifier: BSD-3-Clause
// Small files of the tree that processes share by mapping them. Set-up; asks the kernel directly,
// as calls of this room may be interposed. errno says why not.
#pragma once

#include <cstddef>
#include <string>

#include "kilim/base/fd.hh"
#include "vhca/entry/raw.hh"

namespace kilim::vhca {

// A new file that holds these bytes.
inline bool make_file(const std::string& path, const void* bytes, std::size_t n) {
  const Fd file(
      raw::open_at(AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  return file && raw::write(file.get(), bytes, n) == static_cast<ssize_t>(n);
}

// Stays mapped as long as the process lives: whoever counts may be writing. Null: no such file, or
// a shorter one.
inline void* map_file(const std::string& path, std::size_t bytes) {
  const Fd file(raw::open_at(AT_FDCWD, path.c_str(), O_RDWR | O_CLOEXEC, 0));
  struct stat st;
  if (!file || raw::file_stat(file.get(), &st) != 0 || st.st_size < static_cast<off_t>(bytes))
    return nullptr;
  void* at = raw::map(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  return at == MAP_FAILED ? nullptr : at;
}

}  // namespace kilim::vhca
