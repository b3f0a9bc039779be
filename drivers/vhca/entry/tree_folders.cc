// SPDX-License-Identifier: BSD-3-Clause
// Reads /proc and the locks of the folders: proc(5), /proc/PID/stat.
#include "vhca/entry/tree_folders.hh"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kilim/detail/base/fd.hh"
#include "vhca/entry/raw.hh"

namespace kilim::vhca::entry {

namespace {

int unlink_one(const char* path, const struct stat*, int, struct FTW*) {
  return ::remove(path);
}

// Whether the program lives for which the folder was made, though its launcher may not.
bool in_use(const Fd& lock) {
  char text[64];
  const ssize_t n = ::pread(lock.get(), text, sizeof(text) - 1, 0);
  if (n <= 0) return false;
  text[n] = '\0';
  int pid = 0;
  unsigned long long start = 0;
  return std::sscanf(text, "%d %llu", &pid, &start) == 2 && start != 0 && start_of(pid) == start;
}

// Removes `path` if nobody is left who needs it.
void sweep_one(const std::string& path) {
  struct stat st;
  if (::lstat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != ::geteuid()) return;
  const Fd lock(::open((path + "/lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 || in_use(lock)) return;
  remove_all(path);
}

}  // namespace

std::string base_folder() {
  const char* runtime = ::secure_getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/' && ::access(runtime, W_OK) == 0) return runtime;
  return "/tmp";
}

bool make_folders(const std::string& path) {
  for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), 0755) != 0 && errno != EEXIST) return false;
    if (at == std::string::npos) return true;
  }
}

bool write_file(const std::string& path, std::string text) {
  if (text.empty() || text.back() != '\n') text += '\n';
  const Fd file(
      raw::open_at(AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) return false;
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(file.get(), text.data() + done, text.size() - done);
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

void remove_all(const std::string& path) noexcept {
  ::nftw(path.c_str(), unlink_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

unsigned long long start_of(pid_t pid) {
  char text[1024];
  const Fd file(raw::open_at(AT_FDCWD, ("/proc/" + std::to_string(pid) + "/stat").c_str(),
                             O_RDONLY | O_CLOEXEC, 0));
  const ssize_t n = file ? ::read(file.get(), text, sizeof(text) - 1) : 0;
  if (n <= 0) return 0;
  text[n] = '\0';
  const char* behind_name = std::strrchr(text, ')');
  unsigned long long start = 0;
  char state = 'Z';
  constexpr const char* fields =
      ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu";
  if (behind_name == nullptr || std::sscanf(behind_name, fields, &state, &start) != 2) return 0;
  return state == 'Z' ? 0 : start;
}

void sweep(const std::string& base) {
  DIR* dir = ::opendir(base.c_str());
  if (dir == nullptr) return;
  while (const dirent* entry = ::readdir(dir)) {
    if (std::strncmp(entry->d_name, tree_prefix, std::strlen(tree_prefix)) == 0) {
      sweep_one(base + "/" + entry->d_name);
    }
  }
  ::closedir(dir);
}

}  // namespace kilim::vhca::entry
