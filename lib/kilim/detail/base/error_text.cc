// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/base/error_text.hh"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace kilim::inline v1 {

const char* const error_texts_full =
    "the request was refused; its numbers are not shown, because this process has had too many "
    "different errors";

namespace {

// Texts are appended and never change, so that an Error may be read without the mutex.
struct Texts {
  std::mutex mutex;
  uint32_t used = 0;
  char text[max_error_texts][max_error_bytes] = {};
};

Texts& texts() noexcept {
  static constinit Texts t;
  return t;
}

}  // namespace

Error error_with(int code, const char* format, ...) noexcept {
  char said[max_error_bytes];
  va_list args;
  va_start(args, format);
  const int n = std::vsnprintf(said, sizeof said, format, args);
  va_end(args);
  if (n < 0) return {code, error_texts_full};
  Texts& t = texts();
  const std::lock_guard lock{t.mutex};
  for (uint32_t i = 0; i < t.used; i++)
    if (std::strcmp(t.text[i], said) == 0) return {code, t.text[i]};
  if (t.used == max_error_texts) return {code, error_texts_full};
  char* kept = t.text[t.used++];
  std::memcpy(kept, said, sizeof said);
  return {code, kept};
}

}  // namespace kilim::inline v1
