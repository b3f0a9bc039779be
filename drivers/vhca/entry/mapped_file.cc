// SPDX-License-Identifier: BSD-3-Clause
// The name of a memory tells of which tree and path it is, so that a number of a process or of a
// descriptor that is another's by now leads to nothing: memfd_create(2), proc(5), /proc/PID/fd.
// Asks the kernel directly, as calls of this room may be interposed.
#include "vhca/entry/mapped_file.hh"

#include <algorithm>
#include <cerrno>
#include <climits>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vhca/core/sealed.hh"
#include "vhca/entry/raw.hh"

namespace kilim::vhca::entry {

namespace {

// At most the 249 bytes that memfd_create(2) takes: no path of the tree is half as long.
std::string memory_name(const std::string& tree, const std::string& path) {
  std::string name = tree.substr(tree.rfind('/') + 1) + ":" + path;
  std::replace(name.begin(), name.end(), '/', ':');
  return name;
}

std::string link_of(pid_t owner, int fd) {
  return "/proc/" + std::to_string(owner) + "/fd/" + std::to_string(fd);
}

// What /proc calls an open memory.
bool has_name(int fd, const std::string& name) {
  char text[PATH_MAX];
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t n = ::readlink(path.c_str(), text, sizeof(text));
  return n > 0 && std::string(text, static_cast<std::size_t>(n)) == "/memfd:" + name + " (deleted)";
}

}  // namespace

bool MappedFiles::make(const std::string& tree, const std::string& path, const void* bytes,
                       std::size_t n) {
  Fd memory = sealed_memory(memory_name(tree, path).c_str(), n);
  if (!memory || ::fchmod(memory.get(), 0644) != 0 ||
      raw::write(memory.get(), bytes, n) != static_cast<ssize_t>(n) ||
      ::symlink(link_of(::getpid(), memory.get()).c_str(), (tree + "/" + path).c_str()) != 0)
    return false;
  files_.emplace_back(tree + "/" + path, std::move(memory));
  return true;
}

void MappedFiles::remove(const std::string& tree, const std::string& path) noexcept {
  const std::string whole = tree + "/" + path;
  ::unlink(whole.c_str());
  std::erase_if(files_, [&](const auto& file) { return file.first == whole; });
}

void* map_file(const std::string& tree, const std::string& path, std::size_t bytes) {
  const Fd file(
      raw::open_at(AT_FDCWD, (tree + "/" + path).c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK, 0));
  if (!file || !has_name(file.get(), memory_name(tree, path)) ||
      !is_sealed_memory(file.get(), bytes))
    return nullptr;
  void* at = raw::map(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  return at == MAP_FAILED ? nullptr : at;
}

}  // namespace kilim::vhca::entry
