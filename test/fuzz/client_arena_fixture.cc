// SPDX-License-Identifier: BSD-3-Clause
// A bump allocator over the first part of the arena.
#include "client_arena_fixture.hh"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

namespace kilim::fuzz {

namespace {
std::size_t used = 0;
bool mapped = false;
uint8_t gone = 0;  // pages of the rings
constexpr std::size_t page_bytes = 4096;
constexpr uint64_t sanitizer_from = 0x7fff0000, nobody_from = uint64_t{1} << 32,
                   nobody_to = uint64_t{1} << 43;
}  // namespace

void reset_arena() {
  used = 0;
  if (!mapped) {
    void* p = ::mmap(reinterpret_cast<void*>(arena_at), arena_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != reinterpret_cast<void*>(arena_at)) {
      std::perror("the arena cannot be mapped");
      std::abort();
    }
    // Without a sanitizer nothing is mapped there.
    (void)::mprotect(reinterpret_cast<void*>(nobody_from), nobody_to - nobody_from, PROT_NONE);
    mapped = true;
  }
  if (gone != 0) {
    void* const rings = reinterpret_cast<void*>(arena_rings);
    if (::mmap(rings, 8 * page_bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != rings)
      std::abort();
    gone = 0;
  }
  std::memset(reinterpret_cast<void*>(arena_at), 0, arena_bytes);
}

void unmap_rings(uint8_t pages) {
  for (std::size_t k = 0; k < 8; k++)
    if ((pages >> k & 1) != 0)
      (void)::munmap(reinterpret_cast<void*>(arena_rings + k * page_bytes), page_bytes);
  gone |= pages;
}

void write_rings(std::size_t at, std::span<const std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); i++) {
    const std::size_t to = (at + i) % (8 * page_bytes);
    if ((gone >> to / page_bytes & 1) == 0)
      *reinterpret_cast<std::byte*>(arena_rings + to) = bytes[i];
  }
}

// Where nothing of this process lies, bits 32 and up of a pair of small numbers may be: below 1
// TiB. There is only the shadow of memory that nobody has, and reset_arena() takes it away.
uint64_t fenced(uint64_t value) noexcept {
  bool shadow = value >= sanitizer_from && value < uint64_t{1} << 32;
  bool process = value >= nobody_to && value < uint64_t{1} << 48;
  return shadow || process ? value | uint64_t{1} << 63 : value;
}

void fence(std::span<std::byte> bytes) noexcept {
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    uint64_t v = 0;
    std::memcpy(&v, bytes.data() + at, sizeof(v));
    v = fenced(v);
    std::memcpy(bytes.data() + at, &v, sizeof(v));
  }
}

std::byte* place(std::size_t bytes) noexcept {
  std::size_t whole = (bytes + 15) / 16 * 16;
  if (whole > arena_rings - arena_at - used) return nullptr;
  auto* at = reinterpret_cast<std::byte*>(arena_at + used);
  used += whole;
  return at;
}

std::byte* place(std::span<const std::byte> bytes) noexcept {
  std::byte* at = place(bytes.size());
  if (at != nullptr && !bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
  return at;
}

}  // namespace kilim::fuzz
