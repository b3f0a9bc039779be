// SPDX-License-Identifier: BSD-3-Clause
// PRM: "VLAN Stripping", "Scatter FCS". A frame as one queue wants it. Adapter's lock held. Never
// allocates.
#include <cstring>

#include "vhca/ethernet/state.hh"
#include "vhca/wire/crc32.hh"

namespace kilim::vhca::ethernet {

namespace {

constexpr std::size_t addresses_bytes = 12;
constexpr std::size_t tag_bytes = 4;
constexpr std::byte tag_type_bytes[2] = {std::byte{0x81}, std::byte{0x00}};

bool tagged(std::span<const std::byte> frame) noexcept {
  return frame.size() >= wire::ether_header_bytes + tag_bytes &&
         std::memcmp(frame.data() + addresses_bytes, tag_type_bytes, sizeof(tag_type_bytes)) == 0;
}

std::size_t append(std::span<std::byte> to, std::size_t at, const void* bytes,
                   std::size_t count) noexcept {
  std::memcpy(to.data() + at, bytes, count);
  return at + count;
}

}  // namespace

ShapedFrame shape_frame(EthState& eth, const QpSpec& spec,
                        std::span<const std::byte> frame) noexcept {
  bool strip = spec.strip_vlan && tagged(frame);
  bool fits = frame.size() + ether_fcs_bytes <= eth.shaped.size();
  if (!fits || (!strip && !spec.scatter_fcs)) return {frame, false, 0};
  ShapedFrame s;
  std::size_t at = append(eth.shaped, 0, frame.data(), addresses_bytes);
  std::span<const std::byte> rest = frame.subspan(addresses_bytes);
  if (strip) {
    std::memcpy(&s.tag_raw, rest.data() + sizeof(tag_type_bytes), sizeof(s.tag_raw));
    s.stripped = true;
    rest = rest.subspan(tag_bytes);
  }
  at = append(eth.shaped, at, rest.data(), rest.size());
  if (spec.scatter_fcs) {
    // Of the frame as it came, its tag included; the lowest byte travels first.
    uint32_t fcs = ~wire::crc32_add(~uint32_t{0}, frame);
    at = append(eth.shaped, at, &fcs, sizeof(fcs));
  }
  s.bytes = std::span<const std::byte>(eth.shaped).first(at);
  return s;
}

}  // namespace kilim::vhca::ethernet
