// SPDX-License-Identifier: BSD-3-Clause
// Reads the dynamic section of a loaded library and overwrites what its relocations filled in.

#include "vhca/entry/got.hh"

#include <cerrno>
#include <cstdint>
#include <cstring>

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

namespace kilim::vhca::entry {
namespace {

constexpr uint32_t jump_slot = R_X86_64_JUMP_SLOT;
constexpr uint32_t global_data = R_X86_64_GLOB_DAT;

struct Search {
  const char* library;
  std::span<const Redirect> redirects;
  std::span<void**> entries;  // not filled yet
  int changed = 0;
};

struct Tables {
  const Elf64_Sym* symbols = nullptr;
  const char* names = nullptr;
  std::span<const Elf64_Rela> plt;
  std::span<const Elf64_Rela> data;
};

template <typename T>
const T* at_address(Elf64_Addr base, Elf64_Addr address) noexcept {
  // The loader has made these absolute, but for those of the vDSO, which is lower than any base.
  return reinterpret_cast<const T*>(address < base ? base + address : address);
}

Tables read_dynamic(const dl_phdr_info& info) noexcept {
  Tables t;
  const Elf64_Dyn* d = nullptr;
  for (int i = 0; i < info.dlpi_phnum; i++) {
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      d = reinterpret_cast<const Elf64_Dyn*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    }
  }
  const Elf64_Rela *plt = nullptr, *data = nullptr;
  std::size_t plt_bytes = 0, data_bytes = 0;
  for (; d != nullptr && d->d_tag != DT_NULL; d++) {
    if (d->d_tag == DT_SYMTAB) t.symbols = at_address<Elf64_Sym>(info.dlpi_addr, d->d_un.d_ptr);
    if (d->d_tag == DT_STRTAB) t.names = at_address<char>(info.dlpi_addr, d->d_un.d_ptr);
    if (d->d_tag == DT_JMPREL) plt = at_address<Elf64_Rela>(info.dlpi_addr, d->d_un.d_ptr);
    if (d->d_tag == DT_PLTRELSZ) plt_bytes = d->d_un.d_val;
    if (d->d_tag == DT_RELA) data = at_address<Elf64_Rela>(info.dlpi_addr, d->d_un.d_ptr);
    if (d->d_tag == DT_RELASZ) data_bytes = d->d_un.d_val;
  }
  if (plt != nullptr) t.plt = {plt, plt_bytes / sizeof(Elf64_Rela)};
  if (data != nullptr) t.data = {data, data_bytes / sizeof(Elf64_Rela)};
  return t;
}

// The page is read-only after relocation in libraries linked with -z relro -z now.
int write_entry(void** entry, void* value) noexcept {
  if (*entry == value) return 0;
  const auto page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t page = reinterpret_cast<uintptr_t>(entry) & ~(page_bytes - 1);
  void* start = reinterpret_cast<void*>(page);
  if (::mprotect(start, page_bytes, PROT_READ | PROT_WRITE) != 0) return -errno;
  __atomic_store_n(entry, value, __ATOMIC_RELEASE);
  return 1;
}

// Pages that RELRO covers become read-only again; those of a lazily bound table stay as they were.
void protect_again(const dl_phdr_info& info) noexcept {
  const auto page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (int i = 0; i < info.dlpi_phnum; i++) {
    const Elf64_Phdr& p = info.dlpi_phdr[i];
    if (p.p_type != PT_GNU_RELRO) continue;
    const uintptr_t start = (info.dlpi_addr + p.p_vaddr) & ~(page_bytes - 1);
    const uintptr_t end = (info.dlpi_addr + p.p_vaddr + p.p_memsz) & ~(page_bytes - 1);
    if (end > start) ::mprotect(reinterpret_cast<void*>(start), end - start, PROT_READ);
  }
}

void note_entry(Search& search, void** entry) noexcept {
  if (search.entries.empty()) return;
  search.entries.front() = entry;
  search.entries = search.entries.subspan(1);
}

int redirect_table(const dl_phdr_info& info, const Tables& t, std::span<const Elf64_Rela> table,
                   Search& search) noexcept {
  int changed = 0;
  for (const Elf64_Rela& r : table) {
    const auto type = static_cast<uint32_t>(ELF64_R_TYPE(r.r_info));
    if (type != jump_slot && type != global_data) continue;
    const char* name = t.names + t.symbols[ELF64_R_SYM(r.r_info)].st_name;
    for (const Redirect& redirect : search.redirects) {
      if (std::strcmp(name, redirect.symbol) != 0) continue;
      auto** entry = reinterpret_cast<void**>(info.dlpi_addr + r.r_offset);
      const int wrote = write_entry(entry, redirect.to);
      if (wrote < 0) return wrote;
      changed += wrote;
      note_entry(search, entry);
    }
  }
  return changed;
}

int visit(dl_phdr_info* info, std::size_t, void* argument) {
  auto& search = *static_cast<Search*>(argument);
  const char* slash = std::strrchr(info->dlpi_name, '/');
  const char* file = slash == nullptr ? info->dlpi_name : slash + 1;
  if (std::strncmp(file, search.library, std::strlen(search.library)) != 0) return 0;
  const Tables tables = read_dynamic(*info);
  if (tables.symbols == nullptr || tables.names == nullptr) return 0;
  for (std::span<const Elf64_Rela> table : {tables.plt, tables.data}) {
    const int changed = redirect_table(*info, tables, table, search);
    search.changed = changed < 0 ? changed : search.changed + changed;
    if (changed < 0) break;
  }
  protect_again(*info);
  return search.changed < 0 ? 1 : 0;
}

}  // namespace

int redirect_calls(const char* library, std::span<const Redirect> redirects,
                   std::span<void**> entries) noexcept {
  Search search{library, redirects, entries};
  ::dl_iterate_phdr(visit, &search);
  return search.changed;
}

}  // namespace kilim::vhca::entry
