// SPDX-License-Identifier: BSD-3-Clause
// UAR pages as objects, and what mmap(2) of the device finds: their pages by cookie, the clock
// pages, device memory. Adapter's lock held.
#include "vhca/uverbs/uar.hh"

#include <cerrno>

#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <sys/mman.h>

#include "vhca/core/own_page.hh"
#include "vhca/core/refusal.hh"
#include "vhca/hca/verb_refusals.hh"
#include "vhca/uverbs/bundle.hh"
#include "vhca/uverbs/clock_page.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint64_t uar_page_bytes = 4096;
// Where mlx5_ib numbers the mappings that it makes for objects.
constexpr uint64_t first_cookie = uint64_t{9} << 16;
constexpr uint64_t last_cookie = first_cookie + 0xffff;
constexpr uint64_t clock_cookie = uint64_t{MLX5_IB_MMAP_CLOCK_INFO} << 8;
constexpr uint64_t core_clock_cookie = uint64_t{MLX5_IB_MMAP_CORE_CLOCK} << 8;

int alloc_uar(Context& context, Bundle& b) {
  uint64_t type = b.value(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE);
  if (type != MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF && type != MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC)
    return refusal::most("the type of UAR", type, MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC, EOPNOTSUPP);
  Result<hca::Uar*> page = context.hca.uars.alloc();
  if (!page) return refusal::of(page.error());
  (*page)->open = &context;
  auto made = std::make_unique<UarObject>();
  made->uar = *page;
  UarObject& uar = *made;
  context.add(std::move(made), {});
  uint64_t offset = (first_cookie + (*page)->index) * uar_page_bytes;
  int err = b.put(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, offset);
  if (err == 0)
    err = b.put(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, static_cast<uint32_t>(uar_page_bytes));
  if (err == 0) err = b.put(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, (*page)->index);
  if (err == 0) err = b.give(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, uar.handle);
  return context.keep_unless(err, uar);
}

int destroy_uar(Context& context, Bundle& b) {
  return destroy_by(context, b, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE);
}

constexpr AttrRule uar_alloc_rules[] = {
    {MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, AttrKind::fresh, true},
    {MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, AttrKind::in, true, 8, 8},
    {MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, AttrKind::out, true, 8, 8},
    {MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, AttrKind::out, true, 4, 4},
    {MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, AttrKind::out, true, 4, 4},
};
constexpr AttrRule uar_destroy_rules[] = {
    {MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, AttrKind::object, true, 0, 0, Kind::uar},
};
constexpr Method uar_table[] = {
    {MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, WhenDead::refused, alloc_uar,
     uar_alloc_rules},  // ALLOC_UAR
    {MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, WhenDead::runs, destroy_uar,
     uar_destroy_rules},
};

int check_read_only(const MapRequest& r) {
  if (r.length != uar_page_bytes) return refusal::equal("length", r.length, uar_page_bytes);
  return (r.prot & (PROT_WRITE | PROT_EXEC)) != 0
             ? refusal::bits("prot", static_cast<uint64_t>(r.prot), PROT_READ, EPERM)
             : 0;
}

int map_clock(const MapRequest& r, DeviceFile::Mapping& mapping) {
  if (int err = check_read_only(r); err != 0) return err;
  const int fd = clock_page::fd();
  if (fd < 0) return refusal::full("the clock's page");
  mapping = {fd, 0};
  return 0;
}

int map_core_clock(Context& context, const MapRequest& r, DeviceFile::Mapping& mapping) {
  if (int err = check_read_only(r); err != 0) return err;
  int fd = context.hca.clock.fd();
  if (fd < 0) return refusal::full("the clock's page");
  context.hca.tick_core_clock();
  mapping = {fd, 0};
  return 0;
}

}  // namespace

std::span<const Method> uar_methods() {
  return uar_table;
}

int UarObject::release(Context& context) {
  return context.hca.uars.free(uar->index);
}

namespace {

int map(Context& context, const MapRequest& request, DeviceFile::Mapping& mapping) {
  const bool device_memory = names_device_memory(request);
  if (context.disowned && !device_memory) return -EIO;
  if (!context.opened) return refusal::text(EINVAL, "this file has no context yet");
  uint64_t cookie = request.offset / uar_page_bytes;
  if (request.offset % uar_page_bytes != 0) return refusal::absent("offset", request.offset);
  if (device_memory) return map_device_memory(context, request, mapping);
  if (cookie == clock_cookie) return map_clock(request, mapping);
  if (cookie == core_clock_cookie) return map_core_clock(context, request, mapping);
  if (cookie < first_cookie || cookie > last_cookie)
    return refusal::absent("offset", request.offset);
  const UarObject* uar = context.find_uar(static_cast<uint32_t>(cookie - first_cookie));
  if (uar == nullptr || (request.flags & MAP_SHARED) == 0 || request.length != uar_page_bytes)
    return refusal::absent("the UAR (one page, MAP_SHARED) at this offset", request.offset);
  const bool in_file = hca::UarSet::put_into_file(*uar->uar, request.fd, request.offset);
  if (!in_file && !is_origin(uar->uar->fd.get(), uar->uar->page))
    return refusal::full("the UAR page");
  mapping = {in_file ? request.fd : uar->uar->fd.get(), in_file ? request.offset : 0, true};
  return 0;
}

}  // namespace

int find_mapping(Context& context, const MapRequest& request, DeviceFile::Mapping& mapping) {
  refusal::forget();
  const int err = map(context, request, mapping);
  if (err != 0) hca::tell_refusal(context.hca, "mmap", err);
  return err;
}

}  // namespace kilim::vhca::uverbs
