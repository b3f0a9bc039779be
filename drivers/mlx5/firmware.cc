// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/firmware.hh"

#include <cerrno>
#include <memory>

#include <infiniband/mlx5dv.h>

#include "kilim/prm/hca_cap.hh"
#include "kilim/prm/vport_mac.hh"
#include "kilim/prm/vport_mtu.hh"

namespace kilim::mlx5 {
namespace {

struct In {
  prm::CmdInHdr hdr;
  uint8_t reserved[8];
};

template <std::size_t Bytes>
struct Out {
  prm::CmdOutHdr hdr;
  uint8_t reserved[8];
  std::array<std::byte, Bytes> body;
};

// True: the firmware answered.
template <std::size_t Bytes>
bool ask(ibv_context* context, In in, Out<Bytes>& out) {
  static_assert(sizeof(Out<Bytes>) == 16 + Bytes);
  return mlx5dv_devx_general_cmd(context, &in, sizeof in, &out, sizeof out) == 0 &&
         out.hdr.status == 0;
}

}  // namespace

bool query_hca_cap(ibv_context* context, uint16_t number, HcaCap& group) {
  In in{};
  in.hdr.opcode = be16{prm::cmd::query_hca_cap};
  in.hdr.op_mod = be16{static_cast<uint16_t>(number << 1 | 1)};
  auto out = std::make_unique<Out<prm::cmd::hca_cap_bytes>>();
  if (!ask(context, in, *out)) return false;
  group = out->body;
  return true;
}

namespace {

std::optional<uint32_t> query_vport(ibv_context* context, prm::CapField field) {
  In in{};
  in.hdr.opcode = be16{prm::cmd::query_nic_vport_context};
  Out<prm::nic_vport::context_bytes> out{};
  if (!ask(context, in, out)) return {};
  return prm::cap_get(out.body, field);
}

}  // namespace

std::optional<uint32_t> query_inline_mode(ibv_context* context) {
  return query_vport(context, prm::nic_vport::min_wqe_inline_mode);
}

uint32_t query_vport_mtu(ibv_context* context) {
  const uint32_t bytes = query_vport(context, prm::nic_vport::mtu).value_or(0);
  return bytes > prm::nic_vport::around_mtu ? bytes - prm::nic_vport::around_mtu : 0;
}

// struct mlx5_ifc_mac_address_layout_bits.
device::MacAddress query_vport_mac(ibv_context* context) {
  const uint32_t high = query_vport(context, prm::nic_vport::mac_47_32).value_or(0);
  const uint32_t low = query_vport(context, prm::nic_vport::mac_31_0).value_or(0);
  return {static_cast<uint8_t>(high >> 8), static_cast<uint8_t>(high),
          static_cast<uint8_t>(low >> 24), static_cast<uint8_t>(low >> 16),
          static_cast<uint8_t>(low >> 8),  static_cast<uint8_t>(low)};
}

Result<FirmwareObject> create_object(ibv_context* context, std::span<const std::byte> command,
                                     const char* sentence) {
  constexpr prm::CapField made_number{0x40, 32};
  std::array<std::byte, 16> out{};
  DevxObject made{
      mlx5dv_devx_obj_create(context, command.data(), command.size(), out.data(), out.size())};
  if (made == nullptr) return Error{errno, sentence};
  return FirmwareObject{std::move(made), prm::cap_get(out, made_number)};
}

}  // namespace kilim::mlx5
