// SPDX-License-Identifier: BSD-3-Clause
// Adapter's lock held. Never allocates. Frames are untrusted.
#include "vhca/ethernet/plain_flow.hh"

#include <cstring>

#include "kilim/detail/base/be.hh"
#include "vhca/ethernet/tir.hh"
#include "vhca/wire/packet.hh"

namespace kilim::vhca::ethernet {

namespace {

constexpr uint16_t type_tag = 0x8100, type_two_tags = 0x88a8, type_six = 0x86dd, type_four = 0x0800;
constexpr uint8_t protocol_tcp = 6, protocol_of_udp = 17;
constexpr uint16_t roce_port = 4791;

uint16_t type_of(std::span<const std::byte> frame) noexcept {
  return wire::get_be<uint16_t>(frame, 12);
}

// Whether RoCE may want to see it first: parse_roce() (transport/roce_frame.cc) takes UDP on IPv6.
// What is not read here, tags and other headers, may be that.
bool perhaps_roce(std::span<const std::byte> frame, uint16_t type) noexcept {
  constexpr std::size_t next_header_at = 20, ports_at = 54;
  if (type == type_four) [[likely]]
    return false;
  if (type != type_six) return type == type_tag || type == type_two_tags;
  if (frame.size() < ports_at + 4) return true;
  const auto next = std::to_integer<uint8_t>(frame[next_header_at]);
  if (next == protocol_tcp) return false;
  return next != protocol_of_udp || wire::get_be<uint16_t>(frame, ports_at + 2) == roce_port;
}

Flow find_flow(EthPort& port, std::span<const std::byte> frame) noexcept {
  const Reach reach = port.steering.reach();
  const uint16_t type = type_of(frame);
  uint32_t kind = type == type_tag || type == type_two_tags ? 0 : FlowMemo::no_kind;
  if (reach == Reach::kind) kind = frame_kind(frame);
  FlowMemo& m = port.flows.at(frame, kind);
  const uint64_t version = port.steering.version();
  if (m.version == version && m.kind == kind && kind != 0 && m.begins(frame)) return {m.qp, &m};
  const std::span<const FlowTarget> targets = port.steering.match(frame);
  if (port.steering.asked_netdev()) return {};
  if (targets.size() != 1 || targets[0].tag != 0 || port.steering.counted()) return {};
  if (targets[0].qp->table != nullptr || port.steering.rewrite() != nullptr) return {};
  if (reach == Reach::all || kind == 0) return {targets[0].qp, nullptr};
  std::memcpy(m.header.data(), frame.data(), m.header.size());
  m.kind = kind;
  m.version = version;
  m.qp = targets[0].qp;
  return {m.qp, &m};
}

// What a TIR asks of its frames that the straight way does not do.
bool wants_more(const wq::Qp& to) noexcept {
  return to.tir != nullptr && (to.tir->spec.tunnels || to.tir->spec.lro_versions != 0);
}

}  // namespace

bool learn_flow(EthPort& port, std::span<const std::byte> frame, bool by_kind,
                Flow& flow) noexcept {
  const bool same = flow.memo != nullptr && flow.memo->begins(frame) &&
                    (!by_kind || frame_kind(frame) == flow.memo->kind);
  if (!same) [[unlikely]] {
    flow = find_flow(port, frame);
    if (flow.to == nullptr || wants_more(*flow.to)) return false;
  }
  return !perhaps_roce(frame, type_of(frame));
}

}  // namespace kilim::vhca::ethernet
