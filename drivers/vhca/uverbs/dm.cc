// SPDX-License-Identifier: BSD-3-Clause
// Device memory: blocks of it, what is told of them to whoever maps or imports them, regions on
// them; and memory of steering by software, of adapters that let software own their steering.
// Adapter's lock held.
#include <cerrno>

#include <linux/capability.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vhca/core/refusal.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/hca/objects.hh"
#include "vhca/uverbs/bundle.hh"
#include "vhca/uverbs/uar.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint64_t dm_page_bytes = 4096;

// Whether this thread has both: what mlx5_ib asks of those who want memory for steering.
bool may_steer() noexcept {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3]{};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  constexpr uint32_t both = 1u << CAP_SYS_RAWIO | 1u << CAP_NET_RAW;
  return (data[0].effective & both) == both;
}

// Patterns of header actions came with format 1.
int refuse_type(const Profile& p, uint64_t type) noexcept {
  constexpr const char* needs_rights =
      "memory for steering needs CAP_NET_RAW and CAP_SYS_RAWIO, which this thread has not both";
  switch (type) {
    case MLX5_IB_UAPI_DM_TYPE_MEMIC:
      return 0;
    case MLX5_IB_UAPI_DM_TYPE_STEERING_SW_ICM:
    case MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_SW_ICM:
      if (!may_steer()) return refusal::text(EPERM, needs_rights);
      return p.software_steering ? 0 : refusal::lacks("memory for steering (ICM)");
    case MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_PATTERN_SW_ICM:
      return may_steer() ? refusal::lacks("memory for patterns of header actions")
                         : refusal::text(EPERM, needs_rights);
    default:
      return refusal::most("the type of device memory", type,
                           MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_PATTERN_SW_ICM,
                           type > UINT32_MAX ? EINVAL : EOPNOTSUPP);
  }
}

// The kernel hands out the page number where it is asked for, and fails where a client that needs
// it does not ask.
int report_page(Bundle& b, uint16_t id, uint16_t page) noexcept {
  return b.has(id) ? b.put(id, page) : refusal::attribute(id, 0, ENOENT);
}

// Linux drivers/infiniband/hw/mlx5/dm.c, handle_alloc_dm_sw_icm(): the answer is an address of the
// adapter's, and clients cannot map it.
int alloc_icm(Context& context, Bundle& b, bool rewrites) {
  ethernet::Icm& icm = context.hca.eth.soft->icm;
  ethernet::IcmArea& area = rewrites ? icm.rewrite : icm.steering;
  auto made = std::make_unique<DmObject>();
  Result<ethernet::IcmBlock> block = area.alloc(b.value(UVERBS_ATTR_ALLOC_DM_LENGTH));
  if (!block) return refusal::of(block.error());
  made->icm = *block;
  made->rewrites = rewrites;
  made->length = block->bytes;
  DmObject& dm = *made;
  context.add(std::move(made), {});
  int err = b.put(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, dm.icm.address);
  if (err == 0) err = b.give(UVERBS_ATTR_ALLOC_DM_HANDLE, dm.handle);
  return context.keep_unless(err, dm);
}

int alloc_dm(Context& context, Bundle& b) {
  const uint64_t type = b.value(MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE);
  if (int err = refuse_type(context.hca.config.profile, type); err != 0) return err;
  if (type != MLX5_IB_UAPI_DM_TYPE_MEMIC)
    return alloc_icm(context, b, type == MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_SW_ICM);
  const uint64_t length = b.value(UVERBS_ATTR_ALLOC_DM_LENGTH);
  const auto alignment = static_cast<uint32_t>(b.value(UVERBS_ATTR_ALLOC_DM_ALIGNMENT));
  auto made = std::make_unique<DmObject>();
  Result<hca::DmBlock> block = context.hca.dm.alloc({length, alignment, context.dm_open});
  if (!block) return refusal::of(block.error());
  made->block = std::move(*block);
  made->length = length;
  DmObject& dm = *made;
  context.add(std::move(made), {});
  int err = report_page(b, MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, dm.block.page_index());
  if (err == 0) err = b.put(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, uint64_t{dm.block.offset()});
  if (err == 0) err = b.give(UVERBS_ATTR_ALLOC_DM_HANDLE, dm.handle);
  return context.keep_unless(err, dm);
}

int free_dm(Context& context, Bundle& b) {
  return destroy_by(context, b, UVERBS_ATTR_FREE_DM_HANDLE);
}

int query_dm(Context& context, Bundle& b) {
  const auto* dm = b.object<DmObject>(context, MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE);
  if (dm->icm.address != 0)
    return refusal::clash("the device memory is of steering and cannot be imported: its address",
                          dm->icm.address, 0);
  int err = b.put(MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, dm->block.page_index());
  if (err == 0) err = b.put(MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, uint64_t{dm->block.offset()});
  return err != 0 ? err : b.put(MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, dm->length);
}

// The adapter has no operation that a store or a load to an address of it would do.
int map_op_addr(Context&, Bundle&) {
  return refusal::lacks("an operation of device memory (mlx5dv_dm_map_op_addr())");
}

// What the flags are refused for: by ib_core first, then by mlx5_ib.
int check_access(const Bundle& b, uint32_t& access) noexcept {
  constexpr uint32_t allowed = access::local_write | access::remote_write | access::remote_read |
                               access::remote_atomic | access::zero_based;
  const uint32_t bytes = b.in(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS).bytes();
  const uint64_t flags = b.value(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS);
  if (b.has(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS) && bytes != 4 && bytes != 8)
    return refusal::attribute(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, bytes);
  if ((flags & ~uint64_t{allowed}) != 0) return refusal::bits("access", flags, allowed);
  if ((flags & access::zero_based) == 0)
    return refusal::clash("access without IBV_ACCESS_ZERO_BASED", flags, access::zero_based);
  if ((flags & (access::remote_write | access::remote_atomic)) != 0 &&
      (flags & access::local_write) == 0)
    return refusal::clash("access with remote and without local write", flags, access::local_write);
  access = static_cast<uint32_t>(flags);
  return 0;
}

int reg_mr(Context& context, Bundle& b) {
  constexpr uint32_t allowed_for_icm =
      access::local_write | access::remote_write | access::remote_read | access::zero_based;
  auto* dm = b.object<DmObject>(context, UVERBS_ATTR_REG_DM_MR_DM_HANDLE);
  auto* pd = b.object<PdObject>(context, UVERBS_ATTR_REG_DM_MR_PD_HANDLE);
  const uint64_t offset = b.value(UVERBS_ATTR_REG_DM_MR_OFFSET);
  const uint64_t length = b.value(UVERBS_ATTR_REG_DM_MR_LENGTH);
  uint32_t access = 0;
  if (int err = check_access(b, access); err != 0) return err;
  if (offset > dm->length || length > dm->length - offset)
    return refusal::most("dm_offset and length together", offset + length, dm->length);
  const bool icm = dm->icm.address != 0;
  if (icm && (access & access::remote_atomic) != 0)  // mr.c, mlx5_ib_reg_dm_mr()
    return refusal::bits("access", access, allowed_for_icm);
  const Va at{(icm ? dm->icm.va : dm->block.va()) + offset};
  Result<MrKeys> keys = hca::reg_dm_mr(context.hca, {pd->pdn, at, length, access});
  if (!keys) return refusal::of(keys.error());
  auto made = std::make_unique<MrObject>();
  made->keys = *keys;
  made->length = length;
  made->iova = (icm ? dm->icm.address : dm->block.device_address()) + offset;
  made->access = access;
  MrObject& mr = *made;
  context.add(std::move(made), {pd, dm});
  int err = b.put(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, keys->lkey.value());
  if (err == 0) err = b.put(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, keys->rkey.value());
  if (err == 0) err = b.give(UVERBS_ATTR_REG_DM_MR_HANDLE, mr.handle);
  return context.keep_unless(err, mr);
}

constexpr AttrRule dm_alloc_rules[] = {
    {UVERBS_ATTR_ALLOC_DM_HANDLE, AttrKind::fresh, true},
    {UVERBS_ATTR_ALLOC_DM_LENGTH, AttrKind::in, true, 8, 8},
    {UVERBS_ATTR_ALLOC_DM_ALIGNMENT, AttrKind::in, true, 4, 4},
    {MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, AttrKind::out, true, 8, 8},
    {MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, AttrKind::out, false, 2, 2},
    {MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE, AttrKind::in, false, 8, 8},
};
constexpr AttrRule free_rules[] = {
    {UVERBS_ATTR_FREE_DM_HANDLE, AttrKind::object, true, 0, 0, Kind::dm},
};
constexpr AttrRule dm_query_rules[] = {
    {MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE, AttrKind::object, true, 0, 0, Kind::dm},
    {MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, AttrKind::out, true, 8, 8},
    {MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, AttrKind::out, true, 2, 2},
    {MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, AttrKind::out, true, 8, 8},
};
constexpr AttrRule map_op_rules[] = {
    {MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_HANDLE, AttrKind::object, true, 0, 0, Kind::dm},
    {MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_OP, AttrKind::in, true, 1, 1},
    {MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_START_OFFSET, AttrKind::out, true, 8, 8},
    {MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_PAGE_INDEX, AttrKind::out, false, 2, 2},
};
constexpr AttrRule reg_rules[] = {
    {UVERBS_ATTR_REG_DM_MR_HANDLE, AttrKind::fresh, true},
    {UVERBS_ATTR_REG_DM_MR_OFFSET, AttrKind::in, true, 8, 8},
    {UVERBS_ATTR_REG_DM_MR_LENGTH, AttrKind::in, true, 8, 8},
    {UVERBS_ATTR_REG_DM_MR_PD_HANDLE, AttrKind::object, true, 0, 0, Kind::pd},
    {UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, AttrKind::in, false, 0, 8},
    {UVERBS_ATTR_REG_DM_MR_DM_HANDLE, AttrKind::object, true, 0, 0, Kind::dm},
    {UVERBS_ATTR_REG_DM_MR_RESP_LKEY, AttrKind::out, true, 4, 4},
    {UVERBS_ATTR_REG_DM_MR_RESP_RKEY, AttrKind::out, true, 4, 4},
};
constexpr Method dm_table[] = {
    {UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, WhenDead::refused, alloc_dm,
     dm_alloc_rules},  // ALLOC_MEMIC
    {UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, WhenDead::runs, free_dm, free_rules},
    {UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_QUERY, WhenDead::runs, query_dm,
     dm_query_rules},  // no command (dm.c)
    {UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_MAP_OP_ADDR, WhenDead::runs, map_op_addr, map_op_rules},
    {UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG, WhenDead::refused, reg_mr,
     reg_rules},  // CREATE_MKEY
};

}  // namespace

std::span<const Method> dm_methods() {
  return dm_table;
}

// A child cannot give back what its parent's regions may lie on.
int DmObject::release(Context& context) {
  if (inherited) return -EIO;
  if (icm.address != 0) {
    ethernet::Icm& all = context.hca.eth.soft->icm;
    (rewrites ? all.rewrite : all.steering).dealloc(icm);
    return 0;
  }
  context.hca.dm.free(block, context.dm_open);
  return 0;
}

bool names_device_memory(const MapRequest& r) noexcept {
  return (r.offset / dm_page_bytes >> 8 & 0xff) == MLX5_IB_MMAP_DEVICE_MEM;
}

// As libmlx5 packs the page number around the command.
int map_device_memory(const Context& context, const MapRequest& r, DeviceFile::Mapping& mapping) {
  const uint64_t number = r.offset / dm_page_bytes;
  if (number >> 24 != 0 || (r.flags & MAP_SHARED) == 0) return refusal::absent("offset", r.offset);
  const DmObject* dm = context.find_dm(static_cast<uint16_t>(number >> 16 << 8 | (number & 0xff)));
  if (dm == nullptr) return refusal::absent("the device memory at this offset", r.offset);
  if (r.length != dm->block.pages().size())
    return refusal::equal("length", r.length, dm->block.pages().size());
  mapping = {dm->block.fd(), 0};
  return 0;
}

}  // namespace kilim::vhca::uverbs
