// SPDX-License-Identifier: BSD-3-Clause
// Field: a named bit range of one big-endian word of a structure, as the PRM prints it: word, high
// bit, low bit, where bit 0 is the lowest of the word. Pure values, any thread. A value that is too
// wide for its field fails an assert, in constant expressions too.
//
// Not bitfields: their order in a word is the compiler's choice (doc/decisions/0004).
#pragma once

#include <cstdint>
#include <type_traits>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/be.hh"

namespace kilim::inline v1 {

namespace detail {
template <typename T>
struct MemberOf;
template <typename S, typename M>
struct MemberOf<M S::*> {
  using structure = S;
  using word = M;
};
}  // namespace detail

// Member: pointer to the structure's member, a Be word.
template <auto Member, unsigned High, unsigned Low>
struct Field {
  using structure = typename detail::MemberOf<decltype(Member)>::structure;
  using word = typename detail::MemberOf<decltype(Member)>::word;
  using value_type = typename word::value_type;
  static_assert(High < sizeof(value_type) * 8 && Low <= High);

  static constexpr unsigned width = High - Low + 1;
  static constexpr value_type max = static_cast<value_type>(
      width == sizeof(value_type) * 8 ? ~value_type{0} : (uint64_t{1} << width) - 1);
  static constexpr value_type mask = static_cast<value_type>(max << Low);

  // A word in host order with `value` in this field and zeroes elsewhere. Fields of one word are
  // combined by | and converted to big endian once.
  template <typename V>
  static constexpr value_type at(V value) noexcept {
    auto v = static_cast<value_type>(value);
    KILIM_ASSERT((v & ~max) == 0);
    return static_cast<value_type>(v << Low);
  }
  // The field's value in `s`.
  static constexpr value_type get(const structure& s) noexcept { return of((s.*Member).host()); }
  // The field's value in a word that is in host order.
  static constexpr value_type of(value_type host_word) noexcept {
    return static_cast<value_type>((host_word >> Low) & max);
  }
  // Writes the field of `s`; the word's other bits stay.
  template <typename V>
  static constexpr void set(structure& s, V value) noexcept {
    s.*Member = word{static_cast<value_type>(((s.*Member).host() & ~mask) | at(value))};
  }
};

}  // namespace kilim::inline v1
