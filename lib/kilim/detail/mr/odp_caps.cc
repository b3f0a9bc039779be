// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/mr/odp_caps.hh"

#include <cerrno>

namespace kilim::inline v1::mr {
namespace {

constexpr std::array<const char*, odp_transports> transport_names{"RC", "UC",  "UD",
                                                                  "DC", "XRC", "raw Ethernet"};
constexpr std::array<const char*, odp_operations> operation_names{"SEND", "RECV",   "WRITE",
                                                                  "READ", "ATOMIC", "SRQ_RECV"};

// "on-demand paging: the adapter lacks the capability UC WRITE". One for each pair, made at compile
// time: an Error keeps a pointer to a sentence with static storage.
struct Sentence {
  std::array<char, 80> text{};
};

constexpr Sentence lacks(const char* transport, const char* operation) {
  Sentence s;
  std::size_t n = 0;
  for (const char* part :
       {"on-demand paging: the adapter lacks the capability ", transport, " ", operation}) {
    for (; *part != '\0'; part++) s.text[n++] = *part;
  }
  return s;
}

constexpr auto lacking = [] {
  std::array<std::array<Sentence, odp_operations>, odp_transports> all{};
  for (std::size_t t = 0; t < odp_transports; t++) {
    for (std::size_t o = 0; o < odp_operations; o++)
      all[t][o] = lacks(transport_names[t], operation_names[o]);
  }
  return all;
}();

std::string row_of(const OdpCaps& caps, std::size_t t) {
  std::string row = "  ";
  row += transport_names[t];
  row.append(15 - row.size(), ' ');
  if (!caps.operations[t]) return row + " not reported\n";
  for (std::size_t o = 0; o < odp_operations; o++) {
    std::string word = (*caps.operations[t] >> o & 1) != 0 ? operation_names[o] : "-";
    word.append(9 - word.size(), ' ');
    row += ' ' + word;
  }
  row.erase(row.find_last_not_of(' ') + 1);
  return row + '\n';
}

}  // namespace

Status odp_refusal(const OdpCaps& caps, bool implicit, std::span<const OdpUse> uses) {
  if (!caps.supported)
    return Error{EOPNOTSUPP, "on-demand paging: the adapter lacks the general capability SUPPORT"};
  if (implicit && !caps.implicit)
    return Error{EOPNOTSUPP,
                 "on-demand paging: the adapter lacks the general capability SUPPORT_IMPLICIT"};
  for (const OdpUse& use : uses) {
    const auto t = static_cast<std::size_t>(use.transport);
    if (t >= odp_transports || use.operations >> odp_operations != 0)
      return Error{EINVAL, "on-demand paging: no such transport or operation"};
    const uint32_t there = caps.operations[t].value_or(0);
    for (std::size_t o = 0; o < odp_operations; o++) {
      if ((use.operations & ~there) >> o & 1) return Error{EOPNOTSUPP, lacking[t][o].text.data()};
    }
  }
  return Done{};
}

std::string odp_table(const OdpCaps& caps) {
  std::string table = "on-demand paging: general: ";
  table += caps.supported ? (caps.implicit ? "SUPPORT SUPPORT_IMPLICIT" : "SUPPORT") : "none";
  table += '\n';
  for (std::size_t t = 0; t < odp_transports; t++) table += row_of(caps, t);
  return table;
}

}  // namespace kilim::inline v1::mr
