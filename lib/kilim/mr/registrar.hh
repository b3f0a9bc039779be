// SPDX-License-Identifier: BSD-3-Clause
// Who makes memory known to a device. Implemented by the device's driver; control path only.
// Any thread, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kilim/base/ident.hh"
#include "kilim/base/result.hh"
#include "kilim/mr/region.hh"

namespace kilim::mr {

class Registrar {
 public:
  virtual ~Registrar() = default;
  // Memory that is mapped and, where `access` lets anybody write, writable. `page_bytes` is what
  // the caller knows of its pages and is only recorded.
  virtual Result<Region> register_memory(std::span<std::byte> memory, uint32_t access,
                                         uint64_t page_bytes) = 0;
  // The same under addresses of the caller's choice, which begin at the same place in a page.
  virtual Result<Region> register_memory_at(std::span<std::byte> memory, Iova iova, uint32_t access,
                                            uint64_t page_bytes) = 0;
  virtual Status deregister(const Region& region) = 0;
};

// A region that deregisters itself. Owner: whoever holds it; move-only.
class Mr {
 public:
  static Result<Mr> create(Registrar& registrar, std::span<std::byte> memory, uint32_t access,
                           uint64_t page_bytes) {
    Result<Region> region = registrar.register_memory(memory, access, page_bytes);
    if (!region) return region.error();
    return Mr{registrar, *region};
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
  void reset() noexcept {
    if (registrar_ != nullptr) (void)registrar_->deregister(region_);
    registrar_ = nullptr;
  }

 private:
  Mr(Registrar& registrar, const Region& region) noexcept
      : registrar_(&registrar), region_(region) {}
  Registrar* registrar_;
  Region region_;
};

}  // namespace kilim::mr
