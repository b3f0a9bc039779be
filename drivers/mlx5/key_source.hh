// SPDX-License-Identifier: BSD-3-Clause
// Indirect keys by the command CREATE_MKEY, in one protection domain: through DevX, since libmlx5's
// own call makes no keys of fixed-size entries and none of 65,533 entries and more.
// Owner: the device; any thread, one at a time.
#pragma once

#include <span>
#include <unordered_map>

#include "kilim/mr/key_source.hh"
#include "mlx5/handle.hh"

namespace kilim::mlx5 {

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
  struct Made {
    DevxObject memory_psv, wire_psv;  // destroyed behind the key
    DevxObject key;
  };
  std::unordered_map<uint32_t, Made> keys_;  // by index: the tag changes
};

}  // namespace kilim::mlx5
