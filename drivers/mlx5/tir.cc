// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/tir.hh"

#include <array>
#include <cstring>
#include <memory>

#include "kilim/prm/hca_cap.hh"
#include "kilim/prm/queue_cmd.hh"

namespace kilim::mlx5 {
namespace {

// RX_HASH_FIELD_SELECT: the source lies below the destination, addresses below ports.
uint32_t fields_of(flow::HashSides sides, bool ports) {
  using flow::HashSide;
  const auto of_side = [](HashSide side) {
    return side == HashSide::both ? 3u : side == HashSide::source ? 1u : 2u;
  };
  return of_side(sides.addresses) | (ports ? of_side(sides.ports) << 2 : 0u);
}

// What of a frame is hashed (PRM "RX_HASH_FIELD_SELECT"); nothing: a table of one entry is led to.
void put_hash(std::span<std::byte> tir, const device::HashQpRequest& request) {
  namespace t = prm::tirc;
  using Types = flow::HashTypes;
  const uint32_t type = flow::type_of(request.kind);
  if (type == 0) return;
  prm::cap_set(tir, t::rx_hash_fn, t::hash_toeplitz);
  const bool ipv6 = (type & (Types::ipv6 | Types::tcp6 | Types::udp6)) != 0;
  const uint32_t fields = fields_of(request.sides, (type & Types::ip) == 0);
  prm::cap_set(tir, request.inner ? t::inner_l3_is_ipv6 : t::outer_l3_is_ipv6, ipv6);
  prm::cap_set(tir, request.inner ? t::inner_l4_is_udp : t::outer_l4_is_udp,
               (type & Types::udp) != 0);
  prm::cap_set(tir, request.inner ? t::inner_fields : t::outer_fields, fields);
  std::memcpy(tir.data() + t::rx_hash_toeplitz_key, request.key.data(), request.key.size());
}

}  // namespace

device::LroCaps read_lro_caps(ibv_context* context) {
  namespace cap = prm::eth_cap;
  constexpr uint32_t whole_frame = 1;
  device::LroCaps lro;
  auto group = std::make_unique<HcaCap>();
  if (!query_hca_cap(context, prm::cmd::cap_ethernet, *group)) return lro;
  // Segments inside tunnels cannot be left alone where others are joined (Linux commit
  // 26ab7b384525, "net/mlx5e: Block LRO if firmware asks for tunneled LRO").
  lro.supported = prm::cap_get(*group, cap::lro_cap) != 0 &&
                  prm::cap_get(*group, cap::tunnel_lro_gre) == 0 &&
                  prm::cap_get(*group, cap::tunnel_lro_vxlan) == 0;
  lro.from_l4 = prm::cap_get(*group, cap::lro_max_msg_sz_mode) != whole_frame;
  lro.min_mss = prm::cap_get(*group, cap::lro_min_mss_size);
  for (std::size_t i = 0; i < lro.periods_us.size(); i++)
    lro.periods_us[i] = prm::cap_get(*group, cap::lro_timer_supported_periods[i]);
  return lro;
}

Result<FirmwareObject> create_transport_domain(ibv_context* context) {
  std::array<std::byte, 16> in{};
  prm::cap_set(in, opcode_field, prm::cmd::alloc_transport_domain);
  return create_object(context, in, "the adapter makes no transport domain");
}

Result<FirmwareObject> create_tir(ibv_context* context, const device::HashQpRequest& request,
                                  TirPlace place, const device::LroCaps& caps) {
  namespace t = prm::tirc;
  std::array<std::byte, prm::queue_cmd::bytes> in{};
  prm::cap_set(in, opcode_field, prm::cmd::create_tir);
  const auto tir = std::span<std::byte>(in).subspan(prm::queue_cmd::context);
  prm::cap_set(tir, t::disp_type, t::indirect);
  prm::cap_set(tir, t::indirect_table, place.table);
  prm::cap_set(tir, t::transport_domain, place.domain);
  prm::cap_set(tir, t::tunneled_offload_en, request.tunnels ? 1 : 0);
  prm::cap_set(tir, t::lro_enable_mask, t::lro_ipv4 | t::lro_ipv6);
  prm::cap_set(tir, t::lro_max_msg_sz, caps.units(request.lro->max_bytes));
  prm::cap_set(tir, t::lro_timeout_period_usecs, caps.period_us(request.lro->timeout_us));
  put_hash(tir, request);
  return create_object(context, in, "the adapter makes no TIR that joins TCP segments (LRO)");
}

}  // namespace kilim::mlx5
