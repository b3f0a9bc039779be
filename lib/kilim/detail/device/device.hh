// SPDX-License-Identifier: BSD-3-Clause
// Device: the control path of one adapter: queues, keys, regions. It returns handles and geometry;
// bursts never call it. Implemented over rdma-core by drivers/mlx5.
// Any thread, one at a time. Destroying an unknown handle returns EINVAL.
#pragma once

#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/device/caps.hh"
#include "kilim/detail/device/events.hh"
#include "kilim/detail/device/objects.hh"
#include "kilim/detail/device/odp_statistics.hh"
#include "kilim/detail/device/port_losses.hh"
#include "kilim/detail/device/receive.hh"
#include "kilim/detail/flow/rule.hh"
#include "kilim/detail/mr/mkey_source.hh"
#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/mr/window_source.hh"
#include "kilim/detail/queue/device_clock.hh"

namespace kilim::inline v1::device {

class Device {
 public:
  virtual ~Device() = default;

  // The verbs name, such as mlx5_0 or vhca0.
  [[nodiscard]] virtual const char* name() const noexcept = 0;
  [[nodiscard]] virtual const Caps& caps() const noexcept = 0;
  // NUMA node of the adapter; -1: unknown.
  [[nodiscard]] virtual int numa_node() const noexcept = 0;
  // The present state of a port; numbers begin with 1. The error of ibv_query_port(3).
  virtual Result<PortInfo> port(uint8_t number) = 0;
  virtual mr::Registrar& registrar() noexcept = 0;
  virtual mr::MkeySource& keys() noexcept = 0;
  virtual mr::WindowSource& windows() noexcept = 0;

  // EINVAL: beyond the device's limits; ENOMEM or EPERM: its memory cannot be pinned; or another
  // error of the verb, as for all functions below.
  virtual Result<CqInfo> create_cq(const CqRequest& request) = 0;
  Result<CqInfo> create_cq(uint32_t entries) { return create_cq(CqRequest{.entries = entries}); }
  // EBUSY: a queue pair completes there.
  virtual Status destroy_cq(CqHandle cq) = 0;

  // EINVAL: no receives, or none of one piece.
  virtual Result<SrqInfo> create_srq(const SrqRequest& request) = 0;
  // EBUSY: a queue pair receives from it.
  virtual Status destroy_srq(SrqHandle srq) = 0;

  // Create a reliable or unreliable connection's queue pair, in state INIT.
  virtual Result<QpInfo> create_rc(const RcRequest& request) = 0;
  virtual Result<QpInfo> create_uc(const UcRequest& request) = 0;
  // What a peer needs to connect to this queue pair.
  virtual Result<Endpoint> endpoint(QpHandle qp) = 0;
  // Takes the queue pair to RTS; it may be connected to itself.
  virtual Status connect(QpHandle qp, const Endpoint& peer) = 0;
  // Takes the queue pair to RTS with what a connection manager agreed on; reset() uses the route
  // again.
  virtual Status connect_by(QpHandle, const Route&) {
    return Error{EOPNOTSUPP, "the device connects by end points only"};
  }

  // Creates a raw packet queue pair on a port, in state RTS; flow rules steer frames to it.
  virtual Result<QpInfo> create_raw_packet(const QpRequest& request, uint8_t port) = 0;
  virtual Result<FlowHandle> add_flow(QpHandle qp, const FlowRule& rule) = 0;
  virtual Status remove_flow(FlowHandle flow) = 0;

  // Receive work queues, tables of them and hash queue pairs, where Caps::spread says so;
  // EOPNOTSUPP elsewhere.
  virtual Result<RwqInfo> create_rwq(const RwqRequest&) { return no_rwqs; }
  virtual Status set_rwq_state(RwqHandle, RwqState) { return no_rwqs; }
  virtual Status strip_vlan(RwqHandle, bool) { return no_rwqs; }
  // EBUSY: a table names it.
  virtual Status destroy_rwq(RwqHandle) { return no_rwqs; }
  // A queue may stand at several places. EINVAL: their number is no power of two.
  virtual Result<RwqTableInfo> create_rwq_table(std::span<const RwqHandle>) { return no_rwqs; }
  // EBUSY: a queue pair uses it.
  virtual Status destroy_rwq_table(RwqTableHandle) { return no_rwqs; }
  virtual Result<QpInfo> create_hash_qp(const HashQpRequest&, uint8_t port) {
    (void)port;
    return no_rwqs;
  }
  // A rule by any headers. EOPNOTSUPP, ENOSPC, EINVAL as ibv_create_flow(3) answers.
  virtual Result<FlowHandle> add_rule(const FlowRequest&) { return no_rwqs; }
  // EINVAL: a rule that does not count.
  virtual Result<flow::Count> query_flow(FlowHandle) { return no_rwqs; }

  // Takes a failed queue pair through RESET back to RTS. Its CQEs have been polled; the caller then
  // calls Sq::reset() and Rq::reset().
  virtual Status reset(QpHandle qp) = 0;
  // Takes a queue pair to the error state, which flushes everything posted.
  virtual Status fail(QpHandle qp) = 0;
  virtual Status destroy_qp(QpHandle qp) = 0;

  // Statistics of on-demand paging of all users of the adapter. Any thread, also while another one
  // uses the device.
  [[nodiscard]] virtual OdpStatistics odp_statistics() const { return {}; }

  // Frames that a port dropped for lack of a receive WQE, of all users of the adapter since it was
  // started; nullopt: not reported. Reads a sysfs file.
  [[nodiscard]] virtual std::optional<uint64_t> out_of_buffer([[maybe_unused]] uint8_t port) const {
    return std::nullopt;
  }

  // Frames that a port lost elsewhere, as out_of_buffer(). Reads sysfs files.
  [[nodiscard]] virtual PortLosses losses([[maybe_unused]] uint8_t port) const { return {}; }

  // What stamps of completions mean now. Any thread, also while another one uses the device.
  // EOPNOTSUPP: the device has no clock that the kernel reads.
  virtual Result<queue::DeviceClock> clock() {
    return Error{EOPNOTSUPP, "the device's clock is not known"};
  }
  // What the device's clock shows now, in the ticks of stamps. EOPNOTSUPP: it cannot be read.
  virtual Result<uint64_t> ticks() {
    return Error{EOPNOTSUPP, "the device's clock cannot be read"};
  }

  // True: the adapter is dead; requests only end with an error, and nothing can be created.
  [[nodiscard]] virtual bool lost() noexcept = 0;

  // What the adapter has told beside completions; reads what it tells now. Zeros in a context whose
  // events are another's to read.
  [[nodiscard]] virtual DeviceEvents events() noexcept { return {}; }
  // Whether an event told of an error of this queue since it was made, or reset. A completion queue
  // has no reset: only destroy_cq() ends its error.
  [[nodiscard]] virtual bool faulted(CqHandle) const noexcept { return false; }
  [[nodiscard]] virtual bool faulted(QpHandle) const noexcept { return false; }
  [[nodiscard]] virtual bool faulted(RwqHandle) const noexcept { return false; }

  // Called while waiting outside a burst: runs a virtual adapter that is polled. Nothing on a card.
  virtual void progress() noexcept = 0;

 private:
  static constexpr Error no_rwqs{EOPNOTSUPP, "the device has no receive work queues or rules"};
};

}  // namespace kilim::inline v1::device
