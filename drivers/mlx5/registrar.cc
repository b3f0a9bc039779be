// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/registrar.hh"

#include <cerrno>

namespace kilim::mlx5 {

static_assert(mr::Access::local_write == IBV_ACCESS_LOCAL_WRITE &&
              mr::Access::remote_write == IBV_ACCESS_REMOTE_WRITE &&
              mr::Access::remote_read == IBV_ACCESS_REMOTE_READ &&
              mr::Access::remote_atomic == IBV_ACCESS_REMOTE_ATOMIC &&
              mr::Access::relaxed_ordering == IBV_ACCESS_RELAXED_ORDERING);

Result<mr::Region> VerbsRegistrar::register_memory(std::span<std::byte> memory, uint32_t access,
                                                   uint64_t page_bytes) {
  const auto address = reinterpret_cast<uint64_t>(memory.data());
  return register_memory_at(memory, Iova{address}, access, page_bytes);
}

Result<mr::Region> VerbsRegistrar::register_memory_at(std::span<std::byte> memory, Iova iova,
                                                      uint32_t access, uint64_t page_bytes) {
  const auto address = reinterpret_cast<uint64_t>(memory.data());
  VerbsMr mr{iova.value() == address
                 ? ibv_reg_mr(pd_, memory.data(), memory.size(), static_cast<int>(access))
                 : ibv_reg_mr_iova(pd_, memory.data(), memory.size(), iova.value(),
                                   static_cast<int>(access))};
  if (mr == nullptr) return Error{errno, "the adapter does not register this memory"};
  const mr::Region region{.address = address,
                          .length = memory.size(),
                          .iova = iova.value(),
                          .lkey = Lkey{mr->lkey},
                          .rkey = Rkey{mr->rkey},
                          .page_bytes = page_bytes,
                          .access = access};
  regions_.emplace(mr->lkey, std::move(mr));
  return region;
}

Status VerbsRegistrar::deregister(const mr::Region& region) {
  const auto at = regions_.find(region.lkey.value());
  if (at == regions_.end()) return Error{EINVAL, "the region is not registered here"};
  if (const int rc = ibv_dereg_mr(at->second.get()); rc != 0)
    return Error{rc, "the region is still in use"};
  (void)at->second.release();
  regions_.erase(at);
  return Done{};
}

Status MkeySource::create_keys(uint32_t max_entries, std::span<mr::IndirectMkey> out) {
  if (max_entries_ == 0) return Error{EOPNOTSUPP, "the adapter makes no indirect keys"};
  if (max_entries == 0 || max_entries > max_entries_)
    return Error{EINVAL, "a key of so many entries is beyond the adapter's limit"};
  for (std::size_t i = 0; i < out.size(); i++) {
    mlx5dv_mkey_init_attr attr{};
    attr.pd = pd_;
    attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
    attr.max_entries = static_cast<uint16_t>(max_entries);
    Mkey key{mlx5dv_create_mkey(&attr)};
    if (key == nullptr) {
      const Error e{errno, "the adapter makes no further indirect key"};
      destroy_keys(out.first(i));
      return e;
    }
    out[i] = {Lkey{key->lkey}, max_entries};
    keys_.emplace(index_of(out[i].lkey).value(), std::move(key));
  }
  return Done{};
}

void MkeySource::destroy_keys(std::span<const mr::IndirectMkey> keys) {
  for (const mr::IndirectMkey& k : keys) keys_.erase(index_of(k.lkey).value());
}

}  // namespace kilim::mlx5
