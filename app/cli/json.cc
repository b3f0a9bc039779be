// SPDX-License-Identifier: BSD-3-Clause
#include "cli/json.hh"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <utility>

#include <jansson.h>

namespace kilim::cli {
namespace {

constexpr std::size_t longest_sequence = 4;  // bytes of a character in UTF-8
constexpr int significant_digits = 15;       // the most that any double keeps

json_t* string_of(std::string_view s) {
  return json_stringn(s.data(), s.size());
}

// Bytes of the sequence at the front of `s`; 0: none that jansson takes.
std::size_t sequence_at(std::string_view s) {
  for (std::size_t n = 1; n <= std::min(s.size(), longest_sequence); n++) {
    json_t* one = string_of(s.substr(0, n));
    if (one == nullptr) continue;
    json_decref(one);
    return n;
  }
  return 0;
}

std::string repaired(std::string_view s) {
  std::string whole;
  while (!s.empty()) {
    const std::size_t n = sequence_at(s);
    whole += n == 0 ? "\uFFFD" : s.substr(0, n);
    s.remove_prefix(std::max<std::size_t>(n, 1));
  }
  return whole;
}

}  // namespace

JsonObject::JsonObject() : object_(json_object()) {}

JsonObject::~JsonObject() {
  json_decref(object_);
}

JsonObject::JsonObject(JsonObject&& other) noexcept
    : object_(std::exchange(other.object_, nullptr)) {}

JsonObject& JsonObject::add(const char* name, json_t* value) {
  json_object_set_new(object_, name, value);
  return *this;
}

JsonObject& JsonObject::text(const char* name, std::string_view value) {
  json_t* s = string_of(value);
  return add(name, s != nullptr ? s : string_of(repaired(value)));
}

// jansson's integers have a sign: what needs the 64th bit loses its last digits.
JsonObject& JsonObject::number(const char* name, uint64_t value) {
  const bool fits = value <= uint64_t{std::numeric_limits<json_int_t>::max()};
  return add(name, fits ? json_integer(static_cast<json_int_t>(value))
                        : json_real(static_cast<double>(value)));
}

JsonObject& JsonObject::real(const char* name, double value, int digits) {
  if (!std::isfinite(value)) return null(name);
  const double unit = std::pow(10.0, digits);
  const double rounded = std::round(value * unit) / unit;
  return add(name, json_real(std::isfinite(rounded) ? rounded : value));
}

JsonObject& JsonObject::flag(const char* name, bool value) {
  return add(name, json_boolean(value));
}

JsonObject& JsonObject::null(const char* name) {
  return add(name, json_null());
}

JsonObject& JsonObject::object(const char* name, JsonObject value) {
  return add(name, std::exchange(value.object_, nullptr));
}

JsonObject& JsonObject::list(const char* name, std::vector<JsonObject> values) {
  json_t* all = json_array();
  for (JsonObject& v : values) json_array_append_new(all, std::exchange(v.object_, nullptr));
  return add(name, all);
}

std::string JsonObject::line() const {
  char* text = json_dumps(
      object_, JSON_ENSURE_ASCII | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(significant_digits));
  const std::string s = text == nullptr ? "" : text;
  std::free(text);
  return s + "\n";
}

void JsonObject::print(std::FILE* to) const {
  std::fputs(line().c_str(), to);
}

}  // namespace kilim::cli
