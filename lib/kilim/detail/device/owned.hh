// SPDX-License-Identifier: BSD-3-Clause
// Owned: a device's queue that destroys itself. Move-only; the device outlives it. Control path
// only.
#pragma once

#include <utility>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/device/device.hh"

namespace kilim::inline v1::device {

// `Info` holds the handle; `Destroy` is the device's call for it.
template <typename Info, auto Destroy>
class Owned {
 public:
  Owned() = default;
  Owned(Device& device, const Info& info) noexcept : device_(&device), info_(info) {}
  Owned(Owned&& o) noexcept : device_(std::exchange(o.device_, nullptr)), info_(o.info_) {}
  Owned& operator=(Owned&& o) noexcept {
    if (this != &o) {
      destroy();
      device_ = std::exchange(o.device_, nullptr);
      info_ = o.info_;
    }
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { destroy(); }

  explicit operator bool() const noexcept { return device_ != nullptr; }
  const Info* operator->() const noexcept { return &info_; }
  [[nodiscard]] const Info& info() const noexcept { return info_; }
  // Destroys the object now. An error of the device is dropped.
  void destroy() noexcept {
    if (device_ != nullptr) (void)(device_->*Destroy)(info_.handle);
    device_ = nullptr;
  }

 private:
  Device* device_ = nullptr;
  Info info_;
};

using OwnedCq = Owned<CqInfo, &Device::destroy_cq>;
using OwnedQp = Owned<QpInfo, &Device::destroy_qp>;
using OwnedSrq = Owned<SrqInfo, &Device::destroy_srq>;
using OwnedRwq = Owned<RwqInfo, &Device::destroy_rwq>;
using OwnedRwqTable = Owned<RwqTableInfo, &Device::destroy_rwq_table>;

// Create an object by the device's function of the same name; the errors are that function's.
inline Result<OwnedCq> create_cq(Device& device, const CqRequest& request) {
  Result<CqInfo> info = device.create_cq(request);
  if (!info) return info.error();
  return OwnedCq{device, *info};
}
inline Result<OwnedCq> create_cq(Device& device, uint32_t entries) {
  return create_cq(device, CqRequest{.entries = entries});
}
inline Result<OwnedSrq> create_srq(Device& device, const SrqRequest& request) {
  Result<SrqInfo> info = device.create_srq(request);
  if (!info) return info.error();
  return OwnedSrq{device, *info};
}
inline Result<OwnedQp> create_rc(Device& device, const RcRequest& request) {
  Result<QpInfo> info = device.create_rc(request);
  if (!info) return info.error();
  return OwnedQp{device, *info};
}
inline Result<OwnedQp> create_uc(Device& device, const UcRequest& request) {
  Result<QpInfo> info = device.create_uc(request);
  if (!info) return info.error();
  return OwnedQp{device, *info};
}
// A reliable connection to itself, on which a worker binds mkeys.
inline Result<OwnedQp> create_rc_loopback(Device& device, const RcRequest& request) {
  Result<OwnedQp> qp = create_rc(device, request);
  if (!qp) return qp;
  Result<Endpoint> self = device.endpoint((*qp)->handle);
  if (!self) return self.error();
  if (Status s = device.connect((*qp)->handle, *self); !s) return s.error();
  return qp;
}
inline Result<OwnedQp> create_raw_packet(Device& device, const QpRequest& request, uint8_t port) {
  Result<QpInfo> info = device.create_raw_packet(request, port);
  if (!info) return info.error();
  return OwnedQp{device, *info};
}
inline Result<OwnedRwq> create_rwq(Device& device, const RwqRequest& request) {
  Result<RwqInfo> info = device.create_rwq(request);
  if (!info) return info.error();
  return OwnedRwq{device, *info};
}
inline Result<OwnedRwqTable> create_rwq_table(Device& device, std::span<const RwqHandle> queues) {
  Result<RwqTableInfo> info = device.create_rwq_table(queues);
  if (!info) return info.error();
  return OwnedRwqTable{device, *info};
}
inline Result<OwnedQp> create_hash_qp(Device& device, const HashQpRequest& request, uint8_t port) {
  Result<QpInfo> info = device.create_hash_qp(request, port);
  if (!info) return info.error();
  return OwnedQp{device, *info};
}

}  // namespace kilim::inline v1::device
