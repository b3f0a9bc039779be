// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Byte Stream Format" of type crypto, "Encryption Key Object". How a key's bytes are
// encrypted between its memory and the wire, with what. Users of such a key name bytes as they are
// on the wire. Owner: the key, the adapter's table of objects; adapter's lock held. Pure values; a
// BSF is untrusted.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/base/ident.hh"
#include "vhca/core/profile.hh"
#include "vhca/tpt/aes.hh"

namespace kilim::vhca::tpt {

// A data encryption key, made by CREATE_GENERAL_OBJECT.
struct Dek {
  Pdn pd;
  bool has_tag = false;
  bool long_keys = false;  // 256 bits each, else 128
  std::array<uint8_t, 8> tag{};
  std::array<uint8_t, 8> opaque{};  // the client's
  XtsKey keys;
};

// What a crypto BSF says. Places count from the key's start, in the domain in which the bytes are
// encrypted.
struct Crypto {
  bool set = false;          // a BSF has come
  bool encrypts_tx = false;  // what leaves memory is encrypted, else decrypted
  bool by_memory = false;    // on the memory's side of the signatures, else on the wire's
  bool raw = false;          // not with signatures in both domains
  uint32_t unit = 0;         // bytes of a data unit
  uint32_t dek = 0;
  uint64_t data_bytes = 0;  // at most
  AesBlock tweak{};         // number of the first unit, the lowest byte first
  // The first bytes of a block that arrives with the next packet: the place behind them, and how
  // many.
  uint64_t held_end = 0;
  uint32_t held_bytes = 0;
  std::byte held[2 * aes_block]{};

  // Bytes that are worked on together: a block; at the end of a unit that is not made of whole ones
  // the last block and what follows it.
  [[nodiscard]] uint64_t last_start() const noexcept {
    return unit % aes_block == 0 ? unit : unit / aes_block * aes_block - aes_block;
  }
  // The place where the block begins that this place is in.
  [[nodiscard]] uint64_t floor(uint64_t place) const noexcept {
    const uint64_t in_unit = place % unit;
    return place - in_unit + std::min(in_unit / aes_block * aes_block, last_start());
  }
  // The bytes of the block that begins here.
  [[nodiscard]] uint64_t block_at(uint64_t begin) const noexcept {
    return begin % unit == last_start() ? unit - last_start() : aes_block;
  }
  // The end of the block that ends at or behind this place.
  [[nodiscard]] uint64_t ceil(uint64_t place) const noexcept {
    const uint64_t begin = floor(place);
    return begin == place ? place : begin + block_at(begin);
  }
  // Whether so many bytes may lie here.
  [[nodiscard]] bool holds(uint64_t begin, uint64_t bytes) const noexcept {
    return begin < uint64_t{1} << 48 && begin + bytes <= data_bytes;
  }
  // The number of the unit that is `index` units behind the first: the tweak counts them.
  [[nodiscard]] AesBlock number(uint64_t index) const noexcept;
};

// Null, or why a card refuses the BSF; `c` is changed only where it does not. With signatures: both
// kinds of BSF have come.
struct CryptoBsfForm {
  bool with_signature = false;
  bool both_domains = false;  // signed in memory and on the wire
};
const char* decode_crypto_bsf(std::span<const std::byte> bsf, CryptoBsfForm, const Profile&,
                              Crypto& c) noexcept;
// Whether the BSF names the tag that the object has.
bool tag_fits(std::span<const std::byte> bsf, const Dek&) noexcept;

}  // namespace kilim::vhca::tpt
