// SPDX-License-Identifier: BSD-3-Clause
// Parses the arguments behind a --vdev name: `hca=vhca0,port=1,rxq=1,...`. An argument that is
// unknown, out of range or given twice is refused with a sentence that names it and its range.
// Set-up only; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "attach/resolve.hh"

namespace kilim::net {

// The arguments, with their defaults.
struct Devargs {
  attach::Spec hca;  // hca=, wire=, progress=, fault=, lint=, order=
  uint32_t port = 1;
  uint32_t rxq = 1;
  uint32_t txq = 1;
  uint32_t rxd = 1024;
  uint32_t txd = 1024;
};

// Why the arguments were refused: a sentence for people.
struct DevargsError {
  std::string why;
};

// `text`: rte_devargs::args of EAL; null or empty: all defaults.
std::variant<Devargs, DevargsError> parse_devargs(const char* text);

// The arguments with their ranges, one on each line, for help texts. Static storage.
const char* devargs_help() noexcept;

}  // namespace kilim::net
