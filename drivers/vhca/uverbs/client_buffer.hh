// SPDX-License-Identifier: BSD-3-Clause
// A buffer that a client named in a request: its address and length, both untrusted. Bytes pass by
// the guarded copy only. Any thread; adapter's lock held. Never allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kilim/detail/base/ident.hh"

namespace kilim::vhca::uverbs {

// From the client. At most 8 bytes may lie in the request itself (`embedded`).
class InBuffer {
 public:
  InBuffer() = default;
  InBuffer(Va at, uint32_t bytes) noexcept : at_(at), bytes_(bytes) {}
  static InBuffer embedded(uint64_t data, uint32_t bytes) noexcept;

  [[nodiscard]] uint32_t bytes() const noexcept { return bytes_; }
  // `bytes` from `offset` on; what the client's buffer is short of reads as zero. 0 or -EFAULT.
  int read(void* to, std::size_t bytes, std::size_t offset = 0) const noexcept;
  template <typename T>
  int read(T& to) const noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    return read(&to, sizeof(T), 0);
  }
  // As read(), and what lies beyond T must be zero: -EOPNOTSUPP.
  template <typename T>
  int read_whole(T& to) const noexcept {
    int err = read(to);
    return err != 0 ? err : zero_from(sizeof(T));
  }
  // 0, -EOPNOTSUPP: a byte from `offset` on is not zero, or -EFAULT.
  int zero_from(std::size_t offset) const noexcept;

 private:
  Va at_;
  uint32_t bytes_ = 0;
  bool embedded_ = false;
  uint64_t data_ = 0;
};

// To the client.
class OutBuffer {
 public:
  OutBuffer() = default;
  OutBuffer(Va at, uint32_t bytes) noexcept : at_(at), bytes_(bytes) {}

  [[nodiscard]] uint32_t bytes() const noexcept { return bytes_; }
  // What fits of `bytes`; a longer buffer's tail is zeroed. 0 or -EFAULT.
  int write(const void* from, std::size_t bytes) const noexcept;
  template <typename T>
  int write(const T& from) const noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    return write(&from, sizeof(T));
  }
  // Part of the buffer; what does not fit is left out, the rest stays.
  int write_at(std::size_t offset, const void* from, std::size_t bytes) const noexcept;

 private:
  Va at_;
  uint32_t bytes_ = 0;
};

// What a request of either interface brings: the core's part and the driver's.
struct Request {
  InBuffer in;
  OutBuffer out;
  InBuffer driver_in;
  OutBuffer driver_out;
};

}  // namespace kilim::vhca::uverbs
