// SPDX-License-Identifier: BSD-3-Clause
#include "lane.hh"

#include "kilim/mr/region.hh"

namespace kilim::perf {

Result<std::unique_ptr<Lane>> Lane::create(device::Device& device, const LaneConfig& config) {
  std::unique_ptr<Lane> lane(new Lane);
  auto send_cq = device::make_cq(device, config.send_wqebbs);
  if (!send_cq) return send_cq.error();
  lane->owned_send_ = *std::move(send_cq);
  device::RcRequest request;
  request.queues = {.send_cq = lane->owned_send_->handle,
                    .recv_cq = lane->owned_send_->handle,
                    .send_wqebbs = config.send_wqebbs,
                    .recv_wrs = config.receives};
  if (config.receives != 0) {
    auto recv_cq = device::make_cq(device, config.receives);
    if (!recv_cq) return recv_cq.error();
    lane->owned_recv_ = *std::move(recv_cq);
    request.queues.recv_cq = lane->owned_recv_->handle;
  }
  request.access = mr::Access::all;
  request.gid_index = config.gid_index;
  auto qp = device::make_rc(device, request);
  if (!qp) return qp.error();
  lane->qp_ = *std::move(qp);
  lane->send_ids_.resize(lane->qp_->sq.wqebb_count);
  lane->sq_ = std::make_unique<queue::Sq>(lane->qp_->sq, lane->send_ids_);
  lane->send_cq_ = std::make_unique<queue::Cq>(lane->owned_send_->geometry);
  if (config.receives == 0) return lane;
  lane->recv_ids_.resize(lane->qp_->rq.wqe_count);
  lane->rq_ = std::make_unique<queue::Rq>(lane->qp_->rq, lane->recv_ids_);
  lane->recv_cq_ = std::make_unique<queue::Cq>(lane->owned_recv_->geometry);
  return lane;
}

}  // namespace kilim::perf
