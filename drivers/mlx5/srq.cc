// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues of the device. Control path only.
#include <cerrno>

#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/mem/limits.hh"
#include "kilim/prm/doorbell.hh"
#include "mlx5/mlx5_device.hh"

namespace kilim::mlx5 {

Result<device::SrqInfo> Mlx5Device::create_srq(const device::SrqRequest& request) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (request.recv_wrs == 0 || request.max_recv_sge == 0)
    return Error{EINVAL, "a shared receive queue holds at least one receive of one piece"};
  ibv_srq_init_attr attr{};
  attr.attr.max_wr = request.recv_wrs;
  attr.attr.max_sge = request.max_recv_sge;
  VerbsSrq srq{ibv_create_srq(pd_.get(), &attr)};
  if (srq == nullptr)
    return Error{errno,
                 mem::explain_queue(errno, "the adapter makes no such shared receive queue")};
  mlx5dv_srq dv{};
  dv.comp_mask = MLX5DV_SRQ_MASK_SRQN;
  mlx5dv_obj obj{};
  obj.srq.in = srq.get();
  obj.srq.out = &dv;
  if (const int rc = mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ); rc != 0)
    return Error{rc, "libmlx5 does not show the shared receive queue's memory"};
  device::SrqInfo info;
  info.handle = device::SrqHandle{next_handle_++};
  // The list of free WQEs begins at WQE 0 and ends at `tail`; WQEs behind it are libmlx5's reserve
  // (rdma-core providers/mlx5, srq.c).
  info.geometry = {.buf = static_cast<std::byte*>(dv.buf),
                   .wqe_count = dv.tail + 1,
                   .stride = dv.stride,
                   .record = reinterpret_cast<be32*>(dv.dbrec) + prm::record_receive,
                   .srqn = dv.srqn};
  srqs_.emplace(info.handle.value(), std::move(srq));
  return info;
}

Status Mlx5Device::destroy_srq(device::SrqHandle srq) {
  const auto at = srqs_.find(srq.value());
  if (at == srqs_.end()) return Error{EINVAL, "no such shared receive queue"};
  if (const int rc = ibv_destroy_srq(at->second.get()); rc != 0)
    return Error{rc, "the shared receive queue still serves a queue pair"};
  (void)at->second.release();
  srqs_.erase(at);
  return Done{};
}

}  // namespace kilim::mlx5
