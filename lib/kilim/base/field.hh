// SPDX-License-Identifier: BSD-3-Clause
// A named bit range of one big-endian word of a structure, written as the manual prints it: (word,
// high bit, low bit). Any thread; pure values. A value too wide for its field is an error in
// constant expressions and in debug builds.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kilim/base/assert.hh"
#include "kilim/base/be.hh"

namespace kilim {

namespace detail {
template <typename T>
struct MemberOf;
template <typename S, typename M>
struct MemberOf<M S::*> {
  using structure = S;
  using word = M;
};
}  // namespace detail

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

  // The host-order word with `value` at its place and zeroes elsewhere: several fields are or-ed,
  // then swapped once.
  template <typename V>
  static constexpr value_type at(V value) noexcept {
    auto v = static_cast<value_type>(value);
    KILIM_ASSERT((v & ~max) == 0);
    return static_cast<value_type>(v << Low);
  }
  static constexpr value_type get(const structure& s) noexcept { return of((s.*Member).host()); }
  // The field out of a word already in host order.
  static constexpr value_type of(value_type host_word) noexcept {
    return static_cast<value_type>((host_word >> Low) & max);
  }
  template <typename V>
  static constexpr void set(structure& s, V value) noexcept {
    s.*Member = word{static_cast<value_type>(((s.*Member).host() & ~mask) | at(value))};
  }
};

}  // namespace kilim
