// SPDX-License-Identifier: BSD-3-Clause
#include "screen.hh"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace kilim::testpmd {
namespace {

// Characters of a line, codes of colour not counted.
class Page {
 public:
  explicit Page(const ScreenLook& look) : look_(look) {}
  [[gnu::format(printf, 2, 3)]] void line(const char* format, ...) {
    char text[screen_columns + 1];
    va_list values;
    va_start(values, format);
    std::vsnprintf(text, sizeof text, format, values);
    va_end(values);
    add(text, "");
  }
  void add(std::string text, const char* colour) {
    if (lines_.size() == screen_lines) return;
    if (look_.colour && *colour != 0) text = colour + text + "\033[0m";
    lines_.push_back(std::move(text));
  }
  [[nodiscard]] std::size_t left() const { return screen_lines - lines_.size(); }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  const ScreenLook& look_;
  std::vector<std::string> lines_;
};

constexpr const char* bold = "\033[1m";
constexpr const char* red = "\033[31m";
constexpr const char* green = "\033[32m";

// The last intervals as a row of bars.
std::string sparkline(const std::vector<double>& past, bool utf8) {
  constexpr const char* blocks[] = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                    "\u2585", "\u2586", "\u2587", "\u2588"};
  constexpr const char* plain[] = {" ", ".", ".", ":", "-", "=", "+", "*", "#"};
  const double most = past.empty() ? 0 : *std::max_element(past.begin(), past.end());
  std::string s;
  for (const double v : past) {
    const auto level = most > 0 ? static_cast<std::size_t>(std::lround(v / most * 8)) : 0;
    s += utf8 ? blocks[level] : plain[level];
  }
  return s;
}

uint64_t drops_of(const PortReport& p) {
  const port::PortStats& c = p.counts;
  return c.rx_missed + c.all_rx_errors() + c.rx_discarded + c.all_tx_errors() + c.bind_errors +
         p.tx_dropped;
}

void print_drops(Page& page, const Report& r) {
  const port::PortStats c = r.total();
  char text[screen_columns + 1];
  std::snprintf(
      text, sizeof text, "drops  missed %s  too long %s  errors %s  no room to send %s",
      short_number(static_cast<double>(c.rx_missed)).c_str(),
      short_number(static_cast<double>(c.rx_too_long)).c_str(),
      short_number(static_cast<double>(c.all_rx_errors() + c.all_tx_errors() + c.bind_errors))
          .c_str(),
      short_number(static_cast<double>(r.tx_dropped())).c_str());
  uint64_t all = 0;
  for (const PortReport& p : r.ports) all += drops_of(p);
  page.add(text, all == 0 ? green : red);
  if (c.queues_down != 0) page.add("queues down: " + std::to_string(c.queues_down), red);
}

void print_port(Page& page, std::size_t n, const PortReport& p, const PortRates& r) {
  page.line("%2zu %-14.14s %7s pps %7sb/s  max %7s | %7s pps %7sb/s %6s", n, p.name.c_str(),
            short_number(r.rx.now.pps).c_str(), short_number(r.rx.now.bps).c_str(),
            short_number(r.rx.most.pps).c_str(), short_number(r.tx.now.pps).c_str(),
            short_number(r.tx.now.bps).c_str(),
            short_number(static_cast<double>(drops_of(p))).c_str());
}

void print_queues(Page& page, std::size_t n, const PortRates& r) {
  if (r.rx_queues.size() < 2) return;
  for (std::size_t q = 0; q < r.rx_queues.size() && page.left() > 6; q++)
    page.line("   %zu.%-2zu           %7s pps %7sb/s  max %7s", n, q,
              short_number(r.rx_queues[q].now.pps).c_str(),
              short_number(r.rx_queues[q].now.bps).c_str(),
              short_number(r.rx_queues[q].most.pps).c_str());
}

}  // namespace

std::string short_number(double n) {
  constexpr const char* units[] = {"", "k", "M", "G", "T"};
  std::size_t u = 0;
  while (n >= 999.5 && u + 1 < std::size(units)) n /= 1000, u++;
  char text[16];
  std::snprintf(text, sizeof text,
                u == 0      ? "%.0f%s"
                : n < 9.995 ? "%.2f%s"
                : n < 99.95 ? "%.1f%s"
                            : "%.0f%s",
                std::min(n, 999999.0), units[u]);
  return text;
}

ScreenLook screen_look() {
  auto has = [](const char* name) {
    const char* v = std::getenv(name);
    return std::string_view(v == nullptr ? "" : v);
  };
  const std::string_view all = has("LC_ALL"), type = has("LC_CTYPE"), lang = has("LANG");
  const std::string_view locale = !all.empty() ? all : !type.empty() ? type : lang;
  const bool utf8 = locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
  return {.colour = has("TERM") != "dumb" && !has("TERM").empty() && has("NO_COLOR").empty(),
          .utf8 = utf8};
}

std::vector<std::string> screen_of(const Report& r, const Rates& rates, const ScreenLook& look) {
  Page page(look);
  char head[screen_columns + 1];
  std::snprintf(head, sizeof head, "kilim-testpmd  mode %s  %.0f s  %zu port(s)  %s forwarded",
                r.mode.c_str(), r.seconds, r.ports.size(),
                short_number(static_cast<double>(r.forwarded)).c_str());
  page.add(head, bold);
  page.line(" # port                   RX                           | TX                 drops");
  for (std::size_t i = 0; i < r.ports.size() && i < rates.ports().size() && page.left() > 6; i++) {
    print_port(page, i, r.ports[i], rates.ports()[i]);
    print_queues(page, i, rates.ports()[i]);
  }
  page.add(sparkline(rates.past(), look.utf8), green);
  page.line("cycles a packet: library %.0f, device %.0f; lcores idle %.0f%%", r.library_cycles(),
            r.device_cycles(), 100 * r.idle_share());
  if (r.uses_keys)
    page.line("keys   bound %s  ended %s",
              short_number(static_cast<double>(r.total().keys_bound)).c_str(),
              short_number(static_cast<double>(r.total().keys_ended)).c_str());
  if (const uint64_t joined = r.total().rx_joined; joined != 0)
    page.line("joined %s TCP segments (LRO)", short_number(static_cast<double>(joined)).c_str());
  print_drops(page, r);
  page.line("SIGINT (Ctrl-C) ends the run with its statistics");
  return page.take();
}

void draw_screen(const std::vector<std::string>& lines, bool first) {
  std::string out = first ? "\033[2J\033[H" : "\033[H";
  for (std::size_t i = 0; i < lines.size(); i++)
    out.append(lines[i]).append("\033[K").append(i + 1 < lines.size() ? "\n" : "");
  out += "\033[J";
  std::fputs(out.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace kilim::testpmd
