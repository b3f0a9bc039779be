// SPDX-License-Identifier: BSD-3-Clause
#include "cli/folded.hh"

#include <algorithm>
#include <utility>

namespace kilim::cli {
namespace {

constexpr std::size_t columns = 80;
constexpr std::size_t last_column = 56;  // where a second column may begin

std::size_t lead_of(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// The column in which a folded line goes on: the second column's begin, or that of the only one.
std::size_t indent_of(std::string_view line) {
  const std::size_t lead = lead_of(line), gap = line.find("  ", lead);
  const std::size_t column = std::min(line.find_first_not_of(' ', gap), line.size());
  return gap != std::string_view::npos && column <= last_column ? column : lead;
}

class Folder {
 public:
  void add(std::string_view line) {
    std::string now(line);
    const bool goes_on = !line.empty() && lead_of(line) == indent_ && indent_of(line) == indent_;
    if (rest_.empty() || !goes_on) {
      flush();
      indent_ = indent_of(line);
    } else {
      now = std::string(indent_, ' ') + rest_ + " " + now.substr(indent_);
      rest_.clear();
    }
    for (; now.size() > columns; now = std::string(indent_, ' ') + rest_) {
      const std::size_t cut = cut_of(now);
      text_.append(now, 0, cut).append("\n");
      rest_ = cut < now.size() ? now.substr(cut + 1) : "";
      if (rest_.empty()) return;
    }
    if (rest_.empty()) text_.append(now).append("\n");
  }
  std::string take() {
    flush();
    return std::move(text_);
  }

 private:
  // The place at which a line that is too long is cut. A word that does not fit where it stands
  // begins farther left.
  static std::size_t cut_of(std::string& line) {
    const std::size_t cut = line.rfind(' ', columns), lead = lead_of(line);
    if (cut != std::string::npos && cut > lead) return cut;
    const std::size_t end = std::min(line.find(' ', lead), line.size());
    const std::size_t out = std::min(lead, end - std::min(end, columns));
    line.erase(0, out);
    return end - out;
  }
  void flush() {
    if (rest_.empty()) return;
    const std::size_t most = columns - std::min(columns, rest_.size());  // for a word that is long
    text_.append(std::min(indent_, most), ' ').append(rest_).append("\n");
    rest_.clear();
  }

  std::string text_, rest_;  // done; and what goes on
  std::size_t indent_ = 0;
};

}  // namespace

std::string folded(std::string_view text) {
  Folder f;
  for (std::size_t end; !text.empty(); text.remove_prefix(std::min(end + 1, text.size()))) {
    end = std::min(text.find('\n'), text.size());
    f.add(text.substr(0, end));
  }
  return f.take();
}

}  // namespace kilim::cli
