// SPDX-License-Identifier: BSD-3-Clause
// AES-XTS, both ways: the standard's vectors, and random units against OpenSSL.
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "equal.hh"
#include "ut.hh"
#include "vhca/tpt/aes.hh"
#include "xts_reference.hh"

namespace kilim::vhca {
namespace aes_ut {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes hex(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  Bytes b;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    b.push_back(static_cast<uint8_t>(digit(text[i]) << 4 | digit(text[i + 1])));
  return b;
}

Bytes unit_of(const tpt::XtsKey& key, const tpt::AesBlock& number, Bytes data, bool encrypt,
              tpt::AesWay way) {
  tpt::XtsUnit u;
  u.begin(key, number, 0, way);
  auto* p = reinterpret_cast<std::byte*>(data.data());
  const std::size_t rest = data.size() % tpt::aes_block;
  const std::size_t whole = data.size() / tpt::aes_block - (rest != 0 ? 1 : 0);
  u.run(p, whole, encrypt);
  if (rest != 0) u.run_last(p + whole * tpt::aes_block, rest, encrypt);
  return data;
}

// IEEE 1619, annex B: vectors 1, 2, 3 and those with a part of a block, 15 to 18.
struct Vector {
  std::string_view keys, number, plain, cipher;
};
constexpr Vector vectors[] = {
    {"0000000000000000000000000000000000000000000000000000000000000000", "00",
     "0000000000000000000000000000000000000000000000000000000000000000",
     "917cf69ebd68b2ec9b9fe9a3eadda692cd43d2f59598ed858c02c2652fbf922e"},
    {"1111111111111111111111111111111122222222222222222222222222222222", "3333333333",
     "4444444444444444444444444444444444444444444444444444444444444444",
     "c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0"},
    {"fffefdfcfbfaf9f8f7f6f5f4f3f2f1f022222222222222222222222222222222", "3333333333",
     "4444444444444444444444444444444444444444444444444444444444444444",
     "af85336b597afc1a900b2eb21ec949d292df4c047e0b21532186a5971a227a89"},
    {"fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0", "9a78563412",
     "000102030405060708090a0b0c0d0e0f10", "6c1625db4671522d3d7599601de7ca09ed"},
    {"fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0", "9a78563412",
     "000102030405060708090a0b0c0d0e0f1011", "d069444b7a7e0cab09e24447d24deb1fedbf"},
    {"fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0", "9a78563412",
     "000102030405060708090a0b0c0d0e0f101112", "e5df1351c0544ba1350b3363cd8ef4beedbf9d"},
    {"fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0", "9a78563412",
     "000102030405060708090a0b0c0d0e0f10111213", "9d84c813f719aa2c7be3f66171c7c5c2edbf9dac"},
};

void vectors_of_the_standard(tpt::AesWay way) {
  for (const Vector& v : vectors) {
    const Bytes keys = hex(v.keys), number = hex(v.number), plain = hex(v.plain);
    const tpt::XtsKey key = tpt::XtsKey::of(std::as_bytes(std::span(keys)));
    tpt::AesBlock n{};
    std::memcpy(n.data(), number.data(), number.size());
    CU_ASSERT(unit_of(key, n, plain, true, way) == hex(v.cipher));
    CU_ASSERT(unit_of(key, n, hex(v.cipher), false, way) == plain);
  }
}

void random_units(tpt::AesWay way) {
  std::mt19937_64 random{way == tpt::AesWay::portable ? 3u : 4u};
  for (int i = 0; i < 150; i++) {
    kilim::test::XtsReference r;
    r.keys.resize(random() % 2 != 0 ? 32 : 64);
    for (uint8_t& b : r.keys) b = static_cast<uint8_t>(random());
    tpt::AesBlock number;
    for (std::size_t k = 0; k < number.size(); k++)
      r.number[k] = number[k] = static_cast<uint8_t>(random());
    Bytes data(16 + random() % (i % 10 == 0 ? 9000 : 400));
    for (uint8_t& b : data) b = static_cast<uint8_t>(random());
    r.unit = data.size();
    const tpt::XtsKey key = tpt::XtsKey::of(std::as_bytes(std::span(r.keys)));
    const Bytes cipher = r.run(data, true);
    CU_ASSERT_TRUE_FATAL(unit_of(key, number, data, true, way) == cipher);
    CU_ASSERT_TRUE_FATAL(unit_of(key, number, cipher, false, way) == data);
    // From a block in the middle on.
    const std::size_t first = random() % (data.size() / tpt::aes_block);
    tpt::XtsUnit u;
    u.begin(key, number, first, way);
    Bytes part(cipher.begin() + static_cast<long>(first * tpt::aes_block), cipher.end());
    if (part.size() % tpt::aes_block != 0) continue;
    u.run(reinterpret_cast<std::byte*>(part.data()), part.size() / tpt::aes_block, false);
    CU_ASSERT_TRUE_FATAL(
        std::memcmp(part.data(), data.data() + first * tpt::aes_block, part.size()) == 0);
  }
}

void portable() {
  vectors_of_the_standard(tpt::AesWay::portable);
  random_units(tpt::AesWay::portable);
}

void by_instructions() {
  if (!tpt::aes_has(tpt::AesWay::instructions)) return;  // the portable way is all there is
  vectors_of_the_standard(tpt::AesWay::best);
  random_units(tpt::AesWay::best);
}

// Block 65535 of a unit of a mebibyte: the tweak is carried over many blocks at once.
void a_long_unit() {
  kilim::test::XtsReference r;
  r.keys.assign(64, 9);
  r.keys[40] = 1;
  r.number[15] = 0x80;
  r.unit = 1u << 20;
  Bytes data(r.unit, 0x5a);
  const Bytes cipher = r.run(data, true);
  tpt::AesBlock number{};
  number[15] = 0x80;
  const tpt::XtsKey key = tpt::XtsKey::of(std::as_bytes(std::span(r.keys)));
  for (const std::size_t block : {63u, 64u, 65u, 127u, 4095u, 65535u}) {
    tpt::XtsUnit u;
    u.begin(key, number, block);
    Bytes one(tpt::aes_block, 0x5a);
    u.run(reinterpret_cast<std::byte*>(one.data()), 1, true);
    CU_ASSERT(std::memcmp(one.data(), cipher.data() + block * tpt::aes_block, tpt::aes_block) == 0);
  }
}

const kilim::test::Case cases[] = {
    {"the standard's vectors and random units by arithmetic", portable},
    {"the standard's vectors and random units by the processor's instructions", by_instructions},
    {"a unit of a mebibyte, from any block on", a_long_unit},
};

}  // namespace
}  // namespace aes_ut
}  // namespace kilim::vhca

KILIM_TEST_SUITE(aes, kilim::vhca::aes_ut::cases)
