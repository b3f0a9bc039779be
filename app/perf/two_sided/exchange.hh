// SPDX-License-Identifier: BSD-3-Clause
// The messages of the two sides of a test over TCP: hello, begin and end of a round, errors. What
// arrives is untrusted: it is decoded to a value, or refused with a sentence. Plain values; control
// path only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kilim/detail/base/ident.hh"
#include "kilim/device.hh"
#include "kilim/result.hh"
#include "perf/two_sided/agreement.hh"

namespace kilim::perf {

inline constexpr uint16_t exchange_version = 1;
inline constexpr uint32_t exchange_magic = 0x4b4c5046;
inline constexpr std::size_t header_bytes = 12;  // magic, version, kind, bytes behind it
inline constexpr uint32_t most_payload = 4096;

enum class Kind : uint16_t {
  hello = 1,  // first from each side
  refusal,    // why there is no test, or what a check found
  begin,      // a round, from the client
  ready,      // for the round, from the server
  end,        // of the round, from the client
  good,       // the server found nothing wrong
  bye,        // the client has what it wanted
};

struct Header {
  Kind kind{};
  uint32_t bytes = 0;
};

// The first message: the agreement, the sender's memory and its queue pairs.
struct Hello {
  Agreement agreement;
  uint64_t address = 0;
  uint64_t length = 0;
  Rkey key;
  std::vector<device::Endpoint> ends;
};

struct RoundEnd {
  uint64_t nanoseconds = 0;
  uint64_t peak = 0;               // bytes a second
  std::vector<uint64_t> messages;  // of each queue
};

std::vector<uint8_t> encode_header(const Header& h);
std::vector<uint8_t> encode(const Hello& h);
std::vector<uint8_t> encode(const RoundEnd& e);
std::vector<uint8_t> encode_bytes(uint32_t bytes);

Result<Header> decode_header(std::span<const uint8_t> bytes);
Result<Hello> decode_hello(std::span<const uint8_t> bytes);
Result<RoundEnd> decode_end(std::span<const uint8_t> bytes, const Agreement& agreed);
Result<uint32_t> decode_begin(std::span<const uint8_t> bytes, const Agreement& agreed);
// Decodes a text: printable characters only, one line at most.
std::string decode_text(std::span<const uint8_t> bytes);

}  // namespace kilim::perf
