// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Receive Side Scaling", "RX_HASH_FIELD_SELECT". Adapter's lock held. Never allocates. Frames
// are untrusted.
#include <array>
#include <cstring>

#include "kilim/prm/cqe.hh"
#include "vhca/ethernet/describe.hh"
#include "vhca/ethernet/tir.hh"
#include "vhca/wire/packet.hh"
#include "vhca/wire/tunnel.hh"

namespace kilim::vhca::ethernet {

namespace {

// The input of the hash: the fields that are chosen, in this order.
class Fields {
 public:
  void add(std::span<const std::byte> frame, std::size_t at, std::size_t bytes) noexcept {
    std::memcpy(bytes_.data() + count_, frame.data() + at, bytes);
    count_ += bytes;
  }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return std::span(bytes_).first(count_);
  }

 private:
  std::array<std::byte, Toeplitz::longest_input> bytes_;
  std::size_t count_ = 0;
};

}  // namespace

RxHash hash_frame(const Tir& tir, std::span<const std::byte> frame) noexcept {
  const TirSpec& s = tir.spec;
  if (s.fields == 0) return {};
  wire::PacketView v = wire::parse_packet(frame);
  if (s.inner) v = wire::parse_tunnel(frame, v).inner;  // without a tunnel nothing is hashed
  if (s.inner && v.ip_version == 0) return {};
  if (s.ip_version != 0 && s.ip_version != v.ip_version) return {};
  Fields input;
  RxHash h;
  if (s.ip_version != 0) {
    const bool four = s.ip_version == 4;
    const std::size_t bytes = four ? 4 : 16, src = v.l3_at + (four ? 12u : 8u);
    if ((s.fields & hash_field::src_ip) != 0) input.add(frame, src, bytes);
    if ((s.fields & hash_field::dst_ip) != 0) input.add(frame, src + bytes, bytes);
    h.type = four ? prm::cqe::hash_ipv4 : prm::cqe::hash_ipv6;
  }
  if (s.l4_protocol != 0 && s.l4_protocol == v.protocol && v.ports_at != 0) {
    if ((s.fields & hash_field::src_port) != 0) input.add(frame, v.ports_at, 2);
    if ((s.fields & hash_field::dst_port) != 0) input.add(frame, v.ports_at + 2, 2);
    h.type = static_cast<uint8_t>(h.type |
                                  (s.l4_protocol == 6 ? prm::cqe::hash_tcp : prm::cqe::hash_udp));
  }
  h.value = tir.toeplitz.hash(input.bytes());
  return h;
}

namespace {

constexpr std::size_t pair_bytes = 8, all_bytes = 12;  // ports lie behind addresses

// Whether a frame that describe_ipv4() knows is hashed by all of its addresses and, where `type`
// says so then, ports.
bool hashes_all(const TirSpec& s, bool is_tcp, uint8_t& type) noexcept {
  constexpr uint8_t both_addresses = hash_field::src_ip | hash_field::dst_ip;
  constexpr uint8_t both_ports = hash_field::src_port | hash_field::dst_port;
  const bool ports = s.l4_protocol == (is_tcp ? ipv4_frame::tcp : ipv4_frame::udp);
  const auto wanted = static_cast<uint8_t>(both_addresses | (ports ? both_ports : 0));
  type = !ports   ? prm::cqe::hash_ipv4
         : is_tcp ? prm::cqe::hash_ipv4 | prm::cqe::hash_tcp
                  : prm::cqe::hash_ipv4 | prm::cqe::hash_udp;
  return s.ip_version == 4 && (s.fields & wanted) == wanted;
}

uint32_t hash_all(const Toeplitz& t, const std::byte* frame, uint8_t type) noexcept {
  const std::byte* input = frame + ipv4_frame::addresses_at;
  return type != prm::cqe::hash_ipv4 ? t.hash_short<all_bytes>(input)
                                     : t.hash_short<pair_bytes>(input);
}

}  // namespace

RxHash hash_plain_ipv4(const Tir& tir, std::span<const std::byte> frame, bool is_tcp) noexcept {
  uint8_t type;
  if (!hashes_all(tir.spec, is_tcp, type)) return hash_frame(tir, frame);
  return {hash_all(tir.toeplitz, frame.data(), type), type};
}

bool hashes_all_udp(const Tir& tir, uint8_t& type) noexcept {
  return hashes_all(tir.spec, false, type);
}

wq::Qp& pick_queue(const Tir& tir, std::span<const std::byte> frame, RxHash& hash) noexcept {
  hash = hash_frame(tir, frame);
  return *tir.table->queues[hash.value & (tir.table->queues.size() - 1)];
}

}  // namespace kilim::vhca::ethernet
