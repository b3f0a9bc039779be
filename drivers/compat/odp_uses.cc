// SPDX-License-Identifier: BSD-3-Clause
#include "compat/odp_uses.hh"

#include <array>

namespace kilim::compat {
namespace {

constexpr std::array qp_types{IBV_QPT_RC,       IBV_QPT_UC,       IBV_QPT_UD,
                              IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, IBV_QPT_RAW_PACKET};

constexpr uint32_t all_qp_types = [] {
  uint32_t all = 0;
  for (const ibv_qp_type type : qp_types) all |= 1u << type;
  return all;
}();

}  // namespace

mr::OdpUse odp_use_of(ibv_qp_type type, bool shared) {
  using Op = mr::OdpOperation;
  const uint32_t two_sided = Op::send | (shared ? Op::srq_recv : Op::recv);
  switch (type) {
    case IBV_QPT_RC:
      return {mr::OdpTransport::rc, two_sided | Op::write | Op::read};
    case IBV_QPT_UC:
      return {mr::OdpTransport::uc, two_sided | Op::write};
    case IBV_QPT_UD:
      return {mr::OdpTransport::ud, two_sided};
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
      return {mr::OdpTransport::xrc, Op::send | Op::srq_recv | Op::write | Op::read};
    case IBV_QPT_RAW_PACKET:
      return {mr::OdpTransport::raw_ethernet, two_sided};
    default:
      return {mr::OdpTransport::dc, Op::send | Op::srq_recv | Op::write | Op::read};
  }
}

std::vector<mr::OdpUse> odp_uses_of(uint32_t types) {
  std::vector<mr::OdpUse> uses;
  for (const ibv_qp_type type : qp_types)
    if ((types >> type & 1) != 0) uses.push_back(odp_use_of(type, false));
  return uses;
}

bool known_qp_types(uint32_t types) noexcept {
  return types != 0 && (types & ~all_qp_types) == 0;
}

}  // namespace kilim::compat
