// SPDX-License-Identifier: BSD-3-Clause
// Reads the file's mode, its capabilities, its ELF header or its "#!" line.

#include "command_check.hh"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "kilim/base/fd.hh"

namespace kilim::app {
namespace {

constexpr uint16_t our_machine = EM_X86_64;

using Bytes = std::span<const char>;

// The file's bytes for as long as this lives; empty where it cannot be read.
class MappedFile {
 public:
  explicit MappedFile(const char* path) {
    const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
    struct stat st;
    if (!fd || ::fstat(fd.get(), &st) != 0 || st.st_size <= 0) return;
    const auto size = static_cast<std::size_t>(st.st_size);
    void* at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (at != MAP_FAILED) bytes_ = {static_cast<const char*>(at), size};
  }
  ~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  [[nodiscard]] Bytes bytes() const noexcept { return bytes_; }

 private:
  Bytes bytes_;
};

// A table of T at `offset`, cut to what is there.
template <typename T>
std::span<const T> table(Bytes file, uint64_t offset, uint64_t count) noexcept {
  if (offset > file.size() || offset % alignof(T) != 0) return {};
  const uint64_t room = (file.size() - offset) / sizeof(T);
  return {reinterpret_cast<const T*>(file.data() + offset),
          static_cast<std::size_t>(count < room ? count : room)};
}

// Where an address of the loaded program lies in the file.
uint64_t file_offset(std::span<const Elf64_Phdr> segments, uint64_t address) noexcept {
  for (const Elf64_Phdr& p : segments) {
    if (p.p_type == PT_LOAD && address >= p.p_vaddr && address - p.p_vaddr < p.p_filesz) {
      return p.p_offset + (address - p.p_vaddr);
    }
  }
  return UINT64_MAX;
}

std::string_view string_at(Bytes file, uint64_t offset) noexcept {
  if (offset >= file.size()) return {};
  const char* text = file.data() + offset;
  return {text, ::strnlen(text, file.size() - offset)};
}

std::string needed_asan(Bytes file, std::span<const Elf64_Phdr> segments,
                        const Elf64_Phdr& dynamic) {
  const auto entries =
      table<Elf64_Dyn>(file, dynamic.p_offset, dynamic.p_filesz / sizeof(Elf64_Dyn));
  uint64_t names = UINT64_MAX;
  for (const Elf64_Dyn& d : entries) {
    if (d.d_tag == DT_STRTAB) names = file_offset(segments, d.d_un.d_ptr);
  }
  for (const Elf64_Dyn& d : entries) {
    if (d.d_tag != DT_NEEDED || names == UINT64_MAX) continue;
    const std::string_view name = string_at(file, names + d.d_un.d_val);
    if (name.starts_with("libasan.so") || name.starts_with("libclang_rt.asan")) {
      return std::string(name);
    }
  }
  return {};
}

bool is_ours(std::span<const Elf64_Ehdr> header) noexcept {
  return !header.empty() && std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) == 0 &&
         header[0].e_ident[EI_CLASS] == ELFCLASS64 && header[0].e_machine == our_machine;
}

Result<Command> check_elf(const char* path, Bytes file) {
  const auto header = table<Elf64_Ehdr>(file, 0, 1);
  if (!is_ours(header)) {
    return Error{ENOEXEC, "it is a program of another architecture: our library cannot be loaded"};
  }
  const auto segments = table<Elf64_Phdr>(file, header[0].e_phoff, header[0].e_phnum);
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
Result<Command> check_script(const char* path, Bytes file, int depth) {
  std::string_view line(file.data(), file.size());
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
  const MappedFile file(path);
  const Bytes bytes = file.bytes();
  if (bytes.empty()) return Error{EACCES, "it cannot be read, so not be checked"};
  if (bytes.size() >= SELFMAG && std::memcmp(bytes.data(), ELFMAG, SELFMAG) == 0) {
    return check_elf(path, bytes);
  }
  if (bytes.size() > 2 && bytes[0] == '#' && bytes[1] == '!')
    return check_script(path, bytes, depth);
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
  const MappedFile file(path);
  const auto header = table<Elf64_Ehdr>(file.bytes(), 0, 1);
  if (!is_ours(header)) return {};
  const auto segments = table<Elf64_Phdr>(file.bytes(), header[0].e_phoff, header[0].e_phnum);
  for (const Elf64_Phdr& p : segments) {
    if (p.p_type == PT_DYNAMIC) return needed_asan(file.bytes(), segments, p);
  }
  return {};
}

Result<Command> find_command(const char* name) {
  const std::string path = std::strchr(name, '/') == nullptr ? search_path(name) : name;
  if (path.empty()) return Error{ENOENT, "there is no such command in PATH"};
  return check_file(path.c_str(), 0);
}

}  // namespace kilim::app
