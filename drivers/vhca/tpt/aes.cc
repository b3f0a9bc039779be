// SPDX-License-Identifier: BSD-3-Clause
// FIPS 197 and IEEE 1619 on vectors of sixteen bytes; the way with AES instructions is
// aes_instructions.cc. Pure values. Never allocates.
#include "vhca/tpt/aes.hh"

#include <cstring>
#include <utility>

#include "vhca/tpt/aes_vector.hh"

namespace kilim::vhca::tpt {

namespace {

using aes::Vector;

Vector load(const void* p) noexcept {
  Vector v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
void store(void* p, Vector v) noexcept {
  std::memcpy(p, &v, sizeof v);
}

// Products in the field with the polynomial x^8 + x^4 + x^3 + x + 1.
Vector times_x(Vector a) noexcept {
  return (a << 1) ^ ((a >> 7) * 0x1b);
}
Vector times(Vector a, Vector b) noexcept {
  Vector r{};
  for (int i = 0; i < 8; i++) {
    r ^= a & (Vector{} - (b & 1));
    a = times_x(a);
    b >>= 1;
  }
  return r;
}
// a^254: the inverse, and 0 of 0.
Vector inverse(Vector a) noexcept {
  const Vector a2 = times(a, a), a3 = times(a2, a);
  const Vector a6 = times(a3, a3), a12 = times(a6, a6), a15 = times(a12, a3);
  Vector p = a15;
  for (int i = 0; i < 4; i++) p = times(p, p);  // a^240
  return times(times(p, a12), a2);
}
Vector rotate(Vector a, int n) noexcept {
  return (a << n) | (a >> (8 - n));
}
Vector substitute(Vector a) noexcept {
  const Vector x = inverse(a);
  return x ^ rotate(x, 1) ^ rotate(x, 2) ^ rotate(x, 3) ^ rotate(x, 4) ^ 0x63;
}
Vector substitute_back(Vector a) noexcept {
  return inverse(rotate(a, 1) ^ rotate(a, 3) ^ rotate(a, 6) ^ 0x05);
}

// Byte 4c + r of a block is row r of column c.
Vector shift_rows(Vector a) noexcept {
  return __builtin_shufflevector(a, a, 0, 5, 10, 15, 4, 9, 14, 3, 8, 13, 2, 7, 12, 1, 6, 11);
}
Vector shift_rows_back(Vector a) noexcept {
  return __builtin_shufflevector(a, a, 0, 13, 10, 7, 4, 1, 14, 11, 8, 5, 2, 15, 12, 9, 6, 3);
}
Vector turn(Vector a) noexcept {  // each column by one row
  return __builtin_shufflevector(a, a, 1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12);
}
Vector turn_two(Vector a) noexcept {
  return __builtin_shufflevector(a, a, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
}
Vector columns(Vector a) noexcept {
  const Vector b = turn(a);
  return times_x(a ^ b) ^ b ^ turn_two(a ^ b);
}
// The inverse matrix is the matrix itself after four times the sum of every second row.
Vector columns_back(Vector a) noexcept {
  return columns(a ^ times_x(times_x(a ^ turn_two(a))));
}

Vector encrypt(const AesKey& k, Vector s) noexcept {
  s ^= load(&k.encrypt[0]);
  for (uint32_t i = 1; i < k.rounds; i++)
    s = columns(shift_rows(substitute(s))) ^ load(&k.encrypt[i]);
  return shift_rows(substitute(s)) ^ load(&k.encrypt[k.rounds]);
}
Vector decrypt(const AesKey& k, Vector s) noexcept {
  s ^= load(&k.decrypt[0]);
  for (uint32_t i = 1; i < k.rounds; i++)
    s = columns_back(shift_rows_back(substitute_back(s))) ^ load(&k.decrypt[i]);
  return shift_rows_back(substitute_back(s)) ^ load(&k.decrypt[k.rounds]);
}

void one(const XtsKey& k, std::byte* data, Vector tweak, bool forward) noexcept {
  const Vector s = load(data) ^ tweak;
  store(data, (forward ? encrypt(k.data, s) : decrypt(k.data, s)) ^ tweak);
}

struct Halves {
  uint64_t low, high;
};
// Times alpha (IEEE 1619, 5.2).
void times_alpha(AesBlock& t) noexcept {
  Halves h;
  std::memcpy(&h, &t, sizeof h);
  const uint64_t carry = h.high >> 63;
  h.high = h.high << 1 | h.low >> 63;
  h.low = h.low << 1 ^ (carry * 0x87);
  std::memcpy(&t, &h, sizeof h);
}
// Times alpha^64: the high half moves out, and comes back multiplied by x^7 + x^2 + x + 1.
void times_alpha_64(AesBlock& t) noexcept {
  Halves h;
  std::memcpy(&h, &t, sizeof h);
  const uint64_t out = h.high;
  h.high = h.low ^ out >> 63 ^ out >> 62 ^ out >> 57;
  h.low = out ^ out << 1 ^ out << 2 ^ out << 7;
  std::memcpy(&t, &h, sizeof h);
}

}  // namespace

AesKey AesKey::of(std::span<const std::byte> key) noexcept {
  AesKey k;
  const std::size_t words = key.size() / 4;  // Nk
  k.rounds = static_cast<uint32_t>(words) + 6;
  uint8_t w[15 * 16];
  std::memcpy(w, key.data(), key.size());
  uint8_t rcon = 1;
  for (std::size_t i = words; i < 4 * (k.rounds + 1); i++) {
    Vector last{};
    std::memcpy(&last, w + 4 * (i - 1), 4);
    if (i % words == 0) {
      last = substitute(turn(last));
      last[0] ^= rcon;
      rcon = static_cast<uint8_t>(rcon << 1 ^ (rcon >> 7) * 0x1b);
    } else if (words > 6 && i % words == 4) {
      last = substitute(last);
    }
    for (std::size_t b = 0; b < 4; b++)
      w[4 * i + b] = static_cast<uint8_t>(w[4 * (i - words) + b] ^ last[b]);
  }
  for (uint32_t i = 0; i <= k.rounds; i++) {
    std::memcpy(&k.encrypt[i], w + std::size_t{16} * i, 16);
    const Vector v = load(&k.encrypt[i]);
    store(&k.decrypt[k.rounds - i], i == 0 || i == k.rounds ? v : columns_back(v));
  }
  return k;
}

bool aes_has(AesWay way) noexcept {
  return way != AesWay::instructions || aes::have_instructions();
}

XtsKey XtsKey::of(std::span<const std::byte> both) noexcept {
  return {AesKey::of(both.first(both.size() / 2)), AesKey::of(both.subspan(both.size() / 2))};
}

void XtsUnit::begin(const XtsKey& key, const AesBlock& number, uint64_t block,
                    AesWay way) noexcept {
  key_ = &key;
  instructions_ = way != AesWay::portable && aes::have_instructions();
  store(&tweak_, encrypt(key.tweak, load(&number)));
  for (; block >= 64; block -= 64) times_alpha_64(tweak_);
  for (; block > 0; block--) times_alpha(tweak_);
}

void XtsUnit::run(std::byte* data, std::size_t blocks, bool forward) noexcept {
  if (instructions_) {
    aes::run(*key_, tweak_, data, blocks, forward);
    return;
  }
  for (std::size_t i = 0; i < blocks; i++) {
    one(*key_, data + aes_block * i, load(&tweak_), forward);
    times_alpha(tweak_);
  }
}

void XtsUnit::run_last(std::byte* data, std::size_t bytes, bool forward) noexcept {
  AesBlock first = tweak_, second = tweak_;
  times_alpha(second);
  std::byte* const rest = data + aes_block;
  // The whole block is worked on with one tweak, the block made of its end and the rest with the
  // other one; they change places between the directions.
  one(*key_, data, load(forward ? &first : &second), forward);
  for (std::size_t i = 0; i < bytes; i++) std::swap(data[i], rest[i]);
  one(*key_, data, load(forward ? &second : &first), forward);
}

}  // namespace kilim::vhca::tpt
