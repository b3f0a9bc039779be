// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Scatter to CQE", "Multicast Loopback". What mlx5_ib asks the capabilities for each flag.
#include "vhca/uverbs/qp_flags.hh"

#include <cerrno>

#include <rdma/ib_user_ioctl_verbs.h>

#include "vhca/core/refusal.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint32_t padded_entry = 128;

// Beyond what the profile decides: source QPNs belong to InfiniBand, padded writes are not offered.
int check_create_flags(uint32_t flags, const Profile& p, QpType type) noexcept {
  if (type == QpType::dct) return flags != 0 ? refusal::bits("create_flags", flags, 0) : 0;
  bool raw = type == QpType::raw_packet;
  uint32_t allowed = 0;
  if (p.block_multicast_loopback) allowed |= IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
  if (raw && p.scatter_fcs) allowed |= IB_UVERBS_QP_CREATE_SCATTER_FCS;
  if (raw && p.vlan_stripping) allowed |= IB_UVERBS_QP_CREATE_CVLAN_STRIPPING;
  return (flags & ~allowed) != 0 ? refusal::bits("create_flags", flags, allowed, EOPNOTSUPP) : 0;
}

int check_driver_flags(uint32_t flags, const Profile& p, QpType type) noexcept {
  // Scatter to CQE is a wish: a queue that cannot do it is made without.
  uint32_t known = MLX5_QP_FLAG_SIGNATURE | MLX5_QP_FLAG_SCATTER_CQE |
                   MLX5_QP_FLAG_ALLOW_SCATTER_CQE | MLX5_QP_FLAG_UAR_PAGE_INDEX;
  if (type == QpType::dci) known |= MLX5_QP_FLAG_TYPE_DCI;
  if (type == QpType::dci && p.log_max_dci_streams != 0) known |= MLX5_QP_FLAG_DCI_STREAM;
  if (type == QpType::dct) known |= MLX5_QP_FLAG_TYPE_DCT;
  if (type == QpType::raw_packet)
    known |= MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC | MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC;
  if (type == QpType::raw_packet && p.tunnels) known |= MLX5_QP_FLAG_TUNNEL_OFFLOADS;
  // There is no static table of doorbell registers to take another page from.
  const bool has_page = type == QpType::dct || (flags & MLX5_QP_FLAG_UAR_PAGE_INDEX) != 0;
  return (flags & ~known) != 0 || !has_page
             ? refusal::bits("mlx5_ib_create_qp.flags (with UAR_PAGE_INDEX)", flags, known)
             : 0;
}

uint8_t room_in(uint32_t entry_bytes) noexcept {
  return entry_bytes == padded_entry ? 64 : 32;
}

// A READ's answer goes to an entry only where each request has one, or where the client says that
// it knows which have.
void apply_scatter(const QpWishes& w, const Profile& p, QpSpec& spec) noexcept {
  if (!p.scatter_to_cqe || (w.driver_flags & MLX5_QP_FLAG_SCATTER_CQE) == 0) return;
  bool connected = spec.type == QpType::rc || spec.type == QpType::uc;
  if (connected && w.recv_cqe_bytes != 0) spec.scatter_received = room_in(w.recv_cqe_bytes);
  // A target's context knows the long form only.
  if (spec.type == QpType::dct && w.recv_cqe_bytes == padded_entry)
    spec.scatter_received = room_in(padded_entry);
  bool allowed = w.all_signaled || (w.driver_flags & MLX5_QP_FLAG_ALLOW_SCATTER_CQE) != 0;
  bool answered = spec.type == QpType::rc || spec.type == QpType::dci;
  if (answered && allowed) spec.scatter_answers = room_in(w.send_cqe_bytes);
}

}  // namespace

int apply_flags(const QpWishes& w, const Profile& p, QpSpec& spec) noexcept {
  if (int err = check_driver_flags(w.driver_flags, p, spec.type); err != 0) return err;
  if (int err = check_create_flags(w.create_flags, p, spec.type); err != 0) return err;
  spec.rq_signature = (w.driver_flags & MLX5_QP_FLAG_SIGNATURE) != 0;
  spec.block_self_multicast = (w.create_flags & IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK) != 0;
  spec.scatter_fcs = (w.create_flags & IB_UVERBS_QP_CREATE_SCATTER_FCS) != 0;
  spec.strip_vlan = (w.create_flags & IB_UVERBS_QP_CREATE_CVLAN_STRIPPING) != 0;
  spec.own_unicast = (w.driver_flags & MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC) != 0;
  spec.own_multicast = (w.driver_flags & MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC) != 0;
  spec.tunnels = (w.driver_flags & MLX5_QP_FLAG_TUNNEL_OFFLOADS) != 0;
  // qp.c, create_raw_packet_qp_sq(): allow_swp wherever the capability is.
  spec.software_parser = spec.type == QpType::raw_packet && p.software_parser;
  apply_scatter(w, p, spec);
  return 0;
}

}  // namespace kilim::vhca::uverbs
