// SPDX-License-Identifier: BSD-3-Clause
// Memory of the adapter itself: a peer's write to it, and the adapter's own reading and writing,
// never cross the bus. Copied to and from in words of four bytes; regions on it are zero-based.
// Owner: whoever holds it; move-only. Its regions go first. Control path only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kilim/base/result.hh"
#include "kilim/mr/registrar.hh"

namespace kilim::mr {

class DeviceMemory {
 public:
  // ENOMEM: the adapter has not as much left; EINVAL: no bytes, or beyond what it has at all;
  // EOPNOTSUPP: it has none.
  static Result<DeviceMemory> create(Registrar& registrar, const BlockRequest& request) {
    return own(registrar, registrar.allocate_block(request));
  }
  // Of whoever shares the device's file: the number() of its block.
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

  // EINVAL: offset or length is no multiple of 4; EFAULT: beyond the end.
  Status write(uint64_t at, std::span<const std::byte> bytes) {
    return registrar_->write_block(block_, at, bytes);
  }
  Status read(uint64_t at, std::span<std::byte> bytes) const {
    return registrar_->read_block(block_, at, bytes);
  }
  // A region whose keys know the range's first byte as 0. EINVAL: the range leaves the block, or a
  // right that device memory does not have.
  Result<Mr> region(const BlockRange& range) const {
    return Mr::create_on_block(*registrar_, block_, range);
  }
  [[nodiscard]] std::span<std::byte> mapped() const noexcept { return block_.mapped; }
  [[nodiscard]] uint64_t size() const noexcept { return block_.mapped.size(); }
  [[nodiscard]] uint32_t number() const noexcept { return block_.number; }
  // EBUSY: regions are on it, and it stays.
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

}  // namespace kilim::mr
