// SPDX-License-Identifier: BSD-3-Clause
// From a wire spec, as `--wire` and the devarg `wire=` carry it, to the wire. Specs hold neither
// ',' nor '=' (devargs would split them); decorators follow with '+'. Control path, any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kilim/detail/base/result.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::wire {

// What a user may write, for help texts.
// Errors name the kind of wire, or the decorator, that a misspelt one is nearest to.
inline constexpr const char* wire_spec_help =
    "unix:DIR, shm:DIR, cable:NAME, pcap:IN[:OUT], af_packet:IFACE, tap:NAME, "
    "udp:HOST:PORT:HOST:PORT "
    "or dgram:OURS:THEIRS, then +ip:ADDRESS, +tee:FILE, "
    "+fault:drop:0.01:dup:0.01:reorder:0.01:corrupt:0.01:seed:7 or, of af_packet:, +exclusive";

// Whether the kind of wire and its decorators exist and are named; nothing is opened. `why` as
// below.
Status check_wire_spec(std::string_view spec, std::string* why = nullptr);

// The same spec for a process whose current folder is another: relative paths of folders and files
// are put behind `folder`.
Result<std::string> absolute_wire_spec(std::string_view spec, std::string_view folder);

// The words behind "+ip:" of a spec: addresses of the port, for the connection manager.
std::vector<std::string> ips_of_wire(std::string_view spec);

// The name of the machine's network interface whose frames a spec carries; empty: of none.
std::string_view interface_of_wire(std::string_view spec) noexcept;

// `why`, where given, gets a whole sentence that names the spec and what would do; Error::what is
// its short form.
Result<std::unique_ptr<Wire>> make_wire(std::string_view spec, std::string* why = nullptr);

}  // namespace kilim::vhca::wire
