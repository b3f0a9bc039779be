// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Device Memory Capabilities". The memory of steering by software (ICM): entries in one area,
// lists of header actions in another, both at addresses of the adapter's own. Clients write there
// by RDMA WRITE, through keys. Owner: the adapter; its lock held. Bytes in it are untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "kilim/detail/base/result.hh"

namespace kilim::vhca::ethernet {

// A range that a client has allocated.
struct IcmBlock {
  uint64_t address = 0;  // of the adapter's; 0: none
  uint64_t va = 0;       // where the engine has it
  uint64_t bytes = 0;    // a power of two
};

class IcmArea {
 public:
  static constexpr unsigned log_unit = 12;  // bytes are taken in powers of two from this on

  IcmArea(uint64_t start, unsigned log_bytes) noexcept : start_(start), log_bytes_(log_bytes) {}
  ~IcmArea();
  IcmArea(const IcmArea&) = delete;
  IcmArea& operator=(const IcmArea&) = delete;

  // A block of so many bytes or more, aligned to its size, all zero. EINVAL: none, or more than
  // there is; ENOMEM. Linux drivers/infiniband/hw/mlx5/dm.c, handle_alloc_dm_sw_icm(), rounds up
  // alike.
  Result<IcmBlock> alloc(uint64_t bytes);
  void dealloc(const IcmBlock&) noexcept;

  // The `bytes` bytes at that address of the adapter's; empty: some of them are nobody's.
  [[nodiscard]] std::span<const std::byte> at(uint64_t address, std::size_t bytes) const noexcept;

  [[nodiscard]] uint64_t start() const noexcept { return start_; }
  [[nodiscard]] unsigned log_bytes() const noexcept { return log_bytes_; }
  [[nodiscard]] bool has(uint64_t address) const noexcept {
    return address - start_ < uint64_t{1} << log_bytes_;
  }

 private:
  uint64_t start_;
  unsigned log_bytes_;
  std::byte* memory_ = nullptr;         // of the whole area; null: nothing was allocated yet
  std::map<uint64_t, uint64_t> taken_;  // from an offset to the bytes there
};

struct Icm {
  static constexpr uint64_t steering_start = uint64_t{1} << 36, rewrite_start = uint64_t{2} << 36;
  static constexpr unsigned log_steering = 26, log_rewrite = 20;
  IcmArea steering{steering_start, log_steering};
  IcmArea rewrite{rewrite_start, log_rewrite};
};

}  // namespace kilim::vhca::ethernet
