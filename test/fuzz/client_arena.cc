// SPDX-License-Identifier: BSD-3-Clause
// A bump allocator over the first part of the arena.
#include "client_arena.hh"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

namespace kilim::fuzz {

namespace {
std::size_t used = 0;
bool mapped = false;
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
    mapped = true;
  }
  std::memset(reinterpret_cast<void*>(arena_at), 0, arena_bytes);
}

uint64_t fenced(uint64_t value) noexcept {
  bool inside = value >= arena_at && value < arena_at + arena_bytes;
  bool an_address = value >= 65536 && value < uint64_t{1} << 48;
  return inside || !an_address ? value : value | uint64_t{1} << 63;
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
