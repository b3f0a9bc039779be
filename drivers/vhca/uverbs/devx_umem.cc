// SPDX-License-Identifier: BSD-3-Clause
// Memory of DevX clients: Linux drivers/infiniband/hw/mlx5/devx.c, devx_umem_get() and
// UVERBS_HANDLER(MLX5_IB_METHOD_DEVX_UMEM_REG). Pinned as a region is; the number is for commands.
// Adapter's lock held.
#include <cerrno>
#include <memory>

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include "vhca/core/refusal.hh"
#include "vhca/memory/probe.hh"
#include "vhca/uverbs/bundle.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint64_t umem_known_access =
    IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_READ |
    IB_UVERBS_ACCESS_RELAXED_ORDERING;
constexpr uint64_t written = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE;

int register_memory(Context& context, Bundle& b) {
  if (!context.devx)
    return refusal::lacks(
        "a firmware command, for which this context was not opened (mlx5dv_open_device() with "
        "MLX5DV_CONTEXT_FLAGS_DEVX),",
        EINVAL);
  const Va start{b.value(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR)};
  const uint64_t bytes = b.value(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN);
  const uint64_t access = b.value(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS);
  // ib_check_mr_access(): who may write from afar may write here.
  if ((access & ~umem_known_access) != 0) return refusal::bits("access", access, umem_known_access);
  if (bytes == 0) return refusal::least("size", 0, 1);
  if ((access & IB_UVERBS_ACCESS_REMOTE_WRITE) != 0 && (access & IB_UVERBS_ACCESS_LOCAL_WRITE) == 0)
    return refusal::clash("access with remote and without local write", access,
                          IB_UVERBS_ACCESS_LOCAL_WRITE);
  // Of the page sizes that the client allows one must be the kernel's, or what is larger.
  constexpr uint64_t smaller_than_a_page = 4095;
  if (b.has(MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP) &&
      (b.value(MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP) & ~smaller_than_a_page) == 0)
    return refusal::least("pgsz_bitmap", b.value(MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP), 4096);
  const bool writable = (access & written) != 0;
  if (int rc = memory::probe_range(start, bytes, writable); rc != 0)
    return refusal::fault(start.value(), -rc);
  auto made = std::make_unique<DevxUmemObject>();
  DevxUmemObject& object = *made;
  if (int err = object.pin.take(start, bytes); err != 0) return err;
  hca::Umem* umem = context.hca.umems.create(object.number);
  if (umem == nullptr) return refusal::full("umem_id");
  *umem = {start, bytes, writable, &context, 0};
  context.add(std::move(made), {});
  int err = b.put(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, object.number);
  if (err == 0) err = b.give(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, object.handle);
  return context.keep_unless(err, object);
}

int forget_memory(Context& context, Bundle& b) {
  return destroy_by(context, b, MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE);
}

constexpr AttrRule register_rules[] = {
    {MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, AttrKind::fresh, true},
    {MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR, AttrKind::in, true, 8, 8},
    {MLX5_IB_ATTR_DEVX_UMEM_REG_LEN, AttrKind::in, true, 8, 8},
    {MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS, AttrKind::in, false, 4, 8},
    {MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP, AttrKind::in, false, 8, 8},
    {MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, AttrKind::out, true, 4, 4},
};
constexpr AttrRule forget_rules[] = {
    {MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE, AttrKind::object, true, 0, 0, Kind::devx_umem},
};
constexpr Method umem_table[] = {
    {MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG, WhenDead::refused, register_memory,
     register_rules},  // CREATE_UMEM
    {MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG, WhenDead::runs, forget_memory,
     forget_rules},
};

}  // namespace

std::span<const Method> devx_umem_methods() {
  return umem_table;
}

// The firmware keeps what queues lie in.
int DevxUmemObject::release(Context& context) {
  return context.hca.umems.destroy(number);
}

}  // namespace kilim::vhca::uverbs
