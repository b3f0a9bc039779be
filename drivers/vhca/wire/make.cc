// SPDX-License-Identifier: BSD-3-Clause
// Wire specs: one table row a kind.
#include "vhca/wire/make.hh"

#include <cerrno>
#include <cstring>

#include "vhca/wire/af_packet.hh"
#include "vhca/wire/cable.hh"
#include "vhca/wire/fault.hh"
#include "vhca/wire/pcap.hh"
#include "vhca/wire/tap.hh"
#include "vhca/wire/tee.hh"
#include "vhca/wire/udp.hh"
#include "vhca/wire/unix.hh"

namespace kilim::vhca {

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

struct Kind {
  std::string_view name;
  Made (*make)(std::string_view rest);
};
constexpr Kind kinds[] = {
    {"unix:", UnixWire::create},    {"cable:", make_cable},    {"pcap:", make_pcap},
    {"af_packet:", make_af_packet}, {"tap:", TapWire::create}, {"udp:", UdpWire::create},
};

struct Around {
  std::string_view name;
  Made (*make)(std::unique_ptr<Wire> inner, std::string_view rest);
};
constexpr Around decorators[] = {
    {"tee:", Tee::create},
    {"fault:", Fault::create},
};

Made decorate(std::unique_ptr<Wire> inner, std::string_view word) {
  for (const Around& d : decorators) {
    if (word.starts_with(d.name)) return d.make(std::move(inner), word.substr(d.name.size()));
  }
  return Error{EINVAL, "behind '+' comes tee:FILE or fault:WORD:RATE"};
}

Made make_plain(std::string_view spec) {
  for (const Kind& k : kinds) {
    if (!spec.starts_with(k.name)) continue;
    if (spec.size() == k.name.size())
      return Error{EINVAL, "the kind of wire is not followed by a name"};
    return k.make(spec.substr(k.name.size()));
  }
  return Error{EINVAL, "unknown kind of wire"};
}

Made make(std::string_view spec) {
  if (spec.find_first_of(",=") != std::string_view::npos) {
    return Error{EINVAL, "a wire spec contains neither ',' nor '='"};
  }
  if (spec.find('\0') != std::string_view::npos) {
    return Error{EINVAL, "a wire spec has no zero byte"};
  }
  std::size_t plus = spec.find('+');
  Made made = make_plain(spec.substr(0, plus));
  while (made && plus != std::string_view::npos) {
    std::size_t next = spec.find('+', plus + 1);
    std::string_view word = spec.substr(plus + 1, next - plus - 1);
    made = decorate(std::move(*made), word);
    plus = next;
  }
  return made;
}

}  // namespace

Result<std::unique_ptr<Wire>> make_wire(std::string_view spec, std::string* why) {
  Made made = make(spec);
  if (!made && why != nullptr) {
    Error e = made.error();
    *why = "wire '" + std::string(spec) + "': " + e.what + " (" + std::strerror(e.code) +
           "); a wire is " + wire_spec_help + ".";
  }
  return made;
}

}  // namespace kilim::vhca
