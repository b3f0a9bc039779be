// SPDX-License-Identifier: BSD-3-Clause
// Regions by ibv_reg_mr, indirect keys by the command CREATE_MKEY (through DevX: libmlx5's own call
// makes no keys of fixed-size entries and none of 65,533 entries and more), in one protection
// domain. Owner: the device; any thread, one at a time.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "kilim/mr/key_source.hh"
#include "kilim/mr/registrar.hh"
#include "mlx5/handle.hh"

namespace kilim::mlx5 {

class VerbsRegistrar final : public mr::Registrar {
 public:
  explicit VerbsRegistrar(ibv_pd* pd) noexcept : pd_(pd) {}
  Result<mr::Region> register_memory(std::span<std::byte> memory, uint32_t access,
                                     uint64_t page_bytes) override;
  Result<mr::Region> register_memory_at(std::span<std::byte> memory, Iova iova, uint32_t access,
                                        uint64_t page_bytes) override;
  Status deregister(const mr::Region& region) override;

 private:
  ibv_pd* pd_;
  std::unordered_map<uint32_t, VerbsMr> regions_;  // by lkey
};

class MkeySource final : public mr::KeySource {
 public:
  // `max_entries` is the device's limit for one key, 0 where it makes none.
  MkeySource(ibv_pd* pd, uint32_t max_entries) noexcept : pd_(pd), max_entries_(max_entries) {}
  using mr::KeySource::create_keys;
  Status create_keys(const mr::KeyRequest& request, std::span<mr::IndirectMkey> out) override;
  void destroy_keys(std::span<const mr::IndirectMkey> keys) override;

 private:
  Result<mr::IndirectMkey> create_key(const mr::KeyRequest& request, uint32_t pdn);
  ibv_pd* pd_;
  uint32_t max_entries_;
  std::unordered_map<uint32_t, DevxObject> keys_;  // by index: the tag changes
};

}  // namespace kilim::mlx5
