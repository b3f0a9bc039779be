// SPDX-License-Identifier: BSD-3-Clause
// How many bytes of a frame are its headers: a table over built frames, and no frame, however cut,
// makes the answer longer than the frame.
#include <cstring>
#include <random>
#include <vector>

#include "kilim/detail/port/packet_gather.hh"
#include "ut.hh"

namespace header_ut {
namespace {

using kilim::port::header_length;

std::vector<std::byte> bytes(std::initializer_list<unsigned> head, std::size_t size) {
  std::vector<std::byte> f(size);
  std::size_t i = 0;
  for (unsigned v : head) f[i++] = static_cast<std::byte>(v);
  return f;
}

std::vector<std::byte> ipv4(unsigned ihl, unsigned protocol, std::size_t size,
                            bool tagged = false) {
  std::vector<std::byte> f(size);
  std::size_t at = 12;
  if (tagged) {
    f[12] = std::byte{0x81};
    at = 16;
  }
  f[at] = std::byte{8};
  f[at + 2] = static_cast<std::byte>(0x40 | ihl);
  f[at + 11] = static_cast<std::byte>(protocol);
  return f;
}

void table() {
  EQUAL(header_length(ipv4(5, 17, 200)), 42u);
  EQUAL(header_length(ipv4(5, 17, 200, true)), 46u);
  EQUAL(header_length(ipv4(6, 17, 200)), 46u);
  auto tcp = ipv4(5, 6, 200);
  tcp[34 + 12] = std::byte{0x80};
  EQUAL(header_length(tcp), 66u);
  EQUAL(header_length(ipv4(5, 1, 200)), 64u);  // ICMP
  EQUAL(header_length(bytes({}, 200)), 64u);   // no known type
  EQUAL(header_length(bytes({}, 60)), 60u);    // shorter than that
  EQUAL(header_length(bytes({}, 3)), 3u);
  EQUAL(header_length({}), 0u);
  auto v6 = bytes({}, 100);
  v6[12] = std::byte{0x86};
  v6[13] = std::byte{0xdd};
  v6[20] = std::byte{17};
  EQUAL(header_length(v6), 62u);
  EQUAL(header_length(ipv4(5, 17, 42)), 42u);  // no payload
  EQUAL(header_length(ipv4(5, 17, 41)), 41u);  // cut in the header
}

void never_longer() {
  std::mt19937 rng(3);
  for (int i = 0; i < 20000; i++) {
    // An exact allocation each, so that a sanitizer sees a read behind the end.
    std::vector<std::byte> f(rng() % 120);
    for (std::byte& x : f) x = static_cast<std::byte>(rng());
    if (f.size() > 14 && rng() % 2 != 0) {
      f[12] = std::byte{8};
      f[13] = std::byte{0};
    }
    const uint32_t n = header_length(f);
    CU_ASSERT_TRUE_FATAL(n <= f.size());
    CU_ASSERT_TRUE_FATAL(n != 0 || f.empty());
  }
}

const kilim::test::Case cases[] = {
    {"headers end where the table says", table},
    {"a header is never longer than its frame, nor empty", never_longer},
};

}  // namespace
}  // namespace header_ut

KILIM_TEST_SUITE(header, header_ut::cases)
