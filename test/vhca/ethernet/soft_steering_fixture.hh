// SPDX-License-Identifier: BSD-3-Clause
// For tests of steering by software: an entry of a table, bit by bit, and a device's tables with a
// block of memory for such entries, one TIR and one counter.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "steering_fixture.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/ethernet/tir.hh"

namespace kilim::test {

using vhca::ethernet::Arrival;
using vhca::ethernet::FlowTable;
using vhca::ethernet::IcmBlock;
using vhca::ethernet::IcmEnd;

inline constexpr uint8_t l2_src_d = 0x1c, do_not_care = 0x0f, tuple_d = 0x20;
inline constexpr std::size_t entry_bytes = 64;

// An entry, bit by bit.
struct Entry {
  std::array<uint8_t, entry_bytes> bytes{};

  Entry& set(unsigned bit, unsigned width, uint64_t value) {
    for (unsigned i = 0; i < width; i++) {
      const unsigned at = bit + width - 1 - i;
      const auto one = static_cast<uint8_t>(0x80u >> at % 8);
      bytes[at / 8] = static_cast<uint8_t>(bytes[at / 8] & ~one);
      if ((value >> i & 1) != 0) bytes[at / 8] = static_cast<uint8_t>(bytes[at / 8] | one);
    }
    return *this;
  }
  Entry& looks_at(uint8_t lookup) { return set(0x08, 8, lookup); }
  // A table of so many entries, and the bytes of the lookup that its hash is over.
  Entry& hit(uint64_t address, uint64_t entries, uint8_t lookup = do_not_care, uint16_t mask = 0) {
    const uint64_t index = address >> 5 | entries;
    return set(0x38, 8, index >> 27).set(0x40, 27, index).set(0x30, 8, lookup).set(0x10, 16, mask);
  }
  Entry& miss(uint64_t address) { return set(0xd8, 8, address >> 32).set(0xe0, 26, address >> 6); }
  Entry& wants(std::size_t at, std::span<const std::byte> tag) {
    for (std::size_t i = 0; i < tag.size(); i++) {
      bytes[32 + at + i] = std::to_integer<uint8_t>(tag[i]);
      bytes[48 + at + i] = 0xff;
    }
    return *this;
  }
};
inline constexpr unsigned sends = 1, receives = 2, rewrites = 6;

inline Entry entry_of(unsigned type) {
  return Entry{}.set(0, 4, type).looks_at(do_not_care);
}
inline Entry missing(unsigned type, uint64_t address) {
  Entry e = entry_of(type).miss(address);
  e.bytes[32] = 0xdc;  // outside its mask
  return e;
}

struct Bench {
  vhca::ObjectTable<vhca::ethernet::Tir> tirs{0x80, 16};
  vhca::ethernet::FlowCounters counters;
  std::unique_ptr<vhca::ethernet::SoftSteering> soft =
      std::make_unique<vhca::ethernet::SoftSteering>(tirs, counters);
  IcmBlock entries = *soft->icm.steering.alloc(4096);
  uint32_t tirn = 0, counter = 0, table = 0;
  vhca::ethernet::Tir* tir = tirs.create(tirn);
  vhca::FlowCount* count = counters.create(counter);

  explicit Bench(bool egress = false) {
    soft->use(2048);
    make(egress, true);
  }
  // A table whose first entry is that of index 0.
  FlowTable* make(bool egress, bool software) {
    FlowTable* t = soft->tables.create(table);
    t->number = table;
    t->type = egress ? vhca::ethernet::TableType::nic_tx : vhca::ethernet::TableType::nic_rx;
    t->software = software;
    t->root = at(0);
    return t;
  }
  [[nodiscard]] uint64_t at(std::size_t index) const {
    return entries.address + index * entry_bytes;
  }
  void put(std::size_t index, const Entry& e) const {
    std::memcpy(reinterpret_cast<void*>(entries.va + index * entry_bytes), e.bytes.data(),
                entry_bytes);
  }
  std::span<const Arrival> walk(const Bytes& f, uint32_t tag = 0) {
    const FlowTable& t = *soft->tables.at(table);
    const bool egress = t.type == vhca::ethernet::TableType::nic_tx;
    soft->begin(egress);
    const auto got = soft->walk(t, {nullptr, tag}, 0x77, f);
    soft->count(egress);
    return got;
  }
  [[nodiscard]] uint64_t to_tir() const {
    return vhca::ethernet::icm_end::address_of(IcmEnd::tir, tirn);
  }
  // Once, at this TIR, as these bytes.
  bool comes(const Bytes& f, const Bytes& as, uint32_t tag = 0) {
    const auto got = walk(f);
    return got.size() == 1 && got[0].to.qp == &tir->end && got[0].to.tag == tag &&
           got[0].frame.size() == as.size() &&
           std::equal(as.begin(), as.end(), got[0].frame.begin());
  }
};

inline Bytes with_tag(const Bytes& f) {
  constexpr std::array tag{std::byte{0x81}, std::byte{0}, std::byte{0x20}, std::byte{0x64}};
  Bytes tagged = f;
  tagged.insert(tagged.begin() + 12, tag.begin(), tag.end());
  return tagged;
}

inline constexpr uint64_t drop = vhca::ethernet::icm_end::address_of(IcmEnd::drop),
                          allow = vhca::ethernet::icm_end::address_of(IcmEnd::allow);

}  // namespace kilim::test
