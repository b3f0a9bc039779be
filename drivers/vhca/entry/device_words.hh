// SPDX-License-Identifier: BSD-3-Clause
// The words of a virtual device (kilim/detail/base/device_spec.hh): the one table behind the
// launcher's options, the devargs of ports and what a program in C says. Each value is checked
// where it is read, before there is a device. Control path, any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kilim/detail/base/device_spec.hh"

namespace kilim::vhca::entry {

struct DeviceWord {
  const char* name;   // "lint": the option --lint, the devarg lint=
  const char* value;  // as a help text shows it
  const char* range;  // for people, on a line
  // Why the value is refused, in words that go on behind it; empty: it is in the spec now.
  std::string (*read)(DeviceSpec&, std::string_view value);
  bool (*is_set)(const DeviceSpec&);  // it is not as it is by itself
  const char* not_of_cards;           // a sentence: why a card does not take it
  bool repeats = false;               // it may be said several times
};

std::span<const DeviceWord> device_words() noexcept;
// Null: there is no such word.
const DeviceWord* find_device_word(std::string_view name) noexcept;

// "lint=warn,wire=unix:/tmp/a": all words, and `name`. A sentence that says what is wrong; empty:
// the spec has it all. No value holds a ','.
std::string read_device_text(std::string_view text, DeviceSpec& spec);

}  // namespace kilim::vhca::entry
