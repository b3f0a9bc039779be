// SPDX-License-Identifier: BSD-3-Clause
// Each message has one length for given numbers of queues; any other is refused.
#include "perf/two_sided/exchange.hh"

#include <algorithm>
#include <cerrno>

#include "perf/two_sided/packing.hh"

namespace kilim::perf {
namespace {

constexpr std::size_t most_text = 200;

constexpr Error broken{EPROTO, "the other side sent a message that is too short or too long"};

void put(Packer& p, const device::Endpoint& e) {
  p.put(e.qpn.value());
  p.put(e.psn);
  p.put(std::span<const uint8_t>{e.gid});
  p.put(e.lid);
  p.put(e.port);
  p.put(e.mtu_bytes);
}

bool get(Unpacker& u, device::Endpoint& e) {
  e.qpn = Qpn{u.get<uint32_t>()};
  e.psn = u.get<uint32_t>();
  u.get(std::span<uint8_t>{e.gid});
  e.lid = u.get<uint16_t>();
  e.port = u.get<uint8_t>();
  e.mtu_bytes = u.get<uint32_t>();
  const bool mtu = e.mtu_bytes >= 256 && e.mtu_bytes <= 4096;
  return e.qpn.value() != 0 && e.qpn.value() <= 0xffffff && e.psn <= 0xffffff && e.port != 0 && mtu;
}

Agreement get_agreement(Unpacker& u, bool& good) {
  Agreement a;
  a.work = static_cast<Work>(u.get<uint8_t>());
  const auto check = u.get<uint8_t>();
  a.check = check == 1;
  a.queues = u.get<uint16_t>();
  a.depth = u.get<uint32_t>();
  a.low = u.get<uint32_t>();
  a.high = u.get<uint32_t>();
  good = check <= 1;
  return a;
}

}  // namespace

std::vector<uint8_t> encode_header(const Header& h) {
  Packer p;
  p.put(exchange_magic);
  p.put(exchange_version);
  p.put(static_cast<uint16_t>(h.kind));
  p.put(h.bytes);
  return p.bytes();
}

std::vector<uint8_t> encode(const Hello& h) {
  Packer p;
  p.put(static_cast<uint8_t>(h.agreement.work));
  p.put(static_cast<uint8_t>(h.agreement.check ? 1 : 0));
  p.put(h.agreement.queues);
  p.put(h.agreement.depth);
  p.put(h.agreement.low);
  p.put(h.agreement.high);
  p.put(h.address);
  p.put(h.length);
  p.put(h.key.value());
  for (const device::Endpoint& e : h.ends) put(p, e);
  return p.bytes();
}

std::vector<uint8_t> encode(const RoundEnd& e) {
  Packer p;
  p.put(e.nanoseconds);
  p.put(e.peak);
  for (const uint64_t n : e.messages) p.put(n);
  return p.bytes();
}

std::vector<uint8_t> encode_bytes(uint32_t bytes) {
  Packer p;
  p.put(bytes);
  return p.bytes();
}

Result<Header> decode_header(std::span<const uint8_t> bytes) {
  Unpacker u{bytes};
  if (u.get<uint32_t>() != exchange_magic) return Error{EPROTO, "the other side is no kilim-perf"};
  if (u.get<uint16_t>() != exchange_version)
    return Error{EPROTO, "the other side is a kilim-perf of another version"};
  const auto kind = u.get<uint16_t>();
  const auto length = u.get<uint32_t>();
  if (kind < static_cast<uint16_t>(Kind::hello) || kind > static_cast<uint16_t>(Kind::bye))
    return Error{EPROTO, "the other side sent a message of an unknown kind"};
  if (!u.whole() || length > most_payload) return broken;
  return Header{static_cast<Kind>(kind), length};
}

Result<Hello> decode_hello(std::span<const uint8_t> bytes) {
  Unpacker u{bytes};
  Hello h;
  bool good = false;
  h.agreement = get_agreement(u, good);
  h.address = u.get<uint64_t>();
  h.length = u.get<uint64_t>();
  h.key = Rkey{u.get<uint32_t>()};
  if (const char* why = why_not(h.agreement)) return Error{EPROTO, why};
  h.ends.resize(h.agreement.queues);
  for (device::Endpoint& e : h.ends) good = get(u, e) && good;
  if (!u.whole()) return broken;
  if (!good) return Error{EPROTO, "the other side's queue pairs have impossible addresses"};
  if (h.length < bytes_of(h.agreement) || h.address + h.length < h.address)
    return Error{EPROTO, "the other side's memory is too small for the test"};
  return h;
}

Result<RoundEnd> decode_end(std::span<const uint8_t> bytes, const Agreement& agreed) {
  Unpacker u{bytes};
  RoundEnd e;
  e.nanoseconds = u.get<uint64_t>();
  e.peak = u.get<uint64_t>();
  e.messages.resize(agreed.queues);
  for (uint64_t& n : e.messages) n = u.get<uint64_t>();
  if (!u.whole()) return broken;
  return e;
}

Result<uint32_t> decode_begin(std::span<const uint8_t> bytes, const Agreement& agreed) {
  Unpacker u{bytes};
  const auto size = u.get<uint32_t>();
  if (!u.whole()) return broken;
  if (size < agreed.low || size > agreed.high)
    return Error{EPROTO, "the other side begins a round of a size that was not agreed on"};
  return size;
}

std::string decode_text(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t b : bytes.first(std::min(bytes.size(), most_text)))
    text += b >= ' ' && b < 0x7f ? static_cast<char>(b) : '?';
  return text;
}

}  // namespace kilim::perf
