// SPDX-License-Identifier: BSD-3-Clause
// Pure values.
#include "vhca/core/request_faults.hh"

#include <cerrno>
#include <charconv>
#include <system_error>

namespace kilim::vhca {

namespace {

// 0: this is no number from 1.
uint64_t number_of(std::string_view text) noexcept {
  uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc{} && end == text.data() + text.size() ? n : 0;
}

}  // namespace

Result<RequestFaults> find_request_faults(std::string_view word) {
  constexpr std::string_view begin = "wqe@";
  const Error unknown{EINVAL, "must be wqe@N or wqe@N+M with N and M from 1"};
  if (!word.starts_with(begin)) return unknown;
  word.remove_prefix(begin.size());
  const std::size_t plus = word.find('+');
  RequestFaults faults;
  faults.next = number_of(word.substr(0, plus));
  if (plus != std::string_view::npos) faults.every = number_of(word.substr(plus + 1));
  const bool good = faults.next != 0 && (plus == std::string_view::npos || faults.every != 0);
  if (!good) return unknown;
  return faults;
}

}  // namespace kilim::vhca
