// SPDX-License-Identifier: BSD-3-Clause
// JsonObject: one object of the programs' output, on one line of ASCII; libjansson writes and
// escapes it. A value, one thread; not for paths that are measured.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

struct json_t;

namespace kilim::cli {

// Members are written in the order in which they were added. A name is the program's own literal.
class JsonObject {
 public:
  JsonObject();
  ~JsonObject();
  JsonObject(JsonObject&& other) noexcept;
  JsonObject& operator=(JsonObject&&) = delete;
  JsonObject(const JsonObject&) = delete;
  JsonObject& operator=(const JsonObject&) = delete;

  // Any bytes: those that are no UTF-8 become U+FFFD each.
  JsonObject& text(const char* name, std::string_view value);
  JsonObject& number(const char* name, uint64_t value);
  // Rounded to `digits` behind the point; what is not finite becomes null.
  JsonObject& real(const char* name, double value, int digits);
  JsonObject& flag(const char* name, bool value);
  JsonObject& null(const char* name);
  JsonObject& object(const char* name, JsonObject value);
  JsonObject& list(const char* name, std::vector<JsonObject> values);

  // With a newline behind it.
  [[nodiscard]] std::string line() const;
  void print(std::FILE* to = stdout) const;

 private:
  JsonObject& add(const char* name, json_t* value);

  json_t* object_;
};

}  // namespace kilim::cli
