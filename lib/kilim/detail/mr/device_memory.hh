// SPDX-License-Identifier: BSD-3-Clause
// DeviceMemory: memory inside the adapter, so that accesses by peers and by the adapter do not
// cross the bus. The processor copies in words of four bytes; regions on it are zero-based. Owner:
// whoever holds it; move-only. Its regions are destroyed first. Control path only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/mr/registrar.hh"

namespace kilim::inline v1::mr {

class DeviceMemory {
 public:
  // ENOMEM: the adapter has too little left; EINVAL: no bytes, or more than the adapter has at all;
  // EOPNOTSUPP: the adapter has no such memory.
  static Result<DeviceMemory> create(Registrar& registrar, const BlockRequest& request) {
    return own(registrar, registrar.allocate_block(request));
  }
  // Imports the block with this number() from a process that shares the device's file.
  static Result<DeviceMemory> import(Registrar& registrar, uint32_t number) {
    return own(registrar, registrar.import_block(number));
  }
  DeviceMemory(DeviceMemory&& o) noexcept
      : registrar_(std::exchange(o.registrar_, nullptr)), block_(o.block_) {}
  DeviceMemory& operator=(DeviceMemory&& o) noexcept {
    if (this != &o) {
      (void)reset();
      registrar_ = std::exchange(o.registrar_, nullptr);
      block_ = o.block_;
    }
    return *this;
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { (void)reset(); }

  // Copies bytes to and from offset `at`. EINVAL: offset or length is no multiple of 4; EFAULT:
  // beyond the end.
  Status write(uint64_t at, std::span<const std::byte> bytes) {
    return registrar_->write_block(block_, at, bytes);
  }
  Status read(uint64_t at, std::span<std::byte> bytes) const {
    return registrar_->read_block(block_, at, bytes);
  }
  // Registers a range; its keys count from 0. EINVAL: the range exceeds the block, or asks for a
  // right that device memory does not have.
  Result<Mr> region(const BlockRange& range) const {
    return Mr::create_on_block(*registrar_, block_, range);
  }
  [[nodiscard]] std::span<std::byte> mapped() const noexcept { return block_.mapped; }
  [[nodiscard]] uint64_t size() const noexcept { return block_.mapped.size(); }
  [[nodiscard]] uint32_t number() const noexcept { return block_.number; }
  // Frees the block. EBUSY: it has regions, and stays.
  Status reset() noexcept {
    if (registrar_ == nullptr) return Done{};
    Status s = registrar_->free_block(block_);
    if (s.ok()) registrar_ = nullptr;
    return s;
  }

 private:
  static Result<DeviceMemory> own(Registrar& registrar, const Result<DeviceBlock>& block) {
    if (!block) return block.error();
    return DeviceMemory{registrar, *block};
  }
  DeviceMemory(Registrar& registrar, const DeviceBlock& block) noexcept
      : registrar_(&registrar), block_(block) {}
  Registrar* registrar_;
  DeviceBlock block_;
};

}  // namespace kilim::inline v1::mr
