// SPDX-License-Identifier: BSD-3-Clause
#include "perf/race/sent.hh"

#include "kilim/prm/data_seg.hh"
#include "kilim/prm/eth_seg.hh"
#include "kilim/prm/opcode.hh"

namespace kilim::race {

Sent& Sent::operator+=(const Sent& s) noexcept {
  packets += s.packets;
  pieces += s.pieces;
  bytes += s.bytes;
  with_sums += s.with_sums;
  with_tag += s.with_tag;
  tags += s.tags;
  segmented += s.segmented;
  sizes += s.sizes;
  return *this;
}

std::string Sent::text() const {
  const auto n = [](uint64_t value) { return std::to_string(value); };
  return n(packets) + " packets, " + n(pieces) + " pieces, " + n(bytes) + " bytes, " +
         n(with_sums) + " ask for checksums, " + n(with_tag) + " for a tag (sum " + n(tags) +
         "), " + n(segmented) + " are segmented (sum of sizes " + n(sizes) + ")";
}

const std::byte* WqeView::octoword(uint32_t i) const noexcept {
  const std::size_t ring = std::size_t{sq_.wqebb_count} * 64;
  return sq_.buf + (std::size_t{block_} * 64 + std::size_t{i} * 16) % ring;
}

const prm::CtrlSeg& WqeView::ctrl() const noexcept {
  return *reinterpret_cast<const prm::CtrlSeg*>(octoword(0));
}

uint32_t WqeView::octowords() const noexcept {
  return prm::ctrl::ds::get(ctrl());
}

// The bytes of a header that is inlined lie in the Ethernet segment and behind it; those of data
// that are inlined behind a word with their number.
Sent WqeView::read() const noexcept {
  const auto& eth = *reinterpret_cast<const prm::EthSeg*>(octoword(1));
  const uint32_t ds = octowords(), opcode = prm::ctrl::opcode::get(ctrl());
  const bool many = opcode == static_cast<uint32_t>(prm::Opcode::enhanced_mpsw);
  const uint16_t word = eth.inline_hdr_sz.host();
  const bool has_tag = (word & prm::eth::insert_vlan) != 0;
  const uint32_t header = has_tag ? 0 : word;
  Sent s;
  s.bytes = header;
  for (uint32_t i = 2 + (header > 2 ? (header - 2 + 15) / 16 : 0); i < ds; s.pieces++) {
    const uint32_t count = reinterpret_cast<const prm::DataSeg*>(octoword(i))->byte_count.host();
    const bool is_inline = (count & prm::inline_flag) != 0;
    s.bytes += is_inline ? count & 0x3ff : count;
    i += is_inline ? ((count & 0x3ff) + 4 + 15) / 16 : 1;
  }
  s.packets = many ? s.pieces : 1;
  constexpr uint8_t both = prm::eth::l3_csum | prm::eth::l4_csum;
  if ((eth.cs_flags & both) == both) s.with_sums = s.packets;
  if (has_tag) {
    s.with_tag = s.packets;
    s.tags =
        s.packets * (static_cast<uint32_t>(eth.inline_hdr_start[0]) << 8 | eth.inline_hdr_start[1]);
  }
  if (opcode == static_cast<uint32_t>(prm::Opcode::tso)) {
    s.segmented = 1;
    s.sizes = eth.mss.host();
  }
  return s;
}

}  // namespace kilim::race
