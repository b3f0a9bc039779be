// SPDX-License-Identifier: BSD-3-Clause
// Blocks of device memory over libibverbs: ibv_alloc_dm, ibv_import_dm, ibv_reg_dm_mr, copies.
#include <cerrno>

#include "kilim/detail/base/memory_reserve.hh"
#include "mlx5/registrar.hh"

namespace kilim::mlx5 {
namespace {

constexpr uint64_t page_bytes = 4096;

// The range at which libmlx5 has mapped the device memory (mlx5dv_init_obj(3)); empty: it does not
// tell.
std::span<std::byte> mapped(ibv_dm* dm) noexcept {
  mlx5dv_dm dv{};
  mlx5dv_obj obj{};
  obj.dm.in = dm;
  obj.dm.out = &dv;
  if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_DM) != 0) return {};
  return {static_cast<std::byte*>(dv.buf), static_cast<std::size_t>(dv.length)};
}

Error copy_refusal(int code) {
  switch (code) {
    case EINVAL:
      return {code, "device memory is copied in words of 4 bytes, from a multiple of 4"};
    case EFAULT:
      return {code, "the range leaves the block of device memory"};
    default:
      return {code, "the device memory was not copied"};
  }
}

constexpr Error unknown_block{EINVAL, "no such block of device memory"};

}  // namespace

ibv_dm* VerbsRegistrar::find_block(const mr::DeviceBlock& block) noexcept {
  const auto at = blocks_.find(slot_of(block));
  return at == blocks_.end() ? nullptr : at->second.get();
}

Result<mr::DeviceBlock> VerbsRegistrar::adopt(OwnedDm dm, bool imported) {
  const mr::DeviceBlock block{dm->handle, imported, mapped(dm.get())};
  if (block.mapped.empty())
    return Error{EOPNOTSUPP, "libmlx5 does not show the device memory's mapping"};
  if (!blocks_.emplace(slot_of(block), std::move(dm)).second)
    return Error{EEXIST, "the block is imported here already"};
  return block;
}

Result<mr::DeviceBlock> VerbsRegistrar::allocate_block(const mr::BlockRequest& request) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (max_block_ == 0) return Error{EOPNOTSUPP, "the adapter has no memory of its own"};
  ibv_alloc_dm_attr attr{request.bytes, request.log_alignment, 0};
  const std::lock_guard lock{mutex_};
  errno = 0;
  OwnedDm dm{ibv_alloc_dm(pd_->context, &attr)};
  if (dm != nullptr) return adopt(std::move(dm), false);
  const int code = errno != 0 ? errno : ENOMEM;
  if (code == ENOMEM) return Error{code, "the adapter has not as much memory of its own left"};
  return Error{code,
               "no bytes, more than the adapter has (Caps::max_device_memory), or an "
               "alignment beyond its limit"};
}

Result<mr::DeviceBlock> VerbsRegistrar::import_block(uint32_t number) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  const std::lock_guard lock{mutex_};
  errno = 0;
  OwnedDm dm{ibv_import_dm(pd_->context, number), DropDm{true}};
  if (dm == nullptr)
    return Error{errno != 0 ? errno : EOPNOTSUPP, "no block of this number is on this file"};
  return adopt(std::move(dm), true);
}

Status VerbsRegistrar::free_block(const mr::DeviceBlock& block) {
  const std::lock_guard lock{mutex_};
  const auto at = blocks_.find(slot_of(block));
  if (at == blocks_.end()) return unknown_block;
  if (!block.imported) {
    if (const int rc = ibv_free_dm(at->second.get()); rc != 0)
      return Error{rc, "regions are on the block of device memory"};
    (void)at->second.release();
  }
  blocks_.erase(at);
  return Done{};
}

Status VerbsRegistrar::write_block(const mr::DeviceBlock& block, uint64_t at,
                                   std::span<const std::byte> bytes) {
  const std::lock_guard lock{mutex_};
  ibv_dm* dm = find_block(block);
  if (dm == nullptr) return unknown_block;
  if (at > block.mapped.size()) return copy_refusal(EFAULT);
  const int rc = ibv_memcpy_to_dm(dm, at, bytes.data(), bytes.size());
  return rc == 0 ? Status{Done{}} : Status{copy_refusal(rc)};
}

Status VerbsRegistrar::read_block(const mr::DeviceBlock& block, uint64_t at,
                                  std::span<std::byte> bytes) {
  const std::lock_guard lock{mutex_};
  ibv_dm* dm = find_block(block);
  if (dm == nullptr) return unknown_block;
  if (at > block.mapped.size()) return copy_refusal(EFAULT);
  const int rc = ibv_memcpy_from_dm(bytes.data(), dm, at, bytes.size());
  return rc == 0 ? Status{Done{}} : Status{copy_refusal(rc)};
}

Result<mr::Region> VerbsRegistrar::register_block(const mr::DeviceBlock& block,
                                                  const mr::BlockRange& range) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  const std::lock_guard lock{mutex_};
  ibv_dm* dm = find_block(block);
  if (dm == nullptr) return unknown_block;
  const uint32_t access = range.access | mr::Access::zero_based;
  OwnedMr mr{ibv_reg_dm_mr(pd_, dm, range.at, range.bytes, access)};
  if (mr == nullptr)
    return Error{
        errno, "the range leaves the block, or a right that a key of device memory does not have"};
  const mr::Region region{.address = reinterpret_cast<uint64_t>(block.mapped.data()) + range.at,
                          .length = range.bytes,
                          .iova = 0,
                          .lkey = Lkey{mr->lkey},
                          .rkey = Rkey{mr->rkey},
                          .page_bytes = page_bytes,
                          .access = access,
                          .kind = mr::Kind::device};
  regions_.emplace(slot_of(region), Entry{std::move(mr), mr::Domain{0}, false, region.kind});
  return region;
}

}  // namespace kilim::mlx5
