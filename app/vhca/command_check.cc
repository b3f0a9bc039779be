// SPDX-License-Identifier: BSD-3-Clause
// Reads the file's mode, its capabilities, its ELF header or its "#!" line.

#include "command_check.hh"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "kilim/detail/base/fd.hh"

namespace kilim::app {
namespace {

constexpr uint16_t our_machine = EM_X86_64;

// A regular file's bytes, read piece by piece and never mapped: who writes a program anew meanwhile
// cuts it off first.
class ProgramFile {
 public:
  explicit ProgramFile(const char* path)
      : fd_(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    struct stat st;
    if (fd_ && (::fstat(fd_.get(), &st) != 0 || !S_ISREG(st.st_mode))) fd_.reset();
  }
  // At most `count` of them at `offset`, as many as are there.
  template <typename T>
  [[nodiscard]] std::vector<T> table(uint64_t offset, uint64_t count) const {
    constexpr uint64_t most = 1 << 16;  // as many as ELF counts program headers
    std::vector<T> entries(static_cast<std::size_t>(std::min(count, most)));
    const ssize_t n = offset > INT64_MAX
                          ? 0
                          : ::pread(fd_.get(), entries.data(), entries.size() * sizeof(T),
                                    static_cast<off_t>(offset));
    entries.resize(n <= 0 ? 0 : static_cast<std::size_t>(n) / sizeof(T));
    return entries;
  }
  [[nodiscard]] std::string text_at(uint64_t offset) const {
    const std::vector<char> bytes = table<char>(offset, PATH_MAX);
    return {bytes.data(), ::strnlen(bytes.data(), bytes.size())};
  }

 private:
  Fd fd_;
};

// The offset in the file of an address of the loaded program.
uint64_t file_offset(std::span<const Elf64_Phdr> segments, uint64_t address) noexcept {
  for (const Elf64_Phdr& p : segments) {
    if (p.p_type == PT_LOAD && address >= p.p_vaddr && address - p.p_vaddr < p.p_filesz) {
      return p.p_offset + (address - p.p_vaddr);
    }
  }
  return UINT64_MAX;
}

std::string needed_asan(const ProgramFile& file, std::span<const Elf64_Phdr> segments,
                        const Elf64_Phdr& dynamic) {
  const auto entries =
      file.table<Elf64_Dyn>(dynamic.p_offset, dynamic.p_filesz / sizeof(Elf64_Dyn));
  uint64_t names = UINT64_MAX;
  for (const Elf64_Dyn& d : entries) {
    if (d.d_tag == DT_STRTAB) names = file_offset(segments, d.d_un.d_ptr);
  }
  for (const Elf64_Dyn& d : entries) {
    if (d.d_tag != DT_NEEDED || names == UINT64_MAX) continue;
    std::string name = file.text_at(names + d.d_un.d_val);
    if (name.starts_with("libasan.so") || name.starts_with("libclang_rt.asan")) return name;
  }
  return {};
}

bool is_ours(std::span<const Elf64_Ehdr> header) noexcept {
  return !header.empty() && std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) == 0 &&
         header[0].e_ident[EI_CLASS] == ELFCLASS64 && header[0].e_machine == our_machine;
}

Result<Command> check_elf(const char* path, const ProgramFile& file) {
  const auto header = file.table<Elf64_Ehdr>(0, 1);
  if (!is_ours(header)) {
    return Error{ENOEXEC, "it is a program of another architecture: our library cannot be loaded"};
  }
  const auto segments = file.table<Elf64_Phdr>(header[0].e_phoff, header[0].e_phnum);
  const Elf64_Phdr* dynamic = nullptr;
  bool has_loader = false;
  for (const Elf64_Phdr& p : segments) {
    if (p.p_type == PT_INTERP) has_loader = true;
    if (p.p_type == PT_DYNAMIC) dynamic = &p;
  }
  if (!has_loader || dynamic == nullptr) {
    return Error{ENOEXEC, "it is statically linked: our library cannot be loaded into it"};
  }
  return Command{path, needed_asan(file, segments, *dynamic)};
}

Result<Command> check_file(const char* path, int depth);

// "#! /path/of/interpreter argument": the interpreter is what gets our library.
Result<Command> check_script(const char* path, std::string_view line, int depth) {
  line = line.substr(2, line.find('\n') - 2);
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return Error{ENOEXEC, "its first line names no interpreter"};
  line = line.substr(begin);
  const std::string interpreter(line.substr(0, line.find_first_of(" \t\r")));
  auto checked = check_file(interpreter.c_str(), depth + 1);
  if (!checked.ok()) return checked.error();
  return Command{path, checked->asan};
}

Result<Command> check_file(const char* path, int depth) {
  constexpr int max_interpreters = 4;  // as the kernel
  struct stat st;
  if (depth > max_interpreters) return Error{ELOOP, "its interpreters nest too deeply"};
  if (::stat(path, &st) != 0) return Error{ENOENT, "it (or its interpreter) is not there"};
  if (!S_ISREG(st.st_mode) || ::access(path, X_OK) != 0) {
    return Error{EACCES, "it is not an executable file"};
  }
  if ((st.st_mode & (S_ISUID | S_ISGID)) != 0) {
    return Error{EPERM, "it is setuid or setgid: the loader takes no library of ours into it"};
  }
  if (::getxattr(path, "security.capability", nullptr, 0) > 0) {
    return Error{EPERM, "it has file capabilities: the loader takes no library of ours into it"};
  }
  const ProgramFile file(path);
  const std::vector<char> bytes = file.table<char>(0, PATH_MAX);
  const std::string_view head(bytes.data(), bytes.size());
  if (head.empty()) return Error{EACCES, "it cannot be read, so not be checked"};
  if (head.starts_with(std::string_view(ELFMAG, SELFMAG))) return check_elf(path, file);
  if (head.size() > 2 && head.starts_with("#!")) return check_script(path, head, depth);
  return Error{ENOEXEC, "it is neither a program nor a script with an interpreter"};
}

std::string search_path(std::string_view name) {
  const char* variable = ::getenv("PATH");
  std::string_view folders = variable == nullptr ? "/usr/bin:/bin" : variable;
  for (;;) {
    const std::size_t end = folders.find(':');
    std::string path(end == 0 ? "." : folders.substr(0, end));
    path += '/';
    path += name;
    struct stat st;
    if (::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) &&
        ::access(path.c_str(), X_OK) == 0) {
      return path;
    }
    if (end == std::string_view::npos) return {};
    folders.remove_prefix(end + 1);
  }
}

}  // namespace

std::string find_asan(const char* path) {
  const ProgramFile file(path);
  const auto header = file.table<Elf64_Ehdr>(0, 1);
  if (!is_ours(header)) return {};
  const auto segments = file.table<Elf64_Phdr>(header[0].e_phoff, header[0].e_phnum);
  for (const Elf64_Phdr& p : segments) {
    if (p.p_type == PT_DYNAMIC) return needed_asan(file, segments, p);
  }
  return {};
}

Result<Command> find_command(const char* name) {
  const std::string path = std::strchr(name, '/') == nullptr ? search_path(name) : name;
  if (path.empty()) return Error{ENOENT, "there is no such command in PATH"};
  return check_file(path.c_str(), 0);
}

}  // namespace kilim::app
