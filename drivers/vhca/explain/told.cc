// SPDX-License-Identifier: BSD-3-Clause
// A table looked through from its beginning. Adapter's lock held. Never allocates.
#include "vhca/explain/told.hh"

#include <cerrno>

#include <unistd.h>

#include "kilim/prm/text.hh"

namespace kilim::vhca::explain {

bool Told::is_news(uint32_t queue, bool send, const char* cause, const About& about) noexcept {
  const auto other = [](std::string_view a, std::string_view b) { return a != b; };
  all_++;
  for (std::size_t i = 0; i < used_; i++) {
    Row& r = rows_[i];
    if (r.queue != queue || r.send != send || other(r.cause, cause)) continue;
    if (other(r.about.verb, about.verb) || other(r.about.field, about.field)) continue;
    r.count++;
    return false;
  }
  if (used_ == most) {
    untold_++;
    return false;
  }
  rows_[used_++] = {queue, send, cause, 1, about};
  return true;
}

void write_explanation(const char* device, std::string_view sentence) noexcept {
  const int saved = errno;
  std::array<char, 1400> line;
  prm::Text t{line};
  t.put("kilim-vhca: ").put(device).put(": explain: ").put(sentence).put('\n');
  std::string_view text = t.view();
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  errno = saved;
}

}  // namespace kilim::vhca::explain
