// SPDX-License-Identifier: BSD-3-Clause
#include "explain.hh"

#include <array>
#include <cinttypes>
#include <cstdio>

#include "kilim/diagnosis.hh"
#include "kilim/prm/dump.hh"
#include "kilim/prm/lint_recv.hh"

namespace kilim::testpmd {
namespace {

using prm::Text;
using prm::lint::QueueKind;

// Rows of 16, by their offsets.
void put_bytes(Text& t, std::span<const std::byte> bytes) {
  constexpr std::size_t row = 16;
  constexpr std::size_t word = 4;
  constexpr const char* digits = "0123456789abcdef";
  for (std::size_t i = 0; i < bytes.size(); i++) {
    if (i % row == 0)
      t.put("\n    ").put(digits[i >> 8 & 15]).put(digits[i >> 4 & 15]).put(digits[0]).put(':');
    if (i % word == 0) t.put(' ');
    const auto b = std::to_integer<unsigned>(bytes[i]);
    t.put(digits[b >> 4]).put(digits[b & 15]);
  }
  t.put('\n');
}

bool has_keys(port::Port& p) {
  for (uint32_t q = 0; p.started() && q < p.sizes().txq; q++)
    if (p.packet_gather(q) != nullptr) return true;
  return false;
}

// The book knows the port's memory and none of the keys that UMRs make, so a send under one of
// these is explained by its syndrome alone.
void put_error(Text& t, const queue::NotedError& e, port::Port& p, QueueKind kind) {
  diag::MkeyBook book;
  if (p.region() != nullptr) book.region(*p.region(), "packet buffers");
  const queue::Completion& c = e.completion;
  const bool send = c.of_requester();
  const bool known = send && kind == QueueKind::raw_packet && !has_keys(p);
  t.put("  ");
  diag::explain(t, c, known ? e.bytes() : prm::lint::Bytes{}, book, kind);
  t.put(" (syndrome ").hex(static_cast<uint8_t>(c.syndrome)).put(", of the vendor ");
  t.hex(c.vendor_syndrome).put(")\n  the work request: ");
  if (send)
    prm::dump_wqe(t, e.bytes(), kind);
  else
    prm::lint::dump_recv(t, e.bytes(), {false, false, p.sizes().rxd});
  put_bytes(t, e.bytes());
}

std::string text_of(queue::ErrorLog& log, port::Port& p, QueueKind kind) {
  queue::NotedError e;
  if (!log.read(e)) return "";
  std::array<char, 8192> buffer;
  Text text{buffer};
  put_error(text, e, p, kind);
  return std::string(text.view());
}

std::string counts_of_errors(const port::PortStats& c) {
  std::array<char, 512> line;
  std::snprintf(
      line.data(), line.size(),
      "  completions with an error: receives %" PRIu64 ", of them %" PRIu64
      " frames longer than a buffer (--max-pkt-len, --mbuf-size); sends %" PRIu64
      "; binds of keys %" PRIu64 ". Queues brought back: %" PRIu64 ", down now: %" PRIu64 "\n",
      c.rx_errors, c.rx_too_long, c.tx_errors, c.bind_errors, c.recoveries, c.queues_down);
  return line.data();
}

}  // namespace

std::string explain_errors(port::Port& p) {
  const port::PortStats c = p.stats();
  if (c.rx_errors + c.tx_errors + c.bind_errors == 0) return "";
  port::LastErrors& last = p.last_errors();
  return counts_of_errors(c) + text_of(last.received, p, QueueKind::raw_packet) +
         text_of(last.sent, p, QueueKind::raw_packet) + text_of(last.keys, p, QueueKind::connected);
}

}  // namespace kilim::testpmd
