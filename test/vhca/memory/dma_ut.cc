// SPDX-License-Identifier: BSD-3-Clause
// The guarded copy against every kind of bad memory.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "dma_fixture.hh"
#include "ut.hh"
#include "vhca/memory/dma.hh"
#include "vhca/memory/dma_guard.hh"
#include "vhca/memory/dma_inline.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;

namespace dma_ut {
namespace {

void values_of_each_size_cross_unchanged() {
  CU_ASSERT(round_trip(uint8_t{0xa5}));
  CU_ASSERT(round_trip(uint16_t{0xa55a}));
  CU_ASSERT(round_trip(uint32_t{0xdeadbeef}));
  CU_ASSERT(round_trip(uint64_t{0x0123456789abcdef}));
}

void copies_move_exactly_their_bytes() {
  std::vector<std::byte> from(9000), to(9000), want(9000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256);
  int bad = 0;
  auto try_one = [&](std::size_t n, std::size_t a, std::size_t b) {
    std::fill(to.begin(), to.end(), std::byte{0xee});
    std::fill(want.begin(), want.end(), std::byte{0xee});
    std::memcpy(want.data() + a, from.data() + b, n);
    bad += !memory::dma::copy(va(to.data() + a), va(from.data() + b), n) || to != want;
  };
  for (std::size_t n = 0; n < 280; ++n) try_one(n, 64 + n % 17, 64 + n % 13);
  for (std::size_t n :
       {383u, 384u, 385u, 640u, 1024u, 2047u, 2048u, 2049u, 2111u, 2112u, 2113u, 4096u, 8000u}) {
    for (std::size_t a = 0; a < 66; a += 5) try_one(n, a, 70 - a);
  }
  EQUAL(bad, 0);
}

void compare_tells_equal_from_different_and_fault() {
  std::vector<std::byte> a(1000, std::byte{1}), b(a);
  bool equal = false;
  CU_ASSERT(memory::dma::compare(va(a.data()), b.data(), a.size(), equal));
  CU_ASSERT(equal);
  b[999] = std::byte{2};
  CU_ASSERT(memory::dma::compare(va(a.data()), b.data(), a.size(), equal));
  CU_ASSERT(!equal);
}

void atomics_return_what_was_there() {
  alignas(8) uint64_t word = 5;
  uint64_t old = 0;
  CU_ASSERT(memory::dma::fetch_add(va(&word), 3, old) && old == 5 && word == 8);
  CU_ASSERT(memory::dma::exchange(va(&word), 9, old) && old == 8 && word == 9);
  CU_ASSERT(memory::dma::compare_exchange(va(&word), 8, 1, old) && old == 9 && word == 9);
  CU_ASSERT(memory::dma::compare_exchange(va(&word), 9, 1, old) && old == 9 && word == 1);
  CU_ASSERT(!memory::dma::fetch_add(at(va(&word), 4), 1, old));
  EQUAL(word, 1);
}

void unmapped_memory_is_a_fault_for_every_call() {
  Va a;
  {
    Pages gone(PROT_NONE);
    a = gone.second();
  }
  EQUAL(reads_done(a), 0);
  EQUAL(writes_done(a), 0);
  EQUAL(reads_done(Va{0}), 0);
  EQUAL(writes_done(Va{0}), 0);
}

void forbidden_memory_is_a_fault_and_read_only_memory_can_be_read() {
  Pages none(PROT_NONE);
  EQUAL(reads_done(none.second()), 0);
  EQUAL(writes_done(none.second()), 0);
  Pages readable(PROT_READ);
  EQUAL(reads_done(readable.second()), all_reads);
  EQUAL(writes_done(readable.second()), 0);
  EQUAL(reads_done(va(readable.mem)), all_reads);
  EQUAL(writes_done(va(readable.mem)), all_writes);
}

void a_file_cut_off_under_its_mapping_is_a_fault() {
  int fd = memfd_create("cut", 0);
  CU_ASSERT_FATAL(fd >= 0);
  EQUAL_FATAL(ftruncate(fd, 2 * page), 0);
  void* p = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CU_ASSERT_FATAL(p != MAP_FAILED);
  EQUAL_FATAL(ftruncate(fd, page), 0);
  Va second = at(va(p), page);
  EQUAL(reads_done(second), 0);
  EQUAL(writes_done(second), 0);
  EQUAL(reads_done(va(p)), all_reads);
  munmap(p, 2 * page);
  close(fd);
}

void addresses_that_no_process_has_are_faults() {
  for (uint64_t a :
       {uint64_t{1} << 47, uint64_t{1} << 55, uint64_t{1} << 56, uint64_t{1} << 63, ~uint64_t{0},
        ~uint64_t{0} - 7, uint64_t{0xffffffffff600000}, uint64_t{0x8000000000000000}}) {
    EQUAL(reads_done(Va{a}), 0);
    EQUAL(writes_done(Va{a}), 0);
  }
}

void lengths_that_wrap_the_address_space_are_faults() {
  std::byte mem[64] = {};
  std::byte other[64] = {};
  CU_ASSERT(!memory::dma::copy_in(other, va(mem), ~std::size_t{0}));
  CU_ASSERT(!memory::dma::copy_out(va(mem), other, ~std::size_t{0} - va(mem).value() + 2));
  CU_ASSERT(!memory::dma::copy(va(mem), va(other), std::size_t{1} << 63));
  CU_ASSERT(memory::dma::copy(Va{0}, Va{0}, 0));
}

void a_fault_in_the_middle_spares_what_is_not_allowed() {
  for (std::size_t n : {8u, 40u, 64u, 300u, 3000u, 4096u}) {
    Pages half(PROT_NONE);
    std::vector<std::byte> data(n, std::byte{0x77});
    Va start = Va{half.second().value() - n / 2};
    CU_ASSERT(!memory::dma::copy_out(start, data.data(), n));
    CU_ASSERT(!memory::dma::copy_in(data.data(), start, n));
    mprotect(half.mem + page, page, PROT_READ);
    EQUAL(half.mem[page - n / 2 - 1], std::byte{0x11});
    EQUAL(half.mem[page], std::byte{0x11});
  }
}

void copies_up_to_the_last_byte_do_not_reach_beyond() {
  Pages half(PROT_NONE);
  std::byte to[2048];
  int done = 0;
  for (std::size_t n = 0; n <= sizeof(to); ++n) {
    Va start = Va{half.second().value() - n};
    done += memory::dma::copy_in(to, start, n) && memory::dma::copy_out(start, to, n);
  }
  EQUAL(done, sizeof(to) + 1);
}

void other_threads_fault_and_copy_at_the_same_time() {
  Pages half(PROT_NONE);
  std::array<int, 4> good{};
  std::vector<std::thread> threads;
  for (int& g : good) {
    threads.emplace_back([&] {
      std::byte mine[128] = {};
      for (int i = 0; i < 500; ++i) {
        g += !memory::dma::copy_in(mine, half.second(), 128);
        g += memory::dma::copy_in(mine, va(half.mem), 128) && mine[127] == std::byte{0x11};
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (int g : good) EQUAL(g, 1000);
}

double nanoseconds(std::size_t bytes, bool guarded) {
  static std::vector<std::byte> from(1 << 16, std::byte{1}), to(1 << 16, std::byte{2});
  const int rounds = bytes > 4096 ? 500 : 20000;
  double best = 1e9;
  for (int sample = 0; sample < 9; ++sample) {
    timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < rounds; ++i) {
      if (guarded) {
        if (!memory::dma::copy_in(to.data(), va(from.data()), bytes)) return -1;
      } else {
        std::memcpy(to.data(), from.data(), bytes);
        asm volatile("" ::"r"(to.data()) : "memory");
      }
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    double ns = static_cast<double>((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec);
    best = ns / rounds < best ? ns / rounds : best;
  }
  return best;
}

void the_speed_is_printed() {
  for (std::size_t n : {8u, 64u, 256u, 1024u, 1500u, 2048u, 4096u, 65536u}) {
    double ours = nanoseconds(n, true);
    std::printf("\n    %6zu B: %.1f ns, memcpy %.1f ns", n, ours, nanoseconds(n, false));
    CU_ASSERT(ours > 0);
  }
}

// Each move in line, at memory that is there, up to the last byte, and across into what is not.
void moves_in_line_are_guarded() {
  const Pages p(PROT_NONE);
  std::byte mine[64];
  std::memset(mine, 0x22, sizeof mine);
  const uint64_t end = p.second().value(), here = va(mine).value();
  const __m128i middle = _mm_set1_epi8(0x33);
  EQUAL(memory::dma::read_ctrl(end - 12).head, 0x1111111111111111);
  EQUAL(memory::dma::read_ctrl(end - 12).flags >> 24, 0x11);
  EQUAL(memory::dma::read_ctrl(end - 11).head, 0);
  EQUAL(memory::dma::read_ctrl(end).head, 0);
  EQUAL(memory::dma::read_plain(end - 48).length_and_key, 0x1111111111111111);
  EQUAL(memory::dma::read_plain(end - 47).length_and_key, 0);
  EQUAL(memory::dma::read_plain(end).length_and_key, 0);
  for (std::size_t n = 32; n <= 64; n++) {
    CU_ASSERT(memory::dma::move_32_to_64(end - n, here, n));
    EQUAL(p.mem[page - 1], std::byte{0x22});
    EQUAL(p.mem[page - n], std::byte{0x22});
    EQUAL(p.mem[page - n - 1], std::byte{0x11});
    CU_ASSERT(!memory::dma::move_32_to_64(end - n + 1, here, n));
    CU_ASSERT(!memory::dma::move_32_to_64(here, end - n + 1, n));
    std::memset(p.mem, 0x11, page);
  }
  CU_ASSERT(memory::dma::give_64(end - 64, middle, 4, 5));
  uint64_t words[8];
  std::memcpy(words, p.mem + page - 64, sizeof words);
  EQUAL(words[0], 0);
  EQUAL(words[3], 0);
  EQUAL(words[4], 0x3333333333333333);
  EQUAL(words[5], 0x3333333333333333);
  EQUAL(words[6], 4);
  EQUAL(words[7], 5);
  CU_ASSERT(!memory::dma::give_64(end - 56, middle, 4, 5));
  CU_ASSERT(!memory::dma::give_64(end, middle, 4, 5));
}

constexpr kilim::test::Case cases[] = {
    {"values of each size cross unchanged", values_of_each_size_cross_unchanged},
    {"copies move exactly their bytes", copies_move_exactly_their_bytes},
    {"compare tells equal from different", compare_tells_equal_from_different_and_fault},
    {"atomics return what was there", atomics_return_what_was_there},
    {"unmapped memory is a fault for every call", unmapped_memory_is_a_fault_for_every_call},
    {"forbidden memory is a fault and read-only memory can be read",
     forbidden_memory_is_a_fault_and_read_only_memory_can_be_read},
    {"a file cut off under its mapping is a fault", a_file_cut_off_under_its_mapping_is_a_fault},
    {"addresses that no process has are faults", addresses_that_no_process_has_are_faults},
    {"lengths that wrap the address space are faults",
     lengths_that_wrap_the_address_space_are_faults},
    {"a fault in the middle spares what is not allowed",
     a_fault_in_the_middle_spares_what_is_not_allowed},
    {"copies up to the last byte do not reach beyond",
     copies_up_to_the_last_byte_do_not_reach_beyond},
    {"other threads fault and copy at the same time",
     other_threads_fault_and_copy_at_the_same_time},
    {"moves in line are guarded", moves_in_line_are_guarded},
    {"the speed is printed", the_speed_is_printed},
};

}  // namespace
}  // namespace dma_ut

KILIM_TEST_MAIN(dma) {
  if (!memory::dma::install()) return 2;
  return kilim::test::run_cases("vhca/memory/dma", dma_ut::cases, argc, argv);
}
