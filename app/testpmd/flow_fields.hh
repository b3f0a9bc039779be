// SPDX-License-Identifier: BSD-3-Clause
// The items of a flow rule's pattern and their fields: one table. Pure values, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "kilim/flow.hh"

namespace kilim::testpmd {

enum class FieldKind : uint8_t { number, mac, ipv4, ipv6 };

struct FieldValue {
  uint64_t number = 0;
  std::array<uint8_t, 16> bytes{};  // of addresses
};

struct FlowField {
  const char* item;
  const char* name;  // null: the item alone
  FieldKind kind;
  uint8_t bits;
  // Writes the field's value, or with `mask` its mask.
  void (*set)(flow::Match& match, const FieldValue& v, bool mask);
};
std::span<const FlowField> flow_fields();

// Makes the item part of the match. False: there is no such item, or it is there already.
bool add_item(flow::Match& match, std::string_view item);
bool is_item(std::string_view word);

// False: it is no value of this kind with so many bits.
bool read_value(std::string_view text, const FlowField& field, FieldValue& out);
// A mask of the first `prefix` bits.
FieldValue prefix_mask(const FlowField& field, uint32_t prefix);

}  // namespace kilim::testpmd
