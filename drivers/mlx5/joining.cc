// SPDX-License-Identifier: BSD-3-Clause
// Hash targets of a device that join TCP segments (LRO): TIRs of the firmware instead of verbs'
// hash queue pairs. Control path only.
#include <cerrno>

#include "mlx5/mlx5_device.hh"
#include "mlx5/tir.hh"

namespace kilim::mlx5 {
Result<device::QpInfo> Mlx5Device::create_joining_tir(const device::HashQpRequest& request,
                                                      uint8_t port, uint32_t table) {
  if (!caps_.lro.supported) return Error{EOPNOTSUPP, "the adapter joins no TCP segments (LRO)"};
  if (port != 1)
    return Error{EOPNOTSUPP, "TCP segments (LRO) are joined on an adapter's first port only"};
  if (caps_.lro.units(request.lro->max_bytes) == 0)
    return Error{EINVAL, "joined TCP segments (LRO) need more room in a receive"};
  if (!domain_.object) {
    Result<FirmwareObject> domain = create_transport_domain(context_.get());
    if (!domain) return domain.error();
    domain_ = *std::move(domain);
  }
  Result<FirmwareObject> tir =
      create_tir(context_.get(), request, {.table = table, .domain = domain_.number}, caps_.lro);
  if (!tir) return tir.error();
  device::QpInfo info;
  info.handle = device::QpHandle{next_handle_++};
  tirs_.emplace(info.handle.value(), *std::move(tir));
  return info;
}

Status Mlx5Device::destroy_tir(std::unordered_map<uint32_t, FirmwareObject>::iterator tir) {
  if (const int rc = mlx5dv_devx_obj_destroy(tir->second.object.get()); rc != 0)
    return Error{rc < 0 ? errno : rc, "the TIR is still in use"};
  (void)tir->second.object.release();
  tirs_.erase(tir);
  return Done{};
}

}  // namespace kilim::mlx5
