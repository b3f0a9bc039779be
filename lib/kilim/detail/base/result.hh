// SPDX-License-Identifier: BSD-3-Clause
// Result<T>: a value, or an Error that says why there is none. For set-up and control paths; hot
// paths return an Outcome (base/outcome.hh) or a count. The function that first finds an error logs
// it. Values, any thread. Not std::expected: that is C++23 (doc/decisions/0003).
#pragma once

#include <cstdint>
#include <utility>
#include <variant>

#include "kilim/detail/base/assert.hh"

namespace kilim::inline v1 {

// Trivially copyable, so that an error that is dropped has cost no memory.
struct Error {
  int code = 0;           // a positive errno value
  const char* what = "";  // a sentence with static storage
  uint32_t syndrome = 0;  // the device's syndrome, 0 where there is none
};

template <typename T>
class [[nodiscard]] Result {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, error) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  // The value; asserts that there is one.
  T& value() & noexcept { return *get(); }
  const T& value() const& noexcept { return *const_cast<Result*>(this)->get(); }
  T&& value() && noexcept { return std::move(*get()); }
  T& operator*() & noexcept { return *get(); }
  const T& operator*() const& noexcept { return value(); }
  T&& operator*() && noexcept { return std::move(*get()); }
  T* operator->() noexcept { return get(); }
  const T* operator->() const noexcept { return const_cast<Result*>(this)->get(); }

  // The error; asserts that there is one.
  [[nodiscard]] Error error() const noexcept {
    const Error* e = std::get_if<1>(&state_);
    KILIM_ASSERT(e != nullptr);
    return *e;
  }

 private:
  T* get() noexcept {
    T* v = std::get_if<0>(&state_);
    KILIM_ASSERT(v != nullptr);
    return v;
  }
  std::variant<T, Error> state_;
};

// The result of a call that returns no value.
struct Done {};
using Status = Result<Done>;

}  // namespace kilim::inline v1
