// SPDX-License-Identifier: BSD-3-Clause
// The text behind a --vdev name: `hca=vhca0,port=1,rxq=1,...`. Whatever is unknown, out of range or
// given twice is refused with one sentence that names the argument and its range. A table of rows;
// set-up only.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "attach/resolve.hh"

namespace kilim::net {

struct Devargs {
  attach::Spec hca;  // hca=, wire=, progress=, lint=, order=
  uint32_t port = 1;
  uint32_t rxq = 1;
  uint32_t txq = 1;
  uint32_t rxd = 1024;
  uint32_t txd = 1024;
};

// A sentence for people; built, as it carries names and numbers.
struct DevargsError {
  std::string why;
};

// `text` as EAL hands it over; null or empty: all defaults.
std::variant<Devargs, DevargsError> parse_devargs(const char* text);

// The arguments with their ranges, one a line, for help texts and EAL's driver listing.
const char* devargs_help() noexcept;

}  // namespace kilim::net
