// SPDX-License-Identifier: BSD-3-Clause
// EQUAL(a, b) and EQUAL_FATAL(a, b): CUnit assertions that say both values where they differ:
// `EQUAL(qp.stalls, 0): 3 is not 0`. Each side is read once, the left one first. Whole numbers are
// compared by value, whatever their signs and widths; C strings by what they say; all else by its
// own ==, so that an lkey still is no rkey. In threads as CU_ASSERT; nothing is allocated here.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include <CUnit/CUnit.h>

namespace kilim::test::equality {

// A value as a failure prints it; a text still lies with its owner.
struct Shown {
  enum class Kind : uint8_t { unknown, none, truth, negative, number, real, address, text, error };
  Kind kind = Kind::unknown;
  uint64_t number = 0;  // of an error its code
  double real = 0;
  std::string_view text{};
};

// Whole numbers, and what a reader takes for one. An `enum class` is compared by its own == and
// only printed as its number.
template <typename T>
concept Whole = std::integral<T> || std::same_as<T, std::byte> ||
    (std::is_enum_v<T>&& std::is_convertible_v<T, long long>);
template <typename T>
concept Text = !std::is_null_pointer_v<T> && std::is_convertible_v<const T&, std::string_view>;
// Two plain `char*` are places in memory, not strings.
template <typename A, typename B>
concept Texts = Text<A> && Text<B> && !(std::same_as<A, char*> && std::same_as<B, char*>);
template <typename T>
concept Atomic = requires(const T& t) {
  t.load();
};
template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;
// kilim::Result by what it can do: the device's tests do not include the library.
template <typename T>
concept ResultLike = requires(const T& t) {
  { t.ok() } -> std::same_as<bool>;
  t.error().code;
  t.error().what;
};

template <Whole T>
constexpr auto whole(T v) {
  if constexpr (std::same_as<T, bool> || std::same_as<T, std::byte>) {
    return static_cast<long long>(v);
  } else if constexpr (std::is_enum_v<T>) {
    return whole(static_cast<std::underlying_type_t<T>>(v));
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<long long>(v);
  } else {
    return static_cast<unsigned long long>(v);
  }
}

inline bool is_null(const char* text) {
  return text == nullptr;
}
template <typename T>
bool is_null(const T&) {
  return false;
}

template <typename A, typename B>
bool same(const A& a, const B& b) {
  if constexpr (Atomic<A>) {
    return same(a.load(), b);
  } else if constexpr (Atomic<B>) {
    return same(a, b.load());
  } else if constexpr (ResultLike<A>) {
    return a.ok() && same(a.value(), b);
  } else if constexpr (is_optional<A> && is_optional<B>) {
    return a.has_value() == b.has_value() && (!a.has_value() || same(*a, *b));
  } else if constexpr (is_optional<A> && !std::same_as<B, std::nullopt_t>) {
    return a.has_value() && same(*a, b);
  } else if constexpr (is_optional<B> && !std::same_as<A, std::nullopt_t>) {
    return b.has_value() && same(a, *b);
  } else if constexpr (Whole<A> && Whole<B>) {
    return std::cmp_equal(whole(a), whole(b));
  } else if constexpr (Texts<A, B>) {
    if (is_null(a) || is_null(b)) return is_null(a) && is_null(b);
    return std::string_view{a} == std::string_view{b};
  } else {
    return a == b;
  }
}

inline Shown show_whole(unsigned long long v) {
  return {Shown::Kind::number, v};
}
inline Shown show_whole(long long v) {
  return {v < 0 ? Shown::Kind::negative : Shown::Kind::number, static_cast<uint64_t>(v)};
}

template <typename T>
Shown show(const T& v) {
  using Kind = Shown::Kind;
  if constexpr (Atomic<T>) {
    return show(v.load());
  } else if constexpr (ResultLike<T>) {
    if (v.ok()) return show(v.value());
    return {Kind::error, static_cast<uint64_t>(v.error().code), 0, v.error().what};
  } else if constexpr (is_optional<T>) {
    return v.has_value() ? show(*v) : Shown{Kind::none};
  } else if constexpr (std::same_as<T, std::nullopt_t> || std::is_null_pointer_v<T>) {
    return {Kind::none};
  } else if constexpr (std::same_as<std::remove_cv_t<T>, bool>) {
    return {Kind::truth, v};
  } else if constexpr (Whole<T>) {
    return show_whole(whole(v));
  } else if constexpr (std::is_enum_v<T>) {
    return show(static_cast<std::underlying_type_t<T>>(v));
  } else if constexpr (std::floating_point<T>) {
    return {Kind::real, 0, static_cast<double>(v)};
  } else if constexpr (Text<T>) {
    if (is_null(v)) return {Kind::none};
    return {Kind::text, 0, 0, std::string_view{v}};
  } else if constexpr (std::is_pointer_v<T>) {
    return {v == nullptr ? Kind::none : Kind::address, reinterpret_cast<uintptr_t>(v)};
  } else if constexpr (requires { v.value(); }) {  // base/ident.hh
    return show(v.value());
  } else if constexpr (requires { v.host(); }) {  // base/be.hh
    return show(v.host());
  } else if constexpr (std::is_convertible_v<const T&, bool>) {  // std::vector<bool>::reference
    return {Kind::truth, static_cast<bool>(v)};
  } else {
    return {};
  }
}

inline constexpr std::size_t most_text = 480;

// The value in words, in a room of the caller's.
inline const char* in_words(const Shown& v, char* room, std::size_t size) {
  const auto n = static_cast<unsigned long long>(v.number);
  const int length = static_cast<int>(std::min<std::size_t>(v.text.size(), most_text));
  const char* const text = v.text.empty() ? "" : v.text.data();
  switch (v.kind) {
    case Shown::Kind::unknown:
      return "?";
    case Shown::Kind::none:
      return "none";
    case Shown::Kind::truth:
      return n != 0 ? "true" : "false";
    case Shown::Kind::negative:
      std::snprintf(room, size, "%lld", static_cast<long long>(n));
      break;
    case Shown::Kind::number:
      std::snprintf(room, size, n < 1024 ? "%llu" : "%llu (0x%llx)", n, n);
      break;
    case Shown::Kind::real:
      std::snprintf(room, size, "%.9g", v.real);
      break;
    case Shown::Kind::address:
      std::snprintf(room, size, "%#llx", n);
      break;
    case Shown::Kind::text:
      std::snprintf(room, size, "\"%.*s\"", length, text);
      break;
    case Shown::Kind::error:
      std::snprintf(room, size, "error %lld (%.*s)", static_cast<long long>(n), length, text);
      break;
  }
  return room;
}

// Where an assertion stands, and what it says there.
struct Place {
  const char* file;
  unsigned line;
  const char* left;
  const char* right;
  bool fatal;
};

// CUnit copies the sentence before it leaves a test by longjmp.
inline void report(const Place& at, const Shown& a, const Shown& b) {
  char said[800 + 2 * most_text], left[most_text + 40], right[most_text + 40];
  const int used = std::snprintf(
      said, sizeof said, "EQUAL%s(%.300s, %.300s): ", at.fatal ? "_FATAL" : "", at.left, at.right);
  const auto begin = static_cast<std::size_t>(used);
  if (a.kind == Shown::Kind::unknown && b.kind == Shown::Kind::unknown) {
    std::snprintf(said + begin, sizeof said - begin, "they differ");
  } else {
    std::snprintf(said + begin, sizeof said - begin, "%s is not %s", in_words(a, left, sizeof left),
                  in_words(b, right, sizeof right));
  }
  CU_assertImplementation(CU_FALSE, at.line, said, at.file, "", at.fatal ? CU_TRUE : CU_FALSE);
}

// Both sides, read from the left: the order of braces, which arguments of a call do not have.
template <typename A, typename B>
struct Sides {
  const A& a;
  const B& b;
  void check(const Place& at) const {
    if (same(a, b)) {
      CU_assertImplementation(CU_TRUE, at.line, "", at.file, "", CU_FALSE);
    } else {
      report(at, show(a), show(b));
    }
  }
};
template <typename A, typename B>
Sides(const A&, const B&) -> Sides<A, B>;

}  // namespace kilim::test::equality

#define EQUAL(left, right) \
  ::kilim::test::equality::Sides{(left), (right)}.check({__FILE__, __LINE__, #left, #right, false})
#define EQUAL_FATAL(left, right) \
  ::kilim::test::equality::Sides{(left), (right)}.check({__FILE__, __LINE__, #left, #right, true})
