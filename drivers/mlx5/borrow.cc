// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/borrow.hh"

#include <cerrno>

#include "mlx5/caps.hh"
#include "mlx5/mlx5_device.hh"

namespace kilim::mlx5 {
namespace {

// Polls a completion queue to which nothing ever completes: an empty poll runs a virtual adapter
// under the launcher.
void poll_empty(void* cq) {
  ibv_wc none;
  (void)ibv_poll_cq(static_cast<ibv_cq*>(cq), 1, &none);
}

}  // namespace

Result<std::unique_ptr<device::Device>> borrow(ibv_pd* pd) {
  ibv_context* context = pd->context;
  if (!mlx5dv_is_supported(context->device))
    return Error{EOPNOTSUPP, "the adapter is not an mlx5 one"};
  Result<device::Caps> caps = read_caps(context);
  if (!caps) return caps.error();
  VerbsCq empty{ibv_create_cq(context, 1, nullptr, nullptr, 0)};
  if (empty == nullptr) return Error{errno, "the adapter makes no further completion queue"};
  const Progress progress{poll_empty, empty.get()};
  return std::unique_ptr<device::Device>{new Mlx5Device(pd, *caps, progress, std::move(empty))};
}

}  // namespace kilim::mlx5
