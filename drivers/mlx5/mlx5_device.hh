// SPDX-License-Identifier: BSD-3-Clause
// Mlx5Device: the Device over rdma-core: one open context, one protection domain, and their
// objects, which the destructor destroys in order. Any thread, one at a time; control path only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "kilim/detail/device/device.hh"
#include "mlx5/firmware.hh"
#include "mlx5/handle.hh"
#include "mlx5/mkey_source.hh"
#include "mlx5/odp_files.hh"
#include "mlx5/open.hh"
#include "mlx5/port_files.hh"
#include "mlx5/qp_state.hh"
#include "mlx5/registrar.hh"
#include "mlx5/window.hh"

namespace kilim::mlx5 {

class Mlx5Device final : public device::Device {
 public:
  // Owns context and domain. `sysfs`: see mlx5/open.hh.
  Mlx5Device(Context context, Pd pd, const device::Caps& caps, Progress progress,
             const std::string& sysfs);
  // In a caller's protection domain (mlx5/borrow.hh); `progress` polls the completion queue
  // `empty`.
  Mlx5Device(ibv_pd* lent, const device::Caps& caps, Progress progress, VerbsCq empty);
  ~Mlx5Device() override;

  [[nodiscard]] const char* name() const noexcept override { return name_.c_str(); }
  [[nodiscard]] const device::Caps& caps() const noexcept override { return caps_; }
  [[nodiscard]] int numa_node() const noexcept override;
  Result<device::PortInfo> port(uint8_t number) override;
  mr::Registrar& registrar() noexcept override { return registrar_; }
  mr::MkeySource& keys() noexcept override { return keys_; }
  mr::WindowSource& windows() noexcept override { return windows_; }

  using device::Device::create_cq;
  Result<queue::DeviceClock> clock() override;
  Result<uint64_t> ticks() override;
  Result<device::CqInfo> create_cq(const device::CqRequest& request) override;
  Status destroy_cq(device::CqHandle cq) override;
  Result<device::SrqInfo> create_srq(const device::SrqRequest& request) override;
  Status destroy_srq(device::SrqHandle srq) override;
  Result<device::QpInfo> create_rc(const device::RcRequest& request) override;
  Result<device::QpInfo> create_uc(const device::UcRequest& request) override;
  Result<device::Endpoint> endpoint(device::QpHandle qp) override;
  Status connect(device::QpHandle qp, const device::Endpoint& peer) override;
  Status connect_by(device::QpHandle qp, const device::Route& route) override;
  Result<device::QpInfo> create_raw_packet(const device::QpRequest& request, uint8_t port) override;
  Result<device::FlowHandle> add_flow(device::QpHandle qp, const device::FlowRule& rule) override;
  Status remove_flow(device::FlowHandle flow) override;
  Result<device::RwqInfo> create_rwq(const device::RwqRequest& request) override;
  Status set_rwq_state(device::RwqHandle rwq, device::RwqState state) override;
  Status strip_vlan(device::RwqHandle rwq, bool on) override;
  Status destroy_rwq(device::RwqHandle rwq) override;
  Result<device::RwqTableInfo> create_rwq_table(std::span<const device::RwqHandle> queues) override;
  Status destroy_rwq_table(device::RwqTableHandle table) override;
  Result<device::QpInfo> create_hash_qp(const device::HashQpRequest& request,
                                        uint8_t port) override;
  Result<device::FlowHandle> add_rule(const device::FlowRequest& request) override;
  Result<flow::Count> query_flow(device::FlowHandle flow) override;
  Status reset(device::QpHandle qp) override;
  Status fail(device::QpHandle qp) override;
  Status destroy_qp(device::QpHandle qp) override;
  [[nodiscard]] device::OdpStatistics odp_statistics() const override { return odp_files_.read(); }
  [[nodiscard]] std::optional<uint64_t> out_of_buffer(uint8_t port) const override {
    return read_number(port_folder(sysfs_, name_, port) + "/hw_counters/out_of_buffer");
  }
  [[nodiscard]] device::PortLosses losses(uint8_t port) const override {
    return read_port_losses(port_folder(sysfs_, name_, port));
  }
  [[nodiscard]] bool lost() noexcept override;
  [[nodiscard]] device::DeviceEvents events() noexcept override;
  [[nodiscard]] bool faulted(device::CqHandle cq) const noexcept override {
    return faulted_.contains(cq.value());
  }
  [[nodiscard]] bool faulted(device::QpHandle qp) const noexcept override {
    return faulted_.contains(qp.value());
  }
  [[nodiscard]] bool faulted(device::RwqHandle rwq) const noexcept override {
    return faulted_.contains(rwq.value());
  }
  void progress() noexcept override {
    if (progress_.run != nullptr) progress_.run(progress_.arg);
  }

 private:
  // The order matters: the queue goes before its channel.
  struct Cq {
    Channel channel;  // null: no events
    VerbsCq verbs;
    uint32_t cqe_bytes = 64;
  };
  struct Qp {
    VerbsQp verbs;
    device::InlineDecision inlined;
    Path path;
    device::Transport transport = device::Transport::rc;
    bool connected = false;
  };
  struct QpKind {
    device::Transport transport;
    bool signal_all = false;
  };
  // The order matters: the rule goes before what it names. A rule by match buffers has a matcher
  // and the firmware's counter, others have verbs' counters.
  struct Flow {
    VerbsCounters counters;
    FirmwareObject counter;
    VerbsFlowAction changes[2];  // of headers, and headers in front
    FlowMatcher matcher;
    VerbsFlow rule;
  };
  struct Made {
    VerbsQp qp;
    device::InlineDecision inlined;
  };
  // Decides about inline receive; both completion queues have been checked.
  Result<device::InlineDecision> decide(const device::QpRequest& request, const QpKind& kind) const;
  // Makes the queue pair, in state RESET, and says whether it has inline receive.
  Result<Made> create_qp(const device::QpRequest& request, const QpKind& kind);
  // Gives the queue pair a handle and finds out the geometry of its queues (mlx5dv_init_obj(3)).
  device::QpInfo adopt(Qp qp);
  // Keeps a rule and gives it a handle.
  device::FlowHandle keep(Flow flow);
  static bool is_raw(const Qp& qp) noexcept {
    return qp.transport == device::Transport::raw_packet;
  }
  Qp* find(device::QpHandle qp) noexcept;
  // Events (events.cc).
  void read_events() noexcept;
  void heed(const ibv_async_event& event) noexcept;
  [[nodiscard]] uint32_t handle_of(const ibv_async_event& event) const noexcept;
  // Hash targets that join TCP segments (mlx5/tir.hh).
  Result<device::QpInfo> create_joining_tir(const device::HashQpRequest& request, uint8_t port,
                                            uint32_t table);
  Status destroy_tir(std::unordered_map<uint32_t, FirmwareObject>::iterator tir);
  // A rule by match buffers: for targets and words that verbs' rules do not have (buffer_rule.cc).
  Result<device::FlowHandle> add_buffer_rule(const mlx5dv_flow_action_attr& to,
                                             const device::FlowRequest& request);

  std::string name_;
  std::string sysfs_;
  device::Caps caps_;
  Progress progress_;
  uint32_t next_handle_ = 1;
  bool lost_ = false;
  device::DeviceEvents events_;
  std::unordered_set<uint32_t> faulted_;  // handles of queues, until they are reset or destroyed
  bool lent_ = false;                     // context and domain are the caller's
  OdpFiles odp_files_;
  // The order matters: the last one is destroyed first.
  Context context_;
  Pd pd_;
  VerbsRegistrar registrar_;
  VerbsMkeySource keys_;
  VerbsWindows windows_;
  VerbsCq empty_;
  std::unordered_map<uint32_t, Cq> cqs_;
  std::unordered_map<uint32_t, VerbsSrq> srqs_;
  std::unordered_map<uint32_t, VerbsRwq> rwqs_;
  std::unordered_map<uint32_t, VerbsRwqTable> tables_;
  FirmwareObject domain_;  // that TIRs lie in; empty: there were none yet
  std::unordered_map<uint32_t, FirmwareObject> tirs_;  // by a QpHandle's number
  std::unordered_map<uint32_t, Qp> qps_;
  std::unordered_map<uint32_t, Flow> flows_;
};

}  // namespace kilim::mlx5
