// SPDX-License-Identifier: BSD-3-Clause
// The orders by name. Pure values.
#include "vhca/core/order.hh"

#include <cerrno>
#include <charconv>
#include <system_error>

namespace kilim::vhca {

namespace {

// A word of the user and what it stands for.
struct NamedOrder {
  std::string_view name;
  Order order;
};

// Chances out of eight, as Order counts them.
constexpr uint8_t often = 6, half = 4, always = Order::always;
constexpr NamedOrder orders[] = {
    {"strict", {}},
    {"weak", {often, often, half}},
    {"late-umr", {always, 0, 0}},
    {"late-read", {0, always, 0}},
    {"resend", {0, 0, always}},
};

}  // namespace

Result<Order> find_order(std::string_view word) {
  const Error unknown{
      EINVAL,
      "strict, weak, late-umr, late-read or resend is needed, or one of the last four and "
      "a number behind a colon"};
  const std::size_t colon = word.find(':');
  for (const NamedOrder& row : orders) {
    if (word.substr(0, colon) != row.name) continue;
    Order order = row.order;
    if (colon == std::string_view::npos) return order;
    const char* end = word.data() + word.size();
    const auto [at, error] = std::from_chars(word.data() + colon + 1, end, order.seed);
    if (order.strict() || error != std::errc{} || at != end) return unknown;
    return order;
  }
  return unknown;
}

}  // namespace kilim::vhca
