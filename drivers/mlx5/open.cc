// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/open.hh"

#include <cerrno>
#include <cstring>

#include "kilim/detail/base/memory_reserve.hh"
#include "mlx5/caps.hh"
#include "mlx5/mlx5_device.hh"

namespace kilim::mlx5 {
namespace {

struct ListDelete {
  void operator()(ibv_device** list) const noexcept { ibv_free_device_list(list); }
};

// Opens with DevX if the adapter has it, because capabilities and indirect keys need it, and
// without it otherwise (mlx5dv_open_device(3)).
Context open_context(ibv_device* device) {
  mlx5dv_context_attr attr{};
  attr.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
  if (Context with_devx{mlx5dv_open_device(device, &attr)}) return with_devx;
  return Context{ibv_open_device(device)};
}

// ibv_get_device_list(3) fails with ENOSYS if the kernel's module ib_uverbs is not loaded.
Error no_list(int code) {
  if (code != ENOSYS) return {code, "libibverbs gives no list of adapters"};
  return {ENODEV,
          "this kernel offers no RDMA adapter (is ib_uverbs loaded?); hca=vhca0 is a virtual one"};
}

}  // namespace

Result<std::unique_ptr<device::Device>> open(const char* name, Progress progress,
                                             const std::string& sysfs) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  std::unique_ptr<ibv_device* [], ListDelete> list { ibv_get_device_list(nullptr) };
  if (list == nullptr) return no_list(errno);
  ibv_device* device = nullptr;
  for (std::size_t i = 0; list[i] != nullptr; i++) {
    if (std::strcmp(ibv_get_device_name(list[i]), name) == 0) device = list[i];
  }
  if (device == nullptr) return Error{ENODEV, "no adapter of this name; ibv_devices lists them"};
  if (!mlx5dv_is_supported(device)) return Error{EOPNOTSUPP, "the adapter is not an mlx5 one"};
  Context context = open_context(device);
  if (context == nullptr) return Error{errno, "the adapter cannot be opened"};
  Result<device::Caps> caps = read_caps(context.get());
  if (!caps) return caps.error();
  Pd pd{ibv_alloc_pd(context.get())};
  if (pd == nullptr) return Error{errno, "the adapter gives no protection domain"};
  return std::unique_ptr<device::Device>{
      new Mlx5Device(std::move(context), std::move(pd), *caps, progress, sysfs)};
}

}  // namespace kilim::mlx5
