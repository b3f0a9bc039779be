// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs that spread frames over a table of receive queues: Linux
// drivers/infiniband/hw/mlx5/qp.c, create_rss_raw_qp_tir(). Adapter's lock held.
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>

#include <rdma/mlx5-abi.h>

#include "vhca/core/refusal.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/hca/objects.hh"
#include "vhca/uverbs/qp_create.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint32_t own_unicast = MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC,
                   own_multicast = MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC;
constexpr uint32_t tunnels = MLX5_QP_FLAG_TUNNEL_OFFLOADS;
constexpr uint8_t protocol_tcp = 6, protocol_udp = 17;

// Which fields of which header a bit of the client's mask chooses.
struct Choice {
  uint64_t bit;
  uint8_t field;
  uint8_t ip_version;   // of an address
  uint8_t l4_protocol;  // of a port
};
constexpr Choice choices[] = {
    {MLX5_RX_HASH_SRC_IPV4, hash_field::src_ip, 4, 0},
    {MLX5_RX_HASH_DST_IPV4, hash_field::dst_ip, 4, 0},
    {MLX5_RX_HASH_SRC_IPV6, hash_field::src_ip, 6, 0},
    {MLX5_RX_HASH_DST_IPV6, hash_field::dst_ip, 6, 0},
    {MLX5_RX_HASH_SRC_PORT_TCP, hash_field::src_port, 0, protocol_tcp},
    {MLX5_RX_HASH_DST_PORT_TCP, hash_field::dst_port, 0, protocol_tcp},
    {MLX5_RX_HASH_SRC_PORT_UDP, hash_field::src_port, 0, protocol_udp},
    {MLX5_RX_HASH_DST_PORT_UDP, hash_field::dst_port, 0, protocol_udp},
};

// What the core asks: no queues, neither for itself nor instead of the table's.
int check_core(const QpRequest& q) {
  if (q.pd == nullptr || q.recv_cq != nullptr || q.srq != nullptr || q.cap.max_recv_wr != 0 ||
      q.cap.max_recv_sge != 0)
    return refusal::clash("rwq_ind_tbl with a queue of its own: max_recv_wr", q.cap.max_recv_wr,
                          q.cap.max_recv_sge);
  if (q.type != IB_UVERBS_QPT_RAW_PACKET)
    return refusal::equal("qp_type", q.type, IB_UVERBS_QPT_RAW_PACKET, EOPNOTSUPP);
  return q.create_flags != 0 || q.send_cq != nullptr
             ? refusal::clash("create_flags", q.create_flags, q.send_cq != nullptr)
             : 0;
}

int read_driver_part(const Request& r, const Profile& p, mlx5_ib_create_qp_rss& cmd) {
  if (r.driver_out.bytes() < offsetof(mlx5_ib_create_qp_resp, ece_options))
    return refusal::bytes("mlx5_ib_create_qp_resp", r.driver_out.bytes(),
                          offsetof(mlx5_ib_create_qp_resp, ece_options));
  if (r.driver_in.bytes() < sizeof cmd)
    return refusal::bytes("mlx5_ib_create_qp_rss", r.driver_in.bytes(), sizeof cmd);
  if (int err = r.driver_in.read_whole(cmd); err != 0) return err;
  if (cmd.comp_mask != 0) return refusal::bits("comp_mask", cmd.comp_mask, 0, EOPNOTSUPP);
  const uint32_t known = own_unicast | own_multicast | (p.tunnels ? tunnels : 0);
  if ((cmd.flags & ~known) != 0)
    return refusal::bits("mlx5_ib_create_qp_rss.flags", cmd.flags, known, EOPNOTSUPP);
  const bool inner = (cmd.rx_hash_fields_mask & MLX5_RX_HASH_INNER) != 0;
  return inner && (cmd.flags & tunnels) == 0
             ? refusal::clash("rx_hash_fields_mask", cmd.rx_hash_fields_mask, tunnels, EOPNOTSUPP)
             : 0;
}

// One kind of addresses, one of ports. Bits that mlx5_ib does not know choose nothing; what it
// knows and this adapter has not is IPsec.
int take_fields(uint64_t mask, TirSpec& s) {
  if ((mask & MLX5_RX_HASH_IPSEC_SPI) != 0) return refusal::lacks("IBV_RX_HASH_IPSEC_SPI");
  for (const Choice& c : choices) {
    if ((mask & c.bit) == 0) continue;
    s.fields |= c.field;
    const bool other_ip = c.ip_version != 0 && s.ip_version != 0 && s.ip_version != c.ip_version;
    const bool other_l4 =
        c.l4_protocol != 0 && s.l4_protocol != 0 && s.l4_protocol != c.l4_protocol;
    if (other_ip || other_l4) return refusal::clash("rx_hash_fields_mask", mask, c.bit);
    if (c.ip_version != 0) s.ip_version = c.ip_version;
    if (c.l4_protocol != 0) s.l4_protocol = c.l4_protocol;
  }
  return 0;
}

int take_hash(const mlx5_ib_create_qp_rss& cmd, std::size_t places, TirSpec& s) {
  if (cmd.rx_hash_function != MLX5_RX_HASH_FUNC_TOEPLITZ)
    return refusal::equal("rx_hash_function", cmd.rx_hash_function, MLX5_RX_HASH_FUNC_TOEPLITZ,
                          EOPNOTSUPP);
  if (cmd.rx_key_len != s.key.size())
    return refusal::equal("rx_hash_key_len", cmd.rx_key_len, s.key.size());
  std::memcpy(s.key.data(), cmd.rx_hash_key, s.key.size());
  // Without fields it is a way for rules to lead to one queue.
  if (cmd.rx_hash_fields_mask == 0)
    return places == 1 ? 0 : refusal::clash("rx_hash_fields_mask", 0, places);
  return take_fields(cmd.rx_hash_fields_mask, s);
}

mlx5_ib_create_qp_resp answer(const Context& context, const QpObject& qp) {
  mlx5_ib_create_qp_resp resp{};
  if (!context.devx) return resp;  // who cannot use the number does not hear it
  resp.comp_mask = MLX5_IB_CREATE_QP_RESP_MASK_TIRN;
  resp.tirn = qp.tirn;
  if (!context.hca.config.profile.software_steering) return resp;
  resp.comp_mask |= MLX5_IB_CREATE_QP_RESP_MASK_TIR_ICM_ADDR;
  resp.tir_icm_addr = ethernet::icm_end::address_of(ethernet::IcmEnd::tir, qp.tirn);
  return resp;
}

}  // namespace

Result<QpObject*> create_hash_qp_object(Context& context, const QpRequest& q, const Request& r) {
  if (int err = check_core(q); err != 0) return Error{-err};
  mlx5_ib_create_qp_rss cmd;
  if (int err = read_driver_part(r, context.hca.config.profile, cmd); err != 0) return Error{-err};
  TirSpec spec;
  spec.rqt = q.table->rqtn;
  spec.own_unicast = (cmd.flags & own_unicast) != 0;
  spec.own_multicast = (cmd.flags & own_multicast) != 0;
  spec.tunnels = (cmd.flags & tunnels) != 0;
  spec.inner = (cmd.rx_hash_fields_mask & MLX5_RX_HASH_INNER) != 0;
  if (int err = take_hash(cmd, q.table->queues.size(), spec); err != 0) return Error{-err};
  Result<uint32_t> tirn = hca::create_tir(context.hca, spec, &context);
  if (!tirn) return Error{-refusal::of(tirn.error())};
  auto made = std::make_unique<QpObject>();
  QpObject& qp = *made;
  qp.type = QpType::raw_packet;
  qp.hashes = true;
  qp.tirn = *tirn;
  qp.cap = q.cap;
  qp.user_handle = q.user_handle;
  context.add(std::move(made), {q.pd, q.table});
  if (int err = context.keep_unless(r.driver_out.write(answer(context, qp)), qp); err != 0)
    return Error{-err};
  return &qp;
}

}  // namespace kilim::vhca::uverbs
