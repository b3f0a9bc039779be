// SPDX-License-Identifier: BSD-3-Clause
// For tests of the guarded copy: pages with a border, and every call that reads or writes.
#pragma once

#include <array>
#include <cstring>

#include <sys/mman.h>

#include "vhca/memory/dma.hh"
#include "vhca/memory/dma_inline.hh"

namespace kilim::vhca::test {

inline constexpr std::size_t page = 4096;

inline Va va(const void* p) {
  return Va{reinterpret_cast<uint64_t>(p)};
}

inline Va at(Va base, uint64_t offset) {
  return Va{base.value() + offset};
}

// Two pages of which the second allows only `protection`.
struct Pages {
  explicit Pages(int protection)
      : mem(static_cast<std::byte*>(
            mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    std::memset(mem, 0x11, 2 * page);
    mprotect(mem + page, page, protection);
  }
  ~Pages() { munmap(mem, 2 * page); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* mem;
  [[nodiscard]] Va second() const { return va(mem + page); }
};

template <typename T>
bool round_trip(T value) {
  alignas(8) std::byte mem[16] = {};
  T back = 0;
  bool ok = true;
  for (std::size_t off = 0; off < 8; ++off) {
    T plain;
    ok = ok && memory::dma::store(va(mem + off), value) && memory::dma::load(va(mem + off), back) &&
         back == value;
    std::memcpy(&plain, mem + off, sizeof(T));
    ok = ok && plain == value;
  }
  return ok;
}

// How many of the calls that only read, and of those that write, succeed at an address.
inline int reads_done(Va a) {
  uint8_t b = 0;
  uint16_t h = 0;
  uint32_t w = 0;
  uint64_t d = 0;
  bool equal = false;
  std::byte big[2048];
  return memory::dma::load(a, b) + memory::dma::load(a, h) + memory::dma::load(a, w) +
         memory::dma::load(a, d) + memory::dma::copy_in(big, a, 1) +
         memory::dma::copy_in(big, a, 64) + memory::dma::copy_in(big, a, 200) +
         memory::dma::copy_in(big, a, 600) + memory::dma::copy_in(big, a, sizeof(big)) +
         memory::dma::compare(a, big, 16, equal);
}

inline constexpr int all_reads = 10;

inline int writes_done(Va a) {
  uint64_t old = 0;
  static const std::byte big[2048] = {};
  return memory::dma::store(a, uint8_t{1}) + memory::dma::store(a, uint16_t{1}) +
         memory::dma::store(a, uint32_t{1}) + memory::dma::store(a, uint64_t{1}) +
         memory::dma::exchange(a, 1, old) + memory::dma::fetch_add(a, 1, old) +
         memory::dma::compare_exchange(a, 0, 1, old) + memory::dma::copy_out(a, big, 3) +
         memory::dma::copy_out(a, big, 64) + memory::dma::copy_out(a, big, 200) +
         memory::dma::copy_out(a, big, 600) + memory::dma::copy_out(a, big, sizeof(big)) +
         memory::dma::copy(a, va(big), 100);
}

inline constexpr int all_writes = 13;

}  // namespace kilim::vhca::test
