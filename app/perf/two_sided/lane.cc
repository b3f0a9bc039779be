// SPDX-License-Identifier: BSD-3-Clause
#include "perf/two_sided/lane.hh"

#include "kilim/region.hh"

namespace kilim::perf {
namespace {

// Chooses the entry that holds so much, like perftest's --inline_recv.
constexpr uint32_t cqe_bytes(uint32_t inline_recv) noexcept {
  return inline_recv != any_inline && inline_recv > 32 ? 128 : 64;
}
constexpr device::InlineReceive wish(uint32_t inline_recv) noexcept {
  if (inline_recv == any_inline) return device::InlineReceive::by_default;
  return inline_recv == 0 ? device::InlineReceive::off : device::InlineReceive::on;
}

}  // namespace

Result<std::unique_ptr<Lane>> Lane::create(device::Device& device, const LaneConfig& config) {
  std::unique_ptr<Lane> lane(new Lane);
  auto send_cq = device::create_cq(device, config.send_wqebbs);
  if (!send_cq) return send_cq.error();
  lane->owned_send_ = *std::move(send_cq);
  device::RcRequest request;
  request.queues = {.send_cq = lane->owned_send_->handle,
                    .recv_cq = lane->owned_send_->handle,
                    .send_wqebbs = config.send_wqebbs,
                    .recv_wrs = config.receives,
                    .inline_receive = wish(config.inline_recv)};
  if (config.receives != 0) {
    auto recv_cq = device::create_cq(
        device, {.entries = config.receives, .cqe_bytes = cqe_bytes(config.inline_recv)});
    if (!recv_cq) return recv_cq.error();
    lane->owned_recv_ = *std::move(recv_cq);
    request.queues.recv_cq = lane->owned_recv_->handle;
  }
  request.access = mr::Access::all;
  request.umr = config.umr;
  request.gid_index = config.gid_index;
  auto qp = device::create_rc(device, request);
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
