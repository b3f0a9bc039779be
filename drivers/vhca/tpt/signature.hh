// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Byte Stream Format", "Protection Signature Value". How the blocks of a key are signed: in
// its memory, on the wire, and what is checked or copied between the two. Users of such a key name
// bytes as they are on the wire. Owner: the key; adapter's lock held. Pure values; a BSF is
// untrusted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/base/ident.hh"
#include "vhca/core/profile.hh"

namespace kilim::vhca::tpt {

// The value with which a signature begins: set by SET_PSV, named by a BSF.
struct Psv {
  Pdn pd;
  uint64_t value = 0;
};

enum class SignKind : uint8_t { none, dif_crc, dif_checksum, crc32, crc32c, crc64 };

// How one domain is signed.
struct SignDomain {
  SignKind kind = SignKind::none;
  bool count_ref = false;  // the reference tag counts blocks
  bool escape_app = false, escape_app_ref = false;
  bool refresh = false;      // tags are those below, else the PSV's
  bool ones = false;         // later blocks begin with all ones, else with 0
  bool transaction = false;  // one block, all of the data, begins so too
  uint32_t block = 0;        // bytes of data
  uint32_t psv = 0;
  uint16_t app_tag = 0, app_mask = 0xffff;
  uint32_t ref_tag = 0;

  // Bytes of a signature.
  [[nodiscard]] uint32_t bytes() const noexcept {
    if (kind == SignKind::none) return 0;
    return kind == SignKind::crc32 || kind == SignKind::crc32c ? 4 : 8;
  }
  [[nodiscard]] bool dif() const noexcept {
    return kind == SignKind::dif_crc || kind == SignKind::dif_checksum;
  }

  // A place among the data as one in this domain; a signature belongs to the block before it.
  [[nodiscard]] uint64_t place_of(uint64_t data) const noexcept {
    return block == 0 ? data : data + data / block * bytes();
  }
  // Bytes of data before a place of this domain.
  [[nodiscard]] uint64_t data_before(uint64_t place) const noexcept {
    if (block == 0) return place;
    const uint64_t whole = block + bytes();
    return place / whole * block + std::min<uint64_t>(place % whole, block);
  }
  // The offset at which the block of this byte of data begins.
  [[nodiscard]] uint64_t block_start(uint64_t data) const noexcept {
    return block == 0 ? data : data / block * block;
  }
};

struct Signature {
  bool set = false;     // a BSF has come
  bool enabled = true;  // as the key is made; UMRs may change it
  bool on = false;      // both
  bool armed = false;   // the next error is told of
  bool same_blocks = false;
  uint8_t check_mask = 0, copy_mask = 0;
  uint64_t data_bytes = 0;  // at most
  SignDomain wire, mem;
  // The first bytes of a signature on the wire whose others come with the next packet.
  uint64_t held_place = 0;  // of those others
  std::byte held[8]{};

  // The memory, from the key's start, that is touched by these bytes of the wire: blocks are looked
  // at from their beginning.
  struct Range {
    uint64_t begin = 0, bytes = 0;
  };
  [[nodiscard]] Range memory_of(uint64_t begin, uint64_t bytes) const noexcept {
    const uint64_t place = mem.place_of(first_data(begin));
    return {place, std::max(mem.place_of(wire.data_before(begin + bytes)), place) - place};
  }
  // The data that the sums at this place of the wire begin with.
  [[nodiscard]] uint64_t first_data(uint64_t begin) const noexcept {
    const uint64_t data = mem.block_start(wire.data_before(begin));
    return std::min(data,
                    wire.block == 0 ? data : begin / (wire.block + wire.bytes()) * wire.block);
  }
  // Whether so much data may lie behind these bytes.
  [[nodiscard]] bool holds(uint64_t begin, uint64_t bytes) const noexcept {
    return begin < uint64_t{1} << 48 && wire.data_before(begin + bytes) <= data_bytes;
  }
};

// What follows a BSF in its WQE.
enum class BesideBsf : uint8_t { nothing, crypto };
// Null, or why a card refuses the BSF; `s` is changed only where it does not.
const char* decode_bsf(std::span<const std::byte> bsf, BesideBsf, const Profile&,
                       Signature& s) noexcept;

// A wrong signature, for the CQE that tells of it.
struct SignError {
  uint32_t key = 0;
  uint16_t syndrome = 0;  // prm::sig_err
  uint8_t domain = 0;
  bool transaction = false;
  bool at_target = false;
  uint64_t expected = 0, actual = 0;  // what the block says, what follows from its data
  uint64_t offset = 0;
};

// What transfers have found since somebody asked. Trivial to empty; a key stays armed where there
// is no room.
struct SignErrors {
  static constexpr std::size_t most = 4;
  uint8_t count = 0;
  SignError list[most];
};

}  // namespace kilim::vhca::tpt
