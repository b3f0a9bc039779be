// SPDX-License-Identifier: BSD-3-Clause
// Registrar: registers memory with a device, in every way that the device offers. Mr: a region that
// deregisters itself.
// Implemented by the device's driver; control path only. Any thread; the driver locks.
// The sentence of an ENOMEM contains numbers and is valid until the registrar's next ENOMEM.
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/detail/mr/advice.hh"
#include "kilim/detail/mr/device_block.hh"
#include "kilim/detail/mr/odp_caps.hh"
#include "kilim/detail/mr/region.hh"
#include "kilim/detail/mr/rereg.hh"

namespace kilim::inline v1::mr {

class Registrar {
 public:
  virtual ~Registrar() = default;
  // Registers mapped memory, which is writable if `access` has a right to write. `page_bytes` is
  // the page size as the caller knows it, and only recorded.
  virtual Result<Region> register_memory(std::span<std::byte> memory, uint32_t access,
                                         uint64_t page_bytes) = 0;
  // Registers memory under keys that count from `iova`, which has the memory's offset within a
  // page.
  virtual Result<Region> register_memory_at(std::span<std::byte> memory, Iova iova, uint32_t access,
                                            uint64_t page_bytes) = 0;
  // Deregisters a region; an imported one stays registered where it came from. EBUSY: a window is
  // bound to it.
  virtual Status deregister(const Region& region) = 0;

  // A registrar may lack any of the following functions: they return EOPNOTSUPP.

  // Registers addresses for on-demand paging; they need no memory yet. EOPNOTSUPP names the first
  // capability that the device lacks for `uses`.
  virtual Result<Region> register_on_demand(std::span<std::byte> memory, uint32_t access,
                                            std::span<const OdpUse> uses) {
    (void)memory, (void)access, (void)uses;
    return Error{EOPNOTSUPP, lacking};
  }
  // Registers the whole address space for on-demand paging, later mappings included.
  virtual Result<Region> register_implicit(uint32_t access, std::span<const OdpUse> uses) {
    (void)access, (void)uses;
    return Error{EOPNOTSUPP, lacking};
  }
  // Changes a registered region as ibv_rereg_mr; `region` is updated to what is valid afterwards.
  virtual Rereg reregister(Region& region, const Change& change) {
    (void)region, (void)change;
    return {ReregOutcome::refused, {EOPNOTSUPP, lacking}};
  }
  // Advises the device to fetch pages, as ibv_advise_mr(3) does. ENOENT: the key is unknown or of a
  // pinned region; EINVAL: it is no region's key; EPERM: another protection domain, or not
  // writable; EFAULT: out of bounds or not mapped; EAGAIN: try again.
  virtual Status advise(const AdviceRequest& request) {
    (void)request;
    return Error{EOPNOTSUPP, lacking};
  }
  // Creates a protection domain for Change::new_domain; destroying it returns EBUSY while it has
  // regions, EINVAL: there is no such domain.
  virtual Result<Domain> create_domain() { return Error{EOPNOTSUPP, lacking}; }
  virtual Status destroy_domain(Domain domain) {
    (void)domain;
    return Error{EOPNOTSUPP, lacking};
  }
  // A number for import_region() in a process that shares the device's file.
  virtual Result<uint32_t> export_region(const Region& region) {
    (void)region;
    return Error{EOPNOTSUPP, lacking};
  }
  virtual Result<Region> import_region(uint32_t number) {
    (void)number;
    return Error{EOPNOTSUPP, lacking};
  }

  // Device memory; mr/device_memory.hh lists the errors.
  virtual Result<DeviceBlock> allocate_block(const BlockRequest& request) {
    (void)request;
    return Error{EOPNOTSUPP, lacking};
  }
  virtual Result<DeviceBlock> import_block(uint32_t number) {
    (void)number;
    return Error{EOPNOTSUPP, lacking};
  }
  virtual Status free_block(const DeviceBlock& block) {
    (void)block;
    return Error{EOPNOTSUPP, lacking};
  }
  virtual Status write_block(const DeviceBlock& block, uint64_t at,
                             std::span<const std::byte> bytes) {
    (void)block, (void)at, (void)bytes;
    return Error{EOPNOTSUPP, lacking};
  }
  virtual Status read_block(const DeviceBlock& block, uint64_t at, std::span<std::byte> bytes) {
    (void)block, (void)at, (void)bytes;
    return Error{EOPNOTSUPP, lacking};
  }
  virtual Result<Region> register_block(const DeviceBlock& block, const BlockRange& range) {
    (void)block, (void)range;
    return Error{EOPNOTSUPP, lacking};
  }

  // What is registered now, by Kind; memory that the library allocated counts as pinned. Any
  // thread, at any time.
  [[nodiscard]] virtual std::array<RegionTotal, kinds> totals() const { return {}; }

 private:
  static constexpr const char* lacking = "this registrar knows pinned memory only";  // EOPNOTSUPP
};

// A region that deregisters itself. Owner: whoever holds it; move-only.
class Mr {
 public:
  // Register memory by the registrar's function of the same purpose. `registrar` outlives the Mr.
  static Result<Mr> create(Registrar& registrar, std::span<std::byte> memory, uint32_t access,
                           uint64_t page_bytes) {
    return own(registrar, registrar.register_memory(memory, access, page_bytes));
  }
  static Result<Mr> create_on_demand(Registrar& registrar, std::span<std::byte> memory,
                                     uint32_t access, std::span<const OdpUse> uses = {}) {
    return own(registrar, registrar.register_on_demand(memory, access, uses));
  }
  static Result<Mr> create_implicit(Registrar& registrar, uint32_t access,
                                    std::span<const OdpUse> uses = {}) {
    return own(registrar, registrar.register_implicit(access, uses));
  }
  static Result<Mr> create_on_block(Registrar& registrar, const DeviceBlock& block,
                                    const BlockRange& range) {
    return own(registrar, registrar.register_block(block, range));
  }
  Mr(Mr&& o) noexcept : registrar_(std::exchange(o.registrar_, nullptr)), region_(o.region_) {}
  Mr& operator=(Mr&& o) noexcept {
    if (this != &o) {
      reset();
      registrar_ = std::exchange(o.registrar_, nullptr);
      region_ = o.region_;
    }
    return *this;
  }
  Mr(const Mr&) = delete;
  Mr& operator=(const Mr&) = delete;
  ~Mr() { reset(); }

  [[nodiscard]] const Region& region() const noexcept { return region_; }
  // Changes the region (Registrar::reregister()); region() is what is valid afterwards.
  Rereg reregister(const Change& change) { return registrar_->reregister(region_, change); }
  // Deregisters. An error, such as EBUSY for a region with a bound window, is dropped.
  void reset() noexcept {
    if (registrar_ != nullptr) (void)registrar_->deregister(region_);
    registrar_ = nullptr;
  }

 private:
  static Result<Mr> own(Registrar& registrar, Result<Region> region) {
    if (!region) return region.error();
    return Mr{registrar, *region};
  }
  Mr(Registrar& registrar, const Region& region) noexcept
      : registrar_(&registrar), region_(region) {}
  Registrar* registrar_;
  Region region_;
};

}  // namespace kilim::inline v1::mr
