// SPDX-License-Identifier: BSD-3-Clause
// VerbsMkeySource: makes indirect mkeys by the command CREATE_MKEY through DevX, in one protection
// domain. mlx5dv_create_mkey() cannot be used: it makes no KSM keys, and none of 65,533 or more
// entries. Owner: the device; any thread, one at a time.
#pragma once

#include <span>
#include <unordered_map>

#include "kilim/detail/mr/mkey_source.hh"
#include "mlx5/handle.hh"

namespace kilim::mlx5 {

class VerbsMkeySource final : public mr::MkeySource {
 public:
  // `max_entries` is the device's limit for one key; 0: it makes no indirect mkeys.
  VerbsMkeySource(ibv_pd* pd, uint32_t max_entries) noexcept : pd_(pd), max_entries_(max_entries) {}
  using mr::MkeySource::create_mkeys;
  Status create_mkeys(const mr::MkeyRequest& request, std::span<mr::IndirectMkey> out) override;
  void destroy_mkeys(std::span<const mr::IndirectMkey> keys) override;

 private:
  Result<mr::IndirectMkey> create_key(const mr::MkeyRequest& request, uint32_t pdn);
  ibv_pd* pd_;
  uint32_t max_entries_;
  struct Made {
    DevxObject memory_psv, wire_psv;  // destroyed after the key
    DevxObject key;
  };
  std::unordered_map<uint32_t, Made> keys_;  // by index: the tag changes
};

}  // namespace kilim::mlx5
