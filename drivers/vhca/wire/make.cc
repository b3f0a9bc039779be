// SPDX-License-Identifier: BSD-3-Clause
// Wire specs: one table row a kind.
#include "vhca/wire/make.hh"

#include <cerrno>
#include <cstring>
#include <vector>

#include <net/if.h>

#include "kilim/detail/base/nearest.hh"
#include "vhca/core/port_ip.hh"
#include "vhca/wire/af_packet.hh"
#include "vhca/wire/cable.hh"
#include "vhca/wire/dgram.hh"
#include "vhca/wire/fault.hh"
#include "vhca/wire/kernel_rules.hh"
#include "vhca/wire/pcap.hh"
#include "vhca/wire/shm.hh"
#include "vhca/wire/stations.hh"
#include "vhca/wire/tap.hh"
#include "vhca/wire/tee.hh"
#include "vhca/wire/udp.hh"
#include "vhca/wire/unix.hh"

namespace kilim::vhca::wire {

namespace {

using Made = Result<std::unique_ptr<Wire>>;

Made make_cable(std::string_view rest) {
  return Cable::create(rest);
}

Made make_af_packet(std::string_view rest) {
  return AfPacket::create(rest);
}

Made make_pcap(std::string_view rest) {
  std::size_t colon = rest.find(':');
  if (colon == std::string_view::npos) return PcapWire::create(rest, {});
  std::string_view out = rest.substr(colon + 1);
  if (out.find(':') != std::string_view::npos) {
    return Error{EINVAL, "pcap: more than two files are named"};
  }
  return PcapWire::create(rest.substr(0, colon), out);
}

enum class Paths : uint8_t { none, one, listed };  // listed: with ':' between them

struct Kind {
  std::string_view name;
  Made (*make)(std::string_view rest);
  Paths paths = Paths::none;  // in what follows
  bool interface = false;     // what follows is a network interface's name
  bool asks = false;          // neighbours' IP addresses are asked for by frames
};
constexpr Kind kinds[] = {
    {"unix:", UnixWire::create, Paths::one},
    {"shm:", ShmWire::create, Paths::one},
    {"cable:", make_cable},
    {"pcap:", make_pcap, Paths::listed},
    {"af_packet:", make_af_packet, Paths::none, true},
    {"tap:", TapWire::create, Paths::none, true, true},
    {"udp:", UdpWire::create, Paths::none, false, true},
    {"dgram:", DgramWire::create, Paths::listed, false, true},
};

// Only a packet socket sees frames that its kernel does not.
constexpr std::string_view exclusive = "exclusive", shared_with_kernel = "af_packet:";

// A decorator, which takes what stands before it. A name without ':' is the whole word.
struct Around {
  std::string_view name;
  Made (*make)(std::unique_ptr<Wire> inner, std::string_view rest);
  Paths paths = Paths::none;
};
constexpr Around decorators[] = {
    {"tee:", Tee::create, Paths::one},
    {"fault:", Fault::create},
    {exclusive, Exclusive::create},
};

// What belongs to the port, not to the wire.
constexpr std::string_view ip_word = "ip:";

template <typename Row, std::size_t N>
const Row* find_row(const Row (&rows)[N], std::string_view word) {
  for (const Row& row : rows) {
    if (row.name.ends_with(':') ? word.starts_with(row.name) : word == row.name) return &row;
  }
  return nullptr;
}

// A wire and its decorators: calls `each` with every word between '+' signs until it says no.
template <typename Each>
bool each_word(std::string_view spec, Each each) {
  for (std::size_t at = 0; at != std::string_view::npos;) {
    std::size_t plus = spec.find('+', at);
    if (!each(at == 0, spec.substr(at, plus - at))) return false;
    at = plus == std::string_view::npos ? plus : plus + 1;
  }
  return true;
}

Status check_word(bool first, std::string_view word) {
  if (!first) {
    constexpr std::string_view faults = "fault:";
    if (word.starts_with(faults)) {
      const Result<FaultRates> rates = parse_faults(word.substr(faults.size()));
      return rates ? Status{Done{}} : Status{rates.error()};
    }
    if (find_row(decorators, word) != nullptr) return Done{};
    if (!word.starts_with(ip_word))
      return Error{EINVAL, "behind '+' comes ip:ADDRESS, tee:FILE, fault:WORD:RATE or exclusive"};
    if (parse_port_ip(word.substr(ip_word.size()))) return Done{};
    return Error{EINVAL, "behind 'ip:' comes an address of one station, 10.0.0.1/24 or fd00::1/64"};
  }
  const Kind* kind = find_row(kinds, word);
  if (kind == nullptr) return Error{EINVAL, "unknown kind of wire"};
  if (word.size() == kind->name.size())
    return Error{EINVAL, "the kind of wire is not followed by a name"};
  return Done{};
}

// The shape of a whole spec. A zero byte would end it where a C string is made of it.
Status check(std::string_view spec) {
  if (spec.find_first_of(",=") != std::string_view::npos)
    return Error{EINVAL, "a wire spec contains neither ',' nor '='"};
  if (spec.find('\0') != std::string_view::npos)
    return Error{EINVAL, "a wire spec has no zero byte"};
  Status status = Done{};
  each_word(spec, [&](bool first, std::string_view word) {
    status = check_word(first, word);
    if (!first && word == exclusive && !spec.starts_with(shared_with_kernel))
      status =
          Error{EINVAL, "exclusive is a word of af_packet: alone, whose kernel sees frames too"};
    return status.ok();
  });
  return status;
}

// The paths of a word, each behind `folder` where it is relative.
template <typename Row>
std::string absolute_word(const Row& row, std::string_view word, std::string_view folder) {
  std::string out(row.name);
  word.remove_prefix(row.name.size());
  for (std::size_t at = 0; at != std::string_view::npos;) {
    std::size_t colon = row.paths == Paths::listed ? word.find(':', at) : std::string_view::npos;
    std::string_view path = word.substr(at, colon - at);
    if (at != 0) out += ':';
    if (!path.empty() && path[0] != '/') out.append(folder) += '/';
    out += path;
    at = colon == std::string_view::npos ? colon : colon + 1;
  }
  return out;
}

// From left to right: the wire, then each decorator around what is there. Outside of all is who
// speaks for the port: captures and faults see its frames.
Made make(std::string_view spec) {
  if (Status shape = check(spec); !shape) return shape.error();
  Made made = Error{EINVAL, "unknown kind of wire"};
  bool asks = false;
  each_word(spec, [&](bool first, std::string_view word) {
    if (first) {
      const Kind* kind = find_row(kinds, word);
      asks = kind->asks;
      made = kind->make(word.substr(kind->name.size()));
    } else if (const Around* around = find_row(decorators, word)) {
      made = around->make(std::move(*made), word.substr(around->name.size()));
    }
    return made.ok();
  });
  if (made.ok() && asks) return std::unique_ptr<Wire>(std::make_unique<Stations>(std::move(*made)));
  return made;
}

// " (is 'unix:' meant?)" for the first word of the spec that begins with no kind and no decorator.
std::string hint(std::string_view spec) {
  std::string found;
  each_word(spec, [&found](bool first, std::string_view word) {
    if (first ? find_row(kinds, word) != nullptr : find_row(decorators, word) != nullptr)
      return true;
    if (!first && word.starts_with(ip_word)) return true;
    std::vector<std::string_view> names;
    for (const Kind& k : kinds)
      if (first) names.push_back(k.name);
    for (const Around& a : decorators)
      if (!first) names.push_back(a.name);
    if (!first) names.push_back(ip_word);
    const std::size_t colon = word.find(':');
    const std::string begin = std::string(word.substr(0, colon)) + ':';
    found = nearest_hint(begin, names);
    return false;
  });
  return found;
}

// Of a spec that is well formed only the reason is told, not what else a wire may be.
std::string sentence(std::string_view spec, const Error& e) {
  const std::string known = "wire '" + std::string(spec) + "': " + e.what;
  const std::string code = std::string(" (") + std::strerror(e.code) + ")";
  if (check(spec).ok()) return known + code + ".";
  return known + hint(spec) + code + "; a wire is " + wire_spec_help + ".";
}

}  // namespace

Status check_wire_spec(std::string_view spec, std::string* why) {
  Status shape = check(spec);
  if (!shape && why != nullptr) *why = sentence(spec, shape.error());
  return shape;
}

Result<std::string> absolute_wire_spec(std::string_view spec, std::string_view folder) {
  if (Status shape = check(spec); !shape) return shape.error();
  std::string out;
  each_word(spec, [&](bool first, std::string_view word) {
    const Kind* kind = first ? find_row(kinds, word) : nullptr;
    const Around* around = first ? nullptr : find_row(decorators, word);
    if (!first) out += '+';
    if (kind != nullptr && kind->paths != Paths::none)
      out += absolute_word(*kind, word, folder);
    else if (around != nullptr && around->paths != Paths::none)
      out += absolute_word(*around, word, folder);
    else
      out += word;
    return true;
  });
  if (out != spec && (folder.empty() || folder.find_first_of(",=+:") != std::string_view::npos)) {
    return Error{EINVAL,
                 "a relative path needs a current folder without ',', '=', '+' and ':' in "
                 "its name"};
  }
  return out;
}

std::vector<std::string> ips_of_wire(std::string_view spec) {
  std::vector<std::string> list;
  each_word(spec, [&list](bool first, std::string_view word) {
    if (!first && word.starts_with(ip_word)) list.emplace_back(word.substr(ip_word.size()));
    return true;
  });
  return list;
}

// Names become parts of paths: none but what the kernel takes (dev_valid_name in net/core/dev.c).
std::string_view interface_of_wire(std::string_view spec) noexcept {
  const std::string_view word = spec.substr(0, spec.find('+'));
  const Kind* kind = find_row(kinds, word);
  if (kind == nullptr || !kind->interface) return {};
  const std::string_view name = word.substr(kind->name.size());
  const bool valid = name.size() < IFNAMSIZ && name != "." && name != ".." &&
                     name.find_first_of("/: \t\n") == std::string_view::npos;
  return valid ? name : std::string_view{};
}

Result<std::unique_ptr<Wire>> make_wire(std::string_view spec, std::string* why) {
  Made made = make(spec);
  if (!made && why != nullptr) *why = sentence(spec, made.error());
  return made;
}

}  // namespace kilim::vhca::wire
