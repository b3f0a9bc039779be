// SPDX-License-Identifier: BSD-3-Clause
// VerbsRegistrar: regions of every kind over libibverbs (ibv_reg_mr, ibv_reg_mr_iova2,
// ibv_rereg_mr, ibv_advise_mr, ibv_import_mr, ibv_reg_dm_mr), in the device's protection domain and
// further ones. Owner: the device. Any thread, one mutex; never in a burst.
#pragma once

#include <array>
#include <mutex>
#include <span>
#include <unordered_map>

#include "kilim/detail/mr/registrar.hh"
#include "mlx5/handle.hh"

namespace kilim::mlx5 {

// Deregisters a region; an imported one is only unimported.
struct DropMr {
  bool imported = false;
  void operator()(ibv_mr* mr) const noexcept {
    if (imported) {
      ibv_unimport_mr(mr);
    } else {
      (void)ibv_dereg_mr(mr);
    }
  }
};
using OwnedMr = std::unique_ptr<ibv_mr, DropMr>;

// Frees device memory; an imported block is only unimported.
struct DropDm {
  bool imported = false;
  void operator()(ibv_dm* dm) const noexcept {
    if (imported) {
      ibv_unimport_dm(dm);
    } else {
      (void)ibv_free_dm(dm);
    }
  }
};
using OwnedDm = std::unique_ptr<ibv_dm, DropDm>;

class VerbsRegistrar final : public mr::Registrar {
 public:
  VerbsRegistrar(ibv_pd* pd, const mr::OdpCaps& odp, uint64_t max_block = 0) noexcept
      : pd_(pd), odp_(odp), max_block_(max_block) {}
  Result<mr::Region> register_memory(std::span<std::byte> memory, uint32_t access,
                                     uint64_t page_bytes) override;
  Result<mr::Region> register_memory_at(std::span<std::byte> memory, Iova iova, uint32_t access,
                                        uint64_t page_bytes) override;
  Status deregister(const mr::Region& region) override;
  Result<mr::Region> register_on_demand(std::span<std::byte> memory, uint32_t access,
                                        std::span<const mr::OdpUse> uses) override;
  Result<mr::Region> register_implicit(uint32_t access, std::span<const mr::OdpUse> uses) override;
  mr::Rereg reregister(mr::Region& region, const mr::Change& change) override;
  Status advise(const mr::AdviceRequest& request) override;
  Result<mr::Domain> create_domain() override;
  Status destroy_domain(mr::Domain domain) override;
  Result<uint32_t> export_region(const mr::Region& region) override;
  Result<mr::Region> import_region(uint32_t number) override;
  Result<mr::DeviceBlock> allocate_block(const mr::BlockRequest& request) override;
  Result<mr::DeviceBlock> import_block(uint32_t number) override;
  Status free_block(const mr::DeviceBlock& block) override;
  Status write_block(const mr::DeviceBlock& block, uint64_t at,
                     std::span<const std::byte> bytes) override;
  Status read_block(const mr::DeviceBlock& block, uint64_t at, std::span<std::byte> bytes) override;
  Result<mr::Region> register_block(const mr::DeviceBlock& block,
                                    const mr::BlockRange& range) override;
  [[nodiscard]] std::array<mr::RegionTotal, mr::kinds> totals() const override;

 private:
  struct Entry {
    OwnedMr mr;
    mr::Domain domain;
    bool undefined = false;
    mr::Kind kind = mr::Kind::pinned;
  };
  struct Request {
    std::span<std::byte> memory;
    uint64_t iova = 0;
    uint32_t access = 0;
    uint64_t page_bytes = 0;
    mr::Kind kind = mr::Kind::pinned;
  };
  // By lkey. An imported region has the same lkey as its original, so bit 32 tells them apart.
  using Entries = std::unordered_map<uint64_t, Entry>;
  static uint64_t slot_of(const mr::Region& region) noexcept {
    return region.lkey.value() | uint64_t{region.kind == mr::Kind::imported} << 32;
  }

  static uint64_t slot_of(const mr::DeviceBlock& block) noexcept {
    return block.number | uint64_t{block.imported} << 32;
  }

  ibv_dm* find_block(const mr::DeviceBlock& block) noexcept;
  Result<mr::DeviceBlock> adopt(OwnedDm dm, bool imported);
  Result<mr::Region> add(const Request& request, ibv_pd* pd, mr::Domain domain);
  Error refusal(int code, const Request& request);
  mr::Rereg change(Entries::iterator at, mr::Region& region, const mr::Change& change);
  mr::Rereg change_imported(Entries::iterator at, mr::Region& region, const mr::Change& change);
  void rekey(Entries::iterator at, mr::Region& region, const mr::Change& change);
  ibv_pd* pd_of(mr::Domain domain) noexcept;

  mutable std::mutex mutex_;
  ibv_pd* pd_;
  mr::OdpCaps odp_;
  uint64_t max_block_;  // bytes of device memory
  uint32_t next_domain_ = 1;
  std::array<char, 384> sentence_{};              // of the last ENOMEM
  std::unordered_map<uint32_t, Pd> domains_;      // destroyed after the regions in them
  std::unordered_map<uint64_t, OwnedDm> blocks_;  // destroyed after the regions on them
  Entries regions_;
};

}  // namespace kilim::mlx5
