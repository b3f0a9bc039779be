// SPDX-License-Identifier: BSD-3-Clause
// Ledger: for each buffer of a watched pool, whether somebody holds it, who took it last and who
// freed it last. Free buffers are filled with a pattern that is looked for when they are handed
// out. Owner: the pool. Any thread; nothing here is called unless PoolDebug::on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kilim/detail/pool/arena.hh"
#include "kilim/detail/pool/config.hh"
#include "kilim/detail/pool/debug.hh"
#include "kilim/detail/pool/handle.hh"
#include "kilim/detail/pool/who.hh"

namespace kilim::inline v1::pool {

class Ledger {
 public:
  // Makes the ledger of the pool that `config` describes, whose buffers are all free, and fills
  // them. nullptr: no memory.
  static std::unique_ptr<Ledger> open(const Arena& arena, const PoolConfig& config);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // The buffers were taken out of the pool by `who`. Reports those that were written to.
  void take(std::span<const uint32_t> indices, Who who) noexcept;
  // True: somebody holds the buffer. Else reports that `who` frees it.
  bool expect_held(uint32_t index, Who who) noexcept;
  // `who` was its last holder. False: another was faster, which is reported.
  bool release(uint32_t index, Who who) noexcept;
  // Reports all that is held, by its holders; returns how many buffers.
  uint32_t report_held() noexcept;

  // How often a buffer was handed out.
  [[nodiscard]] uint32_t generation(uint32_t index) const noexcept;
  [[nodiscard]] uint64_t faults() const noexcept { return faults_.load(std::memory_order_relaxed); }

 private:
  // A Who that another thread may read.
  struct Trace {
    std::atomic<const char*> tag{nullptr};
    std::atomic<const void*> at{nullptr};
    std::atomic<uint32_t> lcore{0};
    void set(Who who) noexcept;
    [[nodiscard]] Who get() const noexcept;
  };
  struct Entry {
    std::atomic<uint32_t> turn{0};  // generation << 1 | held
    Trace taken, freed;
  };
  Ledger(const Arena& arena, const PoolConfig& config, std::unique_ptr<Entry[]> entries) noexcept;

  [[nodiscard]] Entry* entry(uint32_t index) const noexcept {
    return index - first_ < count_ ? &entries_[index - first_] : nullptr;
  }
  void fill(uint32_t index) const noexcept;
  void check_filled(uint32_t index, const Entry& e, Who who) noexcept;
  // Counts a fault, and reports it unless there were too many. `what` follows the pool's name.
  void tell(PoolFault fault, const char* what) noexcept;
  void tell_double_free(uint32_t index, const Entry& e, Who who) noexcept;

  Arena arena_;
  uint32_t first_, count_;
  PoolDebug debug_;
  std::unique_ptr<Entry[]> entries_;
  char name_[32];
  std::atomic<uint64_t> faults_{0};
};

}  // namespace kilim::inline v1::pool
