// SPDX-License-Identifier: BSD-3-Clause
// The whole table, `help`, and the commands that begin and end things.
#include "commands.hh"

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

#include "prompt.hh"
#include "session.hh"

namespace kilim::testpmd {
namespace {

void start_forwarding(Session& s, const Line&) {
  s.start(0);
}
void start_first(Session& s, const Line& line) {
  s.start(line.size() > 2 ? line.number(2) : 1);
}
void stop_forwarding(Session& s, const Line&) {
  s.stop();
}
void quit(Session& s, const Line&) {
  s.quit();
}
void load(Session& s, const Line& line) {
  static unsigned depth = 0;
  constexpr unsigned most = 8;
  if (depth == most) {
    std::fprintf(stderr, "%s: load is nested more than %u times\n", line.word(1).c_str(), most);
    return;
  }
  depth++;
  if (!run_file(s, line.word(1)))
    std::fprintf(stderr, "%s: cannot be read\n", line.word(1).c_str());
  else
    std::printf("Read CLI commands from %s\n", line.word(1).c_str());
  depth--;
}

// Lines of 80 columns; what is too much for one goes on behind a blank or a '|'.
void print_folded(std::string_view text, std::size_t indent) {
  constexpr std::size_t columns = 80, hanging = 4;
  for (std::size_t cut; text.size() > columns - indent; text.remove_prefix(cut + 1)) {
    cut = text.find_last_of(" |", columns - indent - 1);
    if (cut == std::string_view::npos) break;
    const std::size_t shown = text[cut] == ' ' ? cut : cut + 1;
    std::printf("%*s%.*s\n", static_cast<int>(indent), "", static_cast<int>(shown), text.data());
    indent = hanging;
  }
  std::printf("%*s%.*s\n", static_cast<int>(indent), "", static_cast<int>(text.size()),
              text.data());
}

void print_section(const Section& section) {
  std::printf("\n%s:\n%s\n\n", section.title,
              std::string(std::string(section.title).size() + 1, '-').c_str());
  for (const CommandRow& row : section.rows) {
    if (row.help == nullptr) continue;
    print_folded(row.pattern, 0);
    print_folded(row.help, 4);
    std::printf("\n");
  }
}

void help(Session&, const Line&) {
  std::printf("\nHelp is available for the following sections:\n\n");
  for (const Section& section : command_table())
    if (section.name != nullptr) std::printf("    help %-10s : %s.\n", section.name, section.title);
  std::printf("    help all        : All of the above sections.\n\n");
}

void help_section(Session&, const Line& line) {
  for (const Section& section : command_table())
    if (section.name != nullptr && (line.word(1) == "all" || line.word(1) == section.name))
      print_section(section);
}

constexpr CommandRow control_rows[] = {
    {"start", start_forwarding, "Start packet forwarding with current configuration."},
    {"start tx_first", start_first, "The same after each port has sent a burst."},
    {"start tx_first <n>", start_first, "The same after N bursts."},
    {"stop", stop_forwarding, "Stop packet forwarding and display accumulated statistics."},
    {"load <text>", load, "Run the commands of a file."},
    {"quit", quit, "End the program; so does the end of the input."},
    {"help", help, "The sections of help."},
    {"help all|control|display|config|ports|rss|offloads|flows|kilim|capture|testpmd", help_section,
     "One of them."},
};

}  // namespace

const Section control_commands{"control", "Control forwarding", control_rows};

std::span<const Section> command_table() {
  static const std::array table{control_commands, show_commands,    set_commands,  port_commands,
                                rss_commands,     offload_commands, flow_commands, kilim_commands,
                                capture_commands, lacking_commands};
  return table;
}

}  // namespace kilim::testpmd
