// SPDX-License-Identifier: BSD-3-Clause
// The control path of one adapter: queues, keys, regions. What it makes is returned as geometry and
// handles; bursts never come here. Implemented over rdma-core by drivers/mlx5.
// Any thread, one at a time. Destroying what is unknown is EINVAL.
#pragma once

#include <cstdint>
#include <optional>

#include "kilim/base/result.hh"
#include "kilim/device/caps.hh"
#include "kilim/device/objects.hh"
#include "kilim/device/odp_statistics.hh"
#include "kilim/mr/key_source.hh"
#include "kilim/mr/registrar.hh"
#include "kilim/mr/window_source.hh"

namespace kilim::device {

class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual const char* name() const noexcept = 0;
  [[nodiscard]] virtual const Caps& caps() const noexcept = 0;
  // NUMA node of the adapter, -1 where unknown.
  [[nodiscard]] virtual int numa_node() const noexcept = 0;
  virtual Result<PortInfo> port(uint8_t number) = 0;
  virtual mr::Registrar& registrar() noexcept = 0;
  virtual mr::KeySource& keys() noexcept = 0;
  virtual mr::WindowSource& windows() noexcept = 0;

  virtual Result<CqInfo> create_cq(const CqRequest& request) = 0;
  Result<CqInfo> create_cq(uint32_t entries) { return create_cq(CqRequest{.entries = entries}); }
  virtual Status destroy_cq(CqHandle cq) = 0;

  virtual Result<SrqInfo> create_srq(const SrqRequest& request) = 0;
  virtual Status destroy_srq(SrqHandle srq) = 0;

  // Connections, not yet connected.
  virtual Result<QpInfo> create_rc(const RcRequest& request) = 0;
  virtual Result<QpInfo> create_uc(const UcRequest& request) = 0;
  virtual Result<Endpoint> endpoint(QpHandle qp) = 0;
  // Ready to send and receive; a queue pair may be connected to itself.
  virtual Status connect(QpHandle qp, const Endpoint& peer) = 0;

  // A raw packet queue pair of port `port`, ready to send and receive; frames come by flow rules.
  virtual Result<QpInfo> create_raw_packet(const QpRequest& request, uint8_t port) = 0;
  virtual Result<FlowHandle> add_flow(QpHandle qp, const FlowRule& rule) = 0;
  virtual Status remove_flow(FlowHandle flow) = 0;

  // After an error: through RESET back to where it was. Its CQEs have been polled; Sq::reset() and
  // Rq::reset() follow.
  virtual Status reset(QpHandle qp) = 0;
  // To the error state: all that is posted is flushed.
  virtual Status fail(QpHandle qp) = 0;
  virtual Status destroy_qp(QpHandle qp) = 0;

  // Of all users of the adapter. Any thread, also while others use the device.
  [[nodiscard]] virtual OdpStatistics odp_statistics() const { return {}; }

  // Frames of port `port` that found no receive request, of all users of the adapter since it was
  // started; nothing: not reported. Reads a file.
  [[nodiscard]] virtual std::optional<uint64_t> out_of_buffer([[maybe_unused]] uint8_t port) const {
    return std::nullopt;
  }

  // The adapter is gone: nothing completes any more but with an error, nothing can be made.
  [[nodiscard]] virtual bool lost() noexcept = 0;

  // For whoever waits outside a burst: lets a virtual adapter do its work. Does nothing on a card.
  virtual void progress() noexcept = 0;
};

}  // namespace kilim::device
