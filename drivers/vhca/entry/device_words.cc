// SPDX-License-Identifier: BSD-3-Clause
// A row for each word, and the reader of a list of them.
#include "vhca/entry/device_words.hh"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>
#include <vector>

#include "kilim/detail/base/nearest.hh"
#include "vhca/core/order.hh"
#include "vhca/core/port_ip.hh"
#include "vhca/core/profile.hh"
#include "vhca/core/request_faults.hh"
#include "vhca/entry/config.hh"
#include "vhca/lint/lint.hh"
#include "vhca/wire/make.hh"

namespace kilim::vhca::entry {
namespace {

template <auto member>
bool differs(const DeviceSpec& spec) {
  const DeviceSpec plain;
  return spec.*member != plain.*member;
}

// A word that the device looks up: find() gives a Result.
template <std::string DeviceSpec::*to, auto find>
std::string read_word(DeviceSpec& spec, std::string_view value) {
  const auto found = find(value);
  if (!found) return found.error().what;
  spec.*to = value;
  return "";
}

// An address: parse() gives an optional.
template <std::string DeviceSpec::*to, auto parse>
std::string read_address(DeviceSpec& spec, std::string_view value) {
  if (!parse(value))
    return to == &DeviceSpec::mac ? "an address of one station is needed, like 02:4b:4c:00:00:01"
                                  : "an IPv6 address of one station, not a link-local one, is "
                                    "needed, like fd00::1";
  spec.*to = value;
  return "";
}

std::optional<uint64_t> parse_number(std::string_view text) noexcept {
  uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return n;
}

std::string read_wire(DeviceSpec& spec, std::string_view value) {
  std::string why;
  if (wire::check_wire_spec(value, &why)) spec.wires.emplace_back(value);
  return why;
}

// Names of interfaces are what the kernel takes (dev_valid_name() in net/core/dev.c).
std::string read_netdev(DeviceSpec& spec, std::string_view value) {
  if (wire::interface_of_wire("tap:" + std::string(value)) != value || value.empty() ||
      value.find_first_of("%,=+") != std::string_view::npos)
    return "the name of a network interface is needed: 1 to 15 characters without '/' and ':', "
           "like tap0";
  spec.netdev = value;
  return "";
}

std::string read_ip(DeviceSpec& spec, std::string_view value) {
  if (!parse_port_ip(value)) return "an IP address of one station, like 10.0.0.1/24 or fd00::1/64";
  spec.ips.emplace_back(value);
  return "";
}

std::string read_seed(DeviceSpec& spec, std::string_view value) {
  const std::optional<uint64_t> n = parse_number(value);
  if (!n) return "a number from 0 to 18446744073709551615 is needed";
  spec.seed = *n;
  return "";
}

std::string read_fault(DeviceSpec& spec, std::string_view value) {
  constexpr std::string_view fatal = "fatal@";
  if (value.starts_with("wqe@"))
    return read_word<&DeviceSpec::failing, find_request_faults>(spec, value);
  const std::optional<uint64_t> at =
      value.starts_with(fatal) ? parse_number(value.substr(fatal.size())) : std::nullopt;
  if (!at || *at == 0) return "fatal@N, wqe@N or wqe@N+M is needed, with N and M from 1";
  spec.fatal_at = *at;
  return "";
}

bool is_faulty(const DeviceSpec& spec) {
  return spec.fatal_at != 0 || !spec.failing.empty();
}

std::string read_journal(DeviceSpec& spec, std::string_view value) {
  if (value.empty()) return "a file name is needed";
  spec.journal = value;
  return "";
}

std::string read_explain(DeviceSpec& spec, std::string_view value) {
  if (value != "on" && value != "off") return "on or off is needed";
  spec.explain = value;
  return "";
}

std::string read_progress(DeviceSpec& spec, std::string_view value) {
  if (value != "poll" && value != "thread") return "poll or thread is needed";
  spec.progress = value == "thread" ? Progress::thread : Progress::poller;
  return "";
}

// clang-format off
constexpr DeviceWord words[] = {
    {"wire", "SPEC", "af_packet:IFACE, pcap:IN[:OUT], tap:NAME, cable:NAME, unix:DIR, shm:DIR, udp: or dgram: and addresses, each with +ip:ADDRESS, +tee:FILE, +fault:..., af_packet: with +exclusive; default: loopback only",
     read_wire, differs<&DeviceSpec::wires>, "wire= is for virtual devices (hca=vhcaN): a card has a wire of its own"},
    {"netdev", "NAME", "a TAP: the kernel's network interface beside port 1, which gets what no rule in front of it takes; needs wire=; default: none",
     read_netdev, differs<&DeviceSpec::netdev>, "netdev= is for virtual devices (hca=vhcaN): a card has an interface of its own"},
    {"progress", "WHO", "poll or thread; default poll",
     read_progress, differs<&DeviceSpec::progress>, "progress= is for virtual devices (hca=vhcaN): a card runs by itself"},
    {"fault", "FAULT", "fatal@N: the device dies with its N-th send request; wqe@N or wqe@N+M: that one fails, and each M-th behind it",
     read_fault, is_faulty, "fault= is for virtual devices (hca=vhcaN): a card fails as it likes", true},
    {"lint", "MODE", "off, warn or error: what becomes of wrong send WQEs; default off",
     read_word<&DeviceSpec::lint, lint::find_lint_mode>, differs<&DeviceSpec::lint>, "lint= is for virtual devices (hca=vhcaN): a card tells nobody"},
    {"explain", "WHETHER", "on or off: a sentence on stderr for each kind of failed request and refused verb; default off",
     read_explain, differs<&DeviceSpec::explain>, "explain= is for virtual devices (hca=vhcaN): a card gives a number"},
    {"order", "ORDER", "strict, weak, late-umr, late-read or resend, all but the first also with :SEED: when what no fence holds happens; default strict",
     read_word<&DeviceSpec::order, find_order>, differs<&DeviceSpec::order>, "order= is for virtual devices (hca=vhcaN): a card's is its own"},
    {"profile", "NAME", "cx6dx, vf, strong-fence, no-fence, no-devx, real-time, ...; default cx6dx",
     read_word<&DeviceSpec::profile, find_profile>, differs<&DeviceSpec::profile>, "profile= is for virtual devices (hca=vhcaN): a card has its own"},
    {"mac", "ADDRESS", "of port 1, like 02:4b:4c:00:00:01; default: the wire's, else by name and seed",
     read_address<&DeviceSpec::mac, parse_mac>, differs<&DeviceSpec::mac>, "mac= is for virtual devices (hca=vhcaN): a card has an address of its own"},
    {"gid", "ADDRESS", "GID 1 of port 1, an IPv6 address like fd00::1; default: none",
     read_address<&DeviceSpec::gid, parse_gid>, differs<&DeviceSpec::gid>, "gid= is for virtual devices (hca=vhcaN): a card's follow from its interface"},
    {"ip", "ADDRESS", "of port 1, 10.0.0.1/24 or fd00::1/64, for the connection manager and the GID table",
     read_ip, differs<&DeviceSpec::ips>, "ip= is for virtual devices (hca=vhcaN): a card's interface has its own", true},
    {"seed", "N", "a number: those of keys and queues, and addresses, follow from it; default 0",
     read_seed, differs<&DeviceSpec::seed>, "seed= is for virtual devices (hca=vhcaN): a card numbers as it likes"},
    {"journal", "FILE", "a line for each thing that the device does is appended to it; JSON if it ends in .json",
     read_journal, differs<&DeviceSpec::journal>, "journal= is for virtual devices (hca=vhcaN): a card keeps none"},
};
// clang-format on

std::string read_one(std::string_view word, std::string_view value, DeviceSpec& spec) {
  if (word == "name") {
    spec.name = value;
    return name_is_valid(value) ? "" : "1 to 32 letters, digits, '_', '-' or '.' are needed";
  }
  const DeviceWord* row = find_device_word(word);
  if (row != nullptr) return row->read(spec, value);
  std::vector<std::string_view> known{"name"};
  std::string all = "name=";
  for (const DeviceWord& w : words) {
    known.push_back(w.name);
    all += std::string(" ") + w.name + "=";
  }
  return "this word is unknown" + nearest_hint(word, known) + "; known are " + all;
}

}  // namespace

std::span<const DeviceWord> device_words() noexcept {
  return words;
}

const DeviceWord* find_device_word(std::string_view name) noexcept {
  const auto* at =
      std::ranges::find(words, name, [](const DeviceWord& w) { return std::string_view(w.name); });
  return at == std::end(words) ? nullptr : at;
}

std::string read_device_text(std::string_view text, DeviceSpec& spec) {
  std::vector<std::string_view> seen;
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    const std::size_t equal = pair.find('=');
    std::string quoted(1, '"');
    quoted.append(pair).append("\"");
    if (equal == std::string_view::npos || equal + 1 == pair.size())
      return quoted + ": a word and its value are needed, like lint=warn";
    const std::string_view word = pair.substr(0, equal);
    const DeviceWord* row = find_device_word(word);
    if ((row == nullptr || !row->repeats) && std::ranges::find(seen, word) != seen.end())
      return quoted + ": " + std::string(word) + "= is given twice";
    seen.push_back(word);
    if (std::string why = read_one(word, pair.substr(equal + 1), spec); !why.empty())
      return std::string(quoted).append(": ").append(why);
  }
  return "";
}

}  // namespace kilim::vhca::entry
